#pragma once

#include <cstdint>

namespace dovetail::cores {

// Ways to break the dispatcher on purpose, to see that tests notice. A build with the compile
// definition DOVETAIL_DISPATCH_MUTANT=N has the N-th; the product has none.
enum class DispatchMutant {
  kNone,
  kAdmitsInParts,    // law 2: a mixed task is let into a group where foreign work still runs
  kCohortInParts,    // law 2: a cohort starts with the blocks that find lanes
  kKeepsNothing,     // law 4: lanes that a mixed task waits for go to whoever comes
  kBackOfTheQueue,   // law 4: a mixed task that finds no lanes queues again behind all others
  kNoPatience,       // law 4: mixed tasks pass over the others for ever
  kYoungestFirst,    // law 4: of equal tasks of a single lane
  kStaysParked,      // law 1: what is parked stays there, whatever comes free
  kLosesABlock,      // law 4: the last of some
  kCohortsForEver,   // law 4: cohorts pass over older mixed tasks for ever
  kForgets,          // law 4: a mixed task that has waited, once something else has come
  kBackfillsLate,    // law 4: lanes that a mixed task waits for go to work that ends after that
  kAllForACohort,    // law 1: while a cohort waits, lanes that it does not need stay idle
  kHalfThePatience,  // law 4: a task of one lane has its turn twice as often, beside one that waits
  kChoosesAgain,     // law 4: other lanes are kept for a mixed task whenever these look better
  kCount
};

#ifdef DOVETAIL_DISPATCH_MUTANT
inline constexpr auto kDispatchMutant = static_cast<DispatchMutant>(DOVETAIL_DISPATCH_MUTANT);
#else
inline constexpr auto kDispatchMutant = DispatchMutant::kNone;
#endif

// The same for executors, by DOVETAIL_EXECUTOR_MUTANT=N.
enum class ExecutorMutant {
  kNone,
  kLetsSleep,      // law 1: lanes that sleep are not woken for what is in the rings
  kMatrixFirst,    // law 4: a lane that does both kinds does matrix work first, whatever its age
  kOpensTooEarly,  // law 4: lanes take from the rings while a mixed task waits
  kCount
};

#ifdef DOVETAIL_EXECUTOR_MUTANT
inline constexpr auto kExecutorMutant = static_cast<ExecutorMutant>(DOVETAIL_EXECUTOR_MUTANT);
#else
inline constexpr auto kExecutorMutant = ExecutorMutant::kNone;
#endif

// The same for the gates at which parts of mixed tasks and cohorts meet and are counted, by
// DOVETAIL_GATE_MUTANT=N.
enum class GateMutant {
  kNone,
  kFirstPartEnds,   // a block ends with the first of its parts
  kFirstBlockEnds,  // a task ends with the first of its blocks
  kFreesTheFirst,   // the first gate of a cohort is freed while other blocks look at it
  kBlockOfItsOwn,   // parts of a cohort wait for as many as their own block has
  kStaysArrived,    // who came to a gate before it was freed, counts when it is opened again
  kCount
};

#ifdef DOVETAIL_GATE_MUTANT
inline constexpr auto kGateMutant = static_cast<GateMutant>(DOVETAIL_GATE_MUTANT);
#else
inline constexpr auto kGateMutant = GateMutant::kNone;
#endif

// The same for what threads take blocks from, ReadyRing and Relay, by DOVETAIL_CLAIM_MUTANT=N.
enum class ClaimMutant {
  kNone,
  kTwoSteps,    // a block is looked up and then taken, and others may come in between
  kOneTooMany,  // a block after the last one of a task
  kOneTooFew,   // the last one of several is left out
  kCount
};

#ifdef DOVETAIL_CLAIM_MUTANT
inline constexpr auto kClaimMutant = static_cast<ClaimMutant>(DOVETAIL_CLAIM_MUTANT);
#else
inline constexpr auto kClaimMutant = ClaimMutant::kNone;
#endif

// So many blocks, for whoever counts them.
constexpr std::uint32_t mutated_blocks(std::uint32_t blocks) {
  if (kClaimMutant == ClaimMutant::kOneTooMany) return blocks + 1;
  return kClaimMutant == ClaimMutant::kOneTooFew && blocks > 1 ? blocks - 1 : blocks;
}

// The same for the ring of output memory, by DOVETAIL_RING_MUTANT=N.
enum class RingMutant {
  kNone,
  kFullIsEmpty,    // where head and tail are in one place, as if nothing was held
  kStraddles,      // a request that does not fit before the end begins there
  kKeepsItsPlace,  // an empty ring goes on where it was
  kGapTwice,       // what is lost at the end counts twice
  kCount
};

#ifdef DOVETAIL_RING_MUTANT
inline constexpr auto kRingMutant = static_cast<RingMutant>(DOVETAIL_RING_MUTANT);
#else
inline constexpr auto kRingMutant = RingMutant::kNone;
#endif

}  // namespace dovetail::cores
