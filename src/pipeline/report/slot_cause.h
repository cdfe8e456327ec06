#pragma once

#include "pipeline/report/activity.h"
#include "pipeline/run/model_client.h"

namespace dovetail::pipeline {

// Why an endpoint has no more in flight, of what the endpoint says and what the run knows: whether
// cells of its model are ready, and whether no record can be opened since the window is full.
inline SlotCause slot_cause(IdleCause idle, bool cells_ready, bool window_full) {
  static_assert(kIdleCauses == 5 &&
                static_cast<int>(IdleCause::kBroken) == static_cast<int>(SlotCause::kBroken));
  if (idle != IdleCause::kNone) return static_cast<SlotCause>(idle);
  if (cells_ready) return SlotCause::kTaking;
  return window_full ? SlotCause::kWindow : SlotCause::kNothingReady;
}

}  // namespace dovetail::pipeline
