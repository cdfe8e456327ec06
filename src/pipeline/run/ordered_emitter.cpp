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
}

Result<bool> OrderedEmitter::durable(std::uint64_t batch, std::size_t most) {
  for (auto next = waiting_.find(next_); next != waiting_.end() && next->second.batch <= batch;
       next = waiting_.find(next_)) {
    if (reached()) return false;
    if (most-- == 0) return true;
    if (Status ok = pass_on(next->second); !ok) return fail(std::move(ok.error()));
    waiting_.erase(next);
    ++next_;
  }
  return false;
}

Status OrderedEmitter::pass_on(Waiting& waiting) {
  if (waiting.record) {
    --rows_;
  } else {
    const auto cells = store_.read_record(next_);
    if (!cells) return fail(cells.error());
    auto restored = restore(spec_, *cells);
    if (!restored) return fail(std::move(restored.error()));
    waiting.record = *std::move(restored);
  }
  OpenRecord& record = *waiting.record;
  FinishedRecord finished{next_, Json::object(), std::move(record.reason)};
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
  for (const ColumnDescription& column : spec_.columns) {
    if (column.drop) continue;
    const auto value = record.row.find(column.name);
    finished.row[column.name] = value == record.row.end() ? Json(nullptr) : std::move(*value);
  }
  return emit_(finished);
}

}  // namespace dovetail::pipeline
