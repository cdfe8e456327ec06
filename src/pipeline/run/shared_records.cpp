#include "pipeline/run/shared_records.h"

#include <algorithm>
#include <utility>
#include <variant>

namespace dovetail::pipeline {

SharedRecords::Change SharedRecords::hear(LeaseNews news) {
  Change change;
  if (auto* taken = std::get_if<RangeTaken>(&news)) {
    asked_ = none_free_ = false;
    // It was lost, which has not been heard of.
    if (const auto before = ranges_.place_of(taken->range.first)) change.lost = forget(*before);
    ranges_.add(taken->range, std::move(taken->cells));
    change.leased = taken->range;
  } else if (const auto* lost = std::get_if<RangeLost>(&news)) {
    if (const auto range = ranges_.place_of(lost->range.first)) change.lost = lose(*range);
  } else if (auto* failed = std::get_if<LeasesFailed>(&news)) {
    change.failure = std::move(failed->error);
  } else if (std::holds_alternative<NoRangeFree>(news)) {
    none_free_ = true;
  } else {
    all_made_ = true;
  }
  return change;
}

std::optional<SharedRecords::Lost> SharedRecords::lose(Place range) {
  auto lost = forget(range);
  // Should it have come again meanwhile, it is nobody's otherwise.
  if (lost) thread_.give_back(lost->records);
  return lost;
}

std::optional<SharedRecords::Lost> SharedRecords::forget(Place range) {
  const auto lost = ranges_.lose(range);
  if (!lost) return std::nullopt;
  return Lost{lost->first, lost->second};
}

void SharedRecords::lease_ahead(Place opened) {
  const std::uint64_t ahead = ranges_.places() - opened;
  if (asked_ || ahead >= std::max(ranges_.range_records(), std::uint64_t{1})) return;
  asked_ = true;
  thread_.take();
}

RecordRanges::Progress SharedRecords::durable(std::uint64_t batch) {
  RecordRanges::Progress progress = ranges_.durable(batch);
  for (const RecordRange& range : progress.complete) thread_.complete(range);
  return progress;
}

}  // namespace dovetail::pipeline
