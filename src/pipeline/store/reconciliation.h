#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "pipeline/store/batch.h"
#include "pipeline/store/cell.h"

namespace dovetail::pipeline {

// How the columns of a run differ from those it had.
struct Reconciliation {
  enum class Change : std::uint8_t { kKept, kAdded, kRemade };
  std::vector<Change> columns;       // of those given, in their order
  std::vector<std::string> removed;  // those that the run had and that are gone
  std::uint64_t deleted_cells = 0;   // 0 where it was only compared
};

// By name and fingerprint. A name that is there twice and too many columns are errors.
Result<Reconciliation> compare_columns(std::span<const ColumnSpec> before,
                                       std::span<const ColumnSpec> now);

// compare_columns(), and the slots that the columns get, which those that are kept had before.
struct SlotPlan {
  Reconciliation found;
  std::vector<StoredColumn> next;
  std::vector<bool> gone;  // by slot: its cells are deleted; up to kMaxSlot
  bool deletes = false;    // whether any slot is
};
Result<SlotPlan> plan_slots(std::span<const StoredColumn> before, std::span<const ColumnSpec> now);

}  // namespace dovetail::pipeline
