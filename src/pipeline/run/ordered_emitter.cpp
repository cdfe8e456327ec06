#include "pipeline/run/ordered_emitter.h"

#include <utility>

#include "pipeline/run/column_work.h"

namespace dovetail::pipeline {

void OrderedEmitter::add(RecordId record, std::uint64_t batch, OpenRecord&& what) {
  Waiting waiting{batch, std::nullopt};
  if (rows_ < most_rows_ || record == next_) {
    waiting.record = std::move(what);
    ++rows_;
  }
  waiting_.emplace(record, std::move(waiting));
  if (!in_order_) ended_.push_back(record);
}

// That is passed on next.
std::optional<RecordId> OrderedEmitter::first() const {
  if (in_order_) return next_;
  return ended_.empty() ? std::nullopt : std::optional(ended_.front());
}

Result<bool> OrderedEmitter::durable(std::uint64_t batch, std::size_t most) {
  for (auto record = first(); record; record = first()) {
    const auto next = waiting_.find(*record);
    if (next == waiting_.end() || next->second.batch > batch || reached()) return false;
    if (most-- == 0) return true;
    if (Status ok = pass_on(*record, next->second); !ok) return fail(std::move(ok.error()));
    waiting_.erase(next);
    if (!in_order_) ended_.pop_front();
    ++next_;
  }
  return false;
}

Status OrderedEmitter::pass_on(RecordId number, Waiting& waiting) {
  if (waiting.record) {
    --rows_;
  } else {
    const auto cells = store_.read_record(number);
    if (!cells) return fail(cells.error());
    auto restored = restore(spec_, *cells);
    if (!restored) return fail(std::move(restored.error()));
    waiting.record = *std::move(restored);
  }
  OpenRecord& record = *waiting.record;
  FinishedRecord finished{number, Json::object(), std::move(record.reason)};
  if (finished.reason.empty() && spec_.target) {
    finished.reason = refusal(*spec_.target, record.row);
  }
  if (finished.reason.empty()) {
    ++accepted_;
    for (std::size_t i = 0; i < figures_.size(); ++i) {
      const auto counts = counts_for(spec_.figures[i], record.row);
      figures_[i].of += counts ? 1 : 0;
      figures_[i].hits += counts == true ? 1 : 0;
    }
  }
  for (ColumnId i = 0; i < spec_.columns.size(); ++i) {
    const ColumnDescription& column = spec_.columns[i];
    if (column.drop) continue;
    const auto found = record.row.find(column.name);
    Json value = found == record.row.end() ? Json(nullptr) : std::move(*found);
    const Json cut = value.is_null() ? Json(nullptr) : Json(record.cut.contains(i));
    finished.row[column.name] = std::move(value);
    if (std::string mark = cut_mark(column); !mark.empty()) finished.row[std::move(mark)] = cut;
  }
  return emit_(finished);
}

}  // namespace dovetail::pipeline
