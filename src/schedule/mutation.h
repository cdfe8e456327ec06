#pragma once

#include "base/mutant.h"

namespace dovetail::schedule {

// Faults of the scheduler that tests build in (base/mutant.h).
enum class Mutant {
  kNone,
  kStaleFrontier,     // law 1: waiting sequences are considered only when none runs
  kPartOfTheBlocks,   // law 2: admission checks for one block only
  kPrefillFirst,      // law 3: prefill goes before decode rows
  kNoFloor,           // law 3: decode rows may fill every step
  kPreemptOldest,     // law 4: the preempted sequence may have a row already
  kBackOfTheQueue,    // law 4: a preempted sequence queues behind all others
  kDropOnShortage,    // law 4: a preempted sequence is dropped
  kOvertake,          // law 4: the youngest waiting sequence is admitted first
  kPromptOnlyTarget,  // law 5: after a preemption prefill ends with the prompt
  kWrongDraftsStay,   // law 5: positions of rejected draft tokens count as computed
  kAheadOfDrafts,     // law 5: a plan is made while draft tokens are in flight
  kReadmitAtOnce,     // law 4: a plan admits a sequence that it preempted
  kMiddleIsSampled,   // chunks that do not end a prompt are sampled
  kReserveOfAll,      // decode rows of other classes take tokens of the step, too
  kPartlyReadIsCut,   // a preempted prompt that was partly read loses a token
  kFindsOthers,       // law 5: one that is to compute all its positions finds those of others
  kCount
};

}  // namespace dovetail::schedule
