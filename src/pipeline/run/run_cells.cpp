#include <algorithm>
#include <utility>
#include <variant>

#include "pipeline/run/column_work.h"
#include "pipeline/run/mutation.h"
#include "pipeline/run/run.h"

namespace dovetail::pipeline {
namespace {

// Cells without a model that are made before models are looked after again: a fraction of a
// millisecond.
constexpr int kInstantCells = 64;

}  // namespace

// Gives each model what it has room for, from its own queue; nothing once the cost is reached.
void Run::begin() {
  for (QueueId model = 0; model <= queues_.blocking; ++model) {
    std::uint32_t room = model == queues_.blocking ? pool_.room() : ports_.models[model].room();
    note({.kind = RunEventKind::kRoom, .queue = model, .number = room});
    while (room > 0) {
      if (will_be_paid_out()) return;
      const auto cell = frontier_.take(model);
      if (!cell) break;
      if (skip(*cell)) continue;
      if (model == queues_.blocking) {
        work(*cell);
      } else if (!ask(model, *cell)) {
        room = 1;
      }
      --room;
      if (mutated(RunMutant::kLeavesRoom)) break;
    }
    note({.kind = RunEventKind::kPass, .queue = model, .number = room});
  }
}

// Makes some of the cells that need no model; true: there are more.
bool Run::make_instant_cells() {
  for (int count = 0; count < kInstantCells; ++count) {
    // Models open the records that they need; without models, whatever is next is opened.
    if (opens_by_demand_ && frontier_.ready(queues_.instant) == 0) return false;
    const auto cell = frontier_.take(queues_.instant);
    if (!cell) return false;
    if (!skip(*cell)) make(*cell);
  }
  return true;
}

void Run::make(Cell cell) {
  OpenRecord& record = open_.at(cell.record);
  const ColumnDescription& column = spec_.columns[cell.column];
  if (!std::holds_alternative<SeedColumn>(column.what) &&
      !std::holds_alternative<DrawnColumn>(column.what)) {
    auto value = evaluate(column, record.row, id_of(cell.record), seed_of(cell, 0));
    return value ? keep(cell, *std::move(value), {}) : give_up(cell, value.error());
  }
  // It may have been drawn together with another.
  if (!record.row.contains(column.name)) {
    if (const Status drawn = ports_.draw(cell.column, id_of(cell.record), record.row); !drawn) {
      return give_up(cell, drawn.error());
    }
  }
  Json value = record.row.at(column.name);
  keep(cell, std::move(value), {});
}

// Makes a cell on another thread.
void Run::work(Cell cell) {
  const ColumnDescription& column = spec_.columns[cell.column];
  ++under_way_;
  ++progress_.columns[cell.column].in_flight;
  note({.kind = RunEventKind::kSend, .queue = queues_.blocking, .cell = cell});
  pool_.submit([inbox = inbox_, cell, &column, record = id_of(cell.record), seed = seed_of(cell, 0),
                row = open_.at(cell.record).row] {
    return
        [inbox, worked = Worked{cell, evaluate(column, row, record, seed)}] { inbox->put(worked); };
  });
}

void Run::hear(Worked& worked) {
  --under_way_;
  --progress_.columns[worked.cell.column].in_flight;
  if (!open_.contains(worked.cell.record)) return frontier_.end(worked.cell);
  note({.kind = RunEventKind::kAnswer, .queue = queues_.blocking, .cell = worked.cell});
  worked.value ? keep(worked.cell, *std::move(worked.value), {})
               : give_up(worked.cell, worked.value.error());
}

// True: the cell is skipped, by its own condition or since something that it needs is not there.
bool Run::skip(Cell cell) {
  const ColumnDescription& column = spec_.columns[cell.column];
  OpenRecord& record = open_.at(cell.record);
  const bool lacks =
      column.propagate_skip && std::any_of(column.needs.begin(), column.needs.end(),
                                           [&](ColumnId need) { return record.absent[need]; });
  const Result<bool> skipped = lacks ? Result<bool>(true) : is_skipped(column, record.row);
  if (!skipped) {
    give_up(cell, skipped.error());
    return true;
  }
  if (!*skipped) return false;
  set_absent(cell);
  ++progress_.columns[cell.column].skipped;
  end(cell, CellState::kSkipped, "", {});
  return true;
}

void Run::set_absent(Cell cell) {
  OpenRecord& record = open_.at(cell.record);
  record.absent[cell.column] = true;
  record.row[spec_.columns[cell.column].name] = nullptr;
}

void Run::keep(Cell cell, Json value, const Provenance& provenance) {
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  OpenRecord& record = open_.at(cell.record);
  record.row[spec_.columns[cell.column].name] = std::move(value);
  if (provenance.cut) record.cut.insert(cell.column);
  ++progress_.columns[cell.column].values;
  end(cell, CellState::kValue, std::move(text), provenance);
}

void Run::give_up(Cell cell, const Error& error) {
  const ColumnDescription& column = spec_.columns[cell.column];
  OpenRecord& record = open_.at(cell.record);
  set_absent(cell);
  ++progress_.columns[cell.column].failed;
  const bool drops = column.on_failure == FailurePolicy::kDropRecord;
  std::string reason = fmt::format("{}: {}", column.name, error.message);
  if (drops) record.drop(cell.column, reason);
  end(cell, drops ? CellState::kDropped : CellState::kFailed, std::move(reason),
      cost_of_failed(cell));
}

// Its cell is on its way into the store; what needed it may begin.
void Run::end(Cell cell, CellState state, std::string json, const Provenance& provenance) {
  note({.kind = RunEventKind::kEnd, .cell = cell, .number = static_cast<std::uint64_t>(state)});
  if (provenance.cut) ++progress_.columns[cell.column].cut;
  const bool forgets = mutated(RunMutant::kForgetsToStore);
  if (!forgets || cell.record % 16 != 3 || cell.column != 1) {
    unstored_.push_back({id_of(cell.record), cell.column, state, std::move(json), provenance});
  }
  if (shared_) shared_->ranges().make(cell.record);
  if (state == CellState::kDropped) frontier_.drop(cell.record);
  frontier_.end(cell);
}

}  // namespace dovetail::pipeline
