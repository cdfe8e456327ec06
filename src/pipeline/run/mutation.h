#pragma once

namespace dovetail::pipeline {

// Ways to break the runner on purpose, to see that the law checker notices. A build with the
// compile definition DOVETAIL_RUN_MUTANT=N has the N-th; the product has none of them, and pays
// nothing.
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

#ifdef DOVETAIL_RUN_MUTANT
inline constexpr RunMutant kRunMutant = static_cast<RunMutant>(DOVETAIL_RUN_MUTANT);
#else
inline constexpr RunMutant kRunMutant = RunMutant::kNone;
#endif

}  // namespace dovetail::pipeline
