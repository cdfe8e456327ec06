#pragma once

#include "base/mutant.h"

namespace dovetail::pipeline {

// Faults of the runner that tests build in (base/mutant.h).
enum class RunMutant {
  kNone,
  kEmitsEarly,       // a record is emitted before it is durable
  kLeavesRoom,       // a model is offered one cell at a time
  kStoresLate,       // a cell reaches the store after what was made of it
  kForgetsToStore,   // a cell counts as ended and is never stored
  kOtherOrder,       // fair between columns where records are to be finished first, and the reverse
  kIgnoresWindow,    // opens records without bound
  kSeedsByTurn,      // a cell's seed depends on how many were sent before it
  kDefersForAnswer,  // an invalid answer waits until nothing else can be done
  kSeedsByPlace,     // in a shared run, a cell's seed depends on when its record came to the worker
  kCompletesEarly,   // a range of a shared run is complete before it is durable
  kKeepsLost,        // the records of a range that was lost are made as if it were not
  kCount
};

}  // namespace dovetail::pipeline
