#include "pipeline/store/row_reader.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace dovetail::pipeline {
namespace {

constexpr std::uint32_t kNoColumn = std::numeric_limits<std::uint32_t>::max();

}  // namespace

Status RowReader::start(std::vector<StoredColumn> columns) {
  columns_ = std::move(columns);
  keys_.clear();
  last_.reset();
  column_of_slot_.clear();
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const std::size_t slot = columns_[i].slot;
    if (slot >= column_of_slot_.size()) column_of_slot_.resize(slot + 1, kNoColumn);
    if (column_of_slot_[slot] != kNoColumn) {
      return fail(ErrorKind::kInvalid, "two columns in one place");
    }
    column_of_slot_[slot] = static_cast<std::uint32_t>(i);
  }
  return {};
}

Result<bool> RowReader::add(RowKey key, std::string_view body, const Sink& sink) {
  if (last_ && key <= *last_) return fail(ErrorKind::kInvalid, "rows out of order");
  bool more = true;
  if (!keys_.empty() && record_of(key) != record_of(keys_[0])) {
    auto handed = end(sink);
    if (!handed) return handed;
    more = *handed;
  }
  if (rows_.size() == keys_.size()) rows_.emplace_back();
  rows_[keys_.size()].assign(body);
  keys_.push_back(key);
  last_ = key;
  return more;
}

Result<bool> RowReader::end(const Sink& sink) {
  if (keys_.empty()) return true;
  const std::uint64_t record = record_of(keys_[0]);
  const auto broken = [&](std::string_view what) {
    return fail(ErrorKind::kInvalid, "record {}: {}", record, what);
  };
  cells_.clear();
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    if (auto ok = decode_row(rows_[i], keys_[i], cells_); !ok) return broken(ok.error().message);
  }
  keys_.clear();
  for (SlotCell& found : cells_) {
    if (found.slot >= column_of_slot_.size() || column_of_slot_[found.slot] == kNoColumn) {
      return broken("a cell of no column");
    }
    found.slot = column_of_slot_[found.slot];
  }
  const auto by_column = [](const SlotCell& a, const SlotCell& b) { return a.slot < b.slot; };
  if (!std::is_sorted(cells_.begin(), cells_.end(), by_column)) {
    std::sort(cells_.begin(), cells_.end(), by_column);
  }
  for (std::size_t i = 1; i < cells_.size(); ++i) {
    if (cells_[i - 1].slot == cells_[i].slot) return broken("a cell is there twice");
  }
  for (const SlotCell& found : cells_) {
    if (found.state == CellState::kForgotten) continue;
    if (!sink({record, found.slot, found.state, found.json, found.provenance})) return false;
  }
  return true;
}

}  // namespace dovetail::pipeline
