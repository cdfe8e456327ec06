#include "pipeline/run/failed_cells.h"

#include <algorithm>
#include <vector>

namespace dovetail::pipeline {
namespace {

bool has_failed(CellState state) {
  return state == CellState::kFailed || state == CellState::kDropped;
}

// Adds the columns that need one of them, directly or not.
void add_dependents(const PipelineSpec& spec, std::vector<bool>& columns) {
  for (bool grows = true; grows;) {
    grows = false;
    for (ColumnId column = 0; column < spec.columns.size(); ++column) {
      const std::vector<ColumnId>& needs = spec.columns[column].needs;
      if (columns[column] ||
          std::none_of(needs.begin(), needs.end(), [&](ColumnId need) { return columns[need]; })) {
        continue;
      }
      columns[column] = true;
      grows = true;
    }
  }
}

// Of one record: its cells by column.
void forget(const PipelineSpec& spec, const std::vector<CellResult>& cells, Store& store) {
  std::vector<bool> gone(spec.columns.size(), false);
  for (const CellResult& cell : cells) gone[cell.column] = has_failed(cell.state);
  add_dependents(spec, gone);
  std::vector<CellResult> forgotten;
  for (const CellResult& cell : cells) {
    if (!gone[cell.column]) continue;
    forgotten.push_back({cell.record, cell.column, CellState::kForgotten, "", {}});
  }
  store.put(forgotten, nullptr);
}

}  // namespace

Result<std::uint64_t> forget_failed_cells(const PipelineSpec& spec, Store& store) {
  std::uint64_t failed = 0;
  std::vector<CellResult> record;  // the states of one record's cells
  const auto end_record = [&] {
    const auto count = std::count_if(record.begin(), record.end(),
                                     [](const CellResult& cell) { return has_failed(cell.state); });
    if (count > 0) forget(spec, record, store);
    failed += static_cast<std::uint64_t>(count);
    record.clear();
  };
  const Status read = store.for_each_cell([&](const CellView& cell) {
    if (!record.empty() && record.front().record != cell.record) end_record();
    record.push_back({cell.record, cell.column, cell.state, "", {}});
    return true;
  });
  if (!read) return fail(read.error());
  end_record();
  if (const Status stored = store.flush(); !stored) return fail(stored.error());
  return failed;
}

}  // namespace dovetail::pipeline
