#include "pipeline/run/record_ranges.h"

#include <algorithm>
#include <cassert>
#include <iterator>

namespace dovetail::pipeline {

RecordRanges::Places RecordRanges::add(const RecordRange& range, std::vector<CellResult> stored) {
  range_records_ = range.end - range.first;
  const Places places{places_, places_ + range_records_};
  const bool was_begun = !stored.empty();
  ranges_.emplace_hint(
      ranges_.end(), places.first,
      Range{range, was_begun, std::move(stored), std::vector<bool>(range_records_), 0});
  places_ = places.end;
  return places;
}

RecordRanges::Ranges::const_iterator RecordRanges::find(Place place) const {
  const auto after = ranges_.upper_bound(place);
  if (after == ranges_.begin()) return ranges_.end();
  const auto range = std::prev(after);
  const RecordRange& records = range->second.records;
  return place - range->first < records.end - records.first ? range : ranges_.end();
}

RecordId RecordRanges::record(Place place) const {
  const auto range = find(place);
  assert(range != ranges_.end());
  return range->second.records.first + (place - range->first);
}

std::vector<CellResult> RecordRanges::stored(Place place) {
  std::vector<CellResult>& all = at(place).stored;
  const RecordId wanted = record(place);
  const auto first = std::partition_point(
      all.begin(), all.end(), [&](const CellResult& cell) { return cell.record < wanted; });
  const auto end = std::partition_point(
      first, all.end(), [&](const CellResult& cell) { return cell.record == wanted; });
  return {std::move_iterator(first), std::move_iterator(end)};
}

std::optional<Place> RecordRanges::place_of(RecordId record) const {
  for (const auto& [first, range] : ranges_) {
    if (range.records.first <= record && record < range.records.end) return first;
  }
  return std::nullopt;
}

std::size_t RecordRanges::of_one_range(std::span<const CellResult> cells) const {
  const auto place = place_of(cells.front().record);
  assert(place);
  const RecordId end = ranges_.at(*place).records.end;
  return static_cast<std::size_t>(
      std::find_if(cells.begin(), cells.end(),
                   [&](const CellResult& cell) { return cell.record >= end; }) -
      cells.begin());
}

void RecordRanges::make(Place place) {
  const auto range = find(place);
  ranges_.at(range->first).made[place - range->first] = true;
}

void RecordRanges::end(Place place, std::uint64_t batch, bool dropped) {
  ended_.push_back({place, batch, dropped});
}

RecordRanges::Progress RecordRanges::durable(std::uint64_t batch) {
  Progress progress;
  for (; !ended_.empty() && ended_.front().batch <= batch; ended_.pop_front()) {
    const Ended& ended = ended_.front();
    const auto found = find(ended.place);
    if (found == ranges_.end()) continue;  // it was lost
    const Place first = found->first;
    Range& range = ranges_.at(first);
    if (range.made[ended.place - first]) ++(ended.dropped ? progress.dropped : progress.made);
    if (++range.durable < range.made.size()) continue;
    progress.complete.push_back(range.records);
    ranges_.erase(first);
  }
  return progress;
}

std::optional<std::pair<RecordRange, RecordRanges::Places>> RecordRanges::lose(Place first) {
  const auto range = ranges_.find(first);
  if (range == ranges_.end()) return std::nullopt;
  const RecordRange records = range->second.records;
  ranges_.erase(range);
  return std::pair(records, Places{first, first + (records.end - records.first)});
}

}  // namespace dovetail::pipeline
