#pragma once

#include <span>
#include <vector>

#include "base/result.h"
#include "pipeline/store/batch.h"
#include "pipeline/store/cell.h"
#include "pipeline/store/reconciliation.h"

namespace dovetail::pipeline {

// compare_columns(), and the slots that the columns get, which those that are kept had before.
struct SlotPlan {
  Reconciliation found;
  std::vector<StoredColumn> next;
  std::vector<bool> gone;  // by slot: its cells are deleted; up to kMaxSlot
  bool deletes = false;    // whether any slot is
};
Result<SlotPlan> plan_slots(std::span<const StoredColumn> before, std::span<const ColumnSpec> now);

}  // namespace dovetail::pipeline
