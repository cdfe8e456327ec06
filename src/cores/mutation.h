#pragma once

#include <cstdint>

#include "base/mutant.h"

namespace dovetail::cores {

// Faults of the dispatcher that tests build in (base/mutant.h).
enum class DispatchMutant {
  kNone,
  kAdmitsInParts,      // law 2: a mixed task is let into a group where foreign work still runs
  kGangInParts,        // law 2: a gang starts with the blocks that find lanes
  kReservesNothing,    // law 4: lanes that a mixed task waits for go to any other task
  kBackOfTheQueue,     // law 4: a mixed task that finds no lanes queues again behind all others
  kNoStarvationBound,  // law 4: mixed tasks pass over the others for ever
  kYoungestFirst,      // law 4: of equal tasks of a single lane
  kStaysPending,       // law 1: what is pending stays there, whatever comes free
  kLosesABlock,        // law 4: the last of some
  kGangsForEver,       // law 4: gangs pass over older mixed tasks for ever
  kForgets,            // law 4: a mixed task that has waited, once something else has come
  kBackfillsLate,      // law 4: lanes that a mixed task waits for go to work that ends after that
  kAllForAGang,        // law 1: while a gang waits, lanes that it does not need stay idle
  kHalfTheBound,  // law 4: a task of one lane has its turn twice as often, beside one that waits
  kChoosesAgain,  // law 4: other lanes are reserved for a mixed task whenever these look better
  kKindsApart,    // law 4: on lanes of both kinds matrix work goes before older vector work
  kCount
};

// The same for executors.
enum class ExecutorMutant {
  kNone,
  kLetsSleep,      // law 1: lanes that sleep are not woken for what is in the rings
  kMatrixFirst,    // law 4: a lane that does both kinds does matrix work first, whatever its age
  kOpensTooEarly,  // law 4: lanes take from the rings while a mixed task waits
  kCount
};

// The same for the gates at which parts of mixed tasks and gangs meet and are counted.
enum class GateMutant {
  kNone,
  kFirstPartEnds,   // a block ends with the first of its parts
  kFirstBlockEnds,  // a task ends with the first of its blocks
  kFreesTheFirst,   // the first gate of a gang is freed while other blocks look at it
  kBlockOfItsOwn,   // parts of a gang wait for as many as their own block has
  kStaysArrived,    // who came to a gate before it was freed, counts when it is opened again
  kCount
};

// The same for what threads take blocks from: ReadyRing and Handoff.
enum class ClaimMutant {
  kNone,
  kTwoSteps,    // a block is looked up and then taken, and others may come in between
  kOneTooMany,  // a block after the last one of a task
  kOneTooFew,   // the last one of several is left out
  kCount
};

// The number of blocks that the ring and the handoff count, of a task with that many.
inline std::uint32_t mutated_blocks(std::uint32_t blocks) {
  if (mutated(ClaimMutant::kOneTooMany)) return blocks + 1;
  return mutated(ClaimMutant::kOneTooFew) && blocks > 1 ? blocks - 1 : blocks;
}

// The same for the ring of output memory.
enum class RingMutant {
  kNone,
  kFullIsEmpty,    // where head and tail are in one place, as if nothing was held
  kStraddles,      // a request that does not fit before the end begins there
  kKeepsItsPlace,  // an empty ring goes on where it was
  kGapTwice,       // what is lost at the end counts twice
  kCount
};

}  // namespace dovetail::cores
