#pragma once

#include <cstdint>
#include <functional>

#include "pipeline/flow/column_plan.h"

namespace dovetail::pipeline {

enum class RunEventKind : std::uint8_t {
  kOpen,     // record
  kStored,   // cell: the store has it from an earlier run
  kSend,     // cell; queue: model, number: seed, attempt
  kAnswer,   // cell; queue: model, number: 1 where the model was busy or away
  kCached,   // cell: its answer is known from an earlier session
  kPutBack,  // cell: it waits again
  kDefer,    // cell: it waits until nothing else can be done
  kEnd,      // cell; number: its CellState
  kStore,    // cell; number: the batch with which it was handed to the store
  kDurable,  // number: batch; so are those before it
  kEmit,     // record; number: 1 where it was dropped
  kRoom,     // queue: model, number: requests that it would begin; it is offered cells
  kPass,     // queue: model, number: room that is left after that
  kLease,    // of a shared run: records from `record` up to `number`, not included, are this
             // worker's; nothing of what came earlier under these numbers counts any more
  kLost,     // such a range is another worker's now
  kComplete  // such a range is, in the store
};

// What a run did, in order; for whoever wants to judge it.
struct RunEvent {
  RunEventKind kind = RunEventKind::kOpen;
  QueueId queue = 0;
  Cell cell = {};  // its record is the run's, also where several processes share it
  std::uint64_t number = 0;
  std::uint32_t attempt = 0;
};

using RunObserver = std::function<void(const RunEvent&)>;

}  // namespace dovetail::pipeline
