#pragma once

namespace dovetail::schedule {

// Ways to break the scheduler on purpose, to see that tests notice. A build with the compile
// definition DOVETAIL_MUTANT=N has the N-th; the product has none of them, and pays nothing.
enum class Mutant {
  kNone,
  kStaleFrontier,     // law 1: who waits is considered only when nothing runs any more
  kPartOfTheBlocks,   // law 2: admission looks whether one block is there
  kBlocksStay,        // law 2: whoever leaves forgets to give back its first block
  kPrefillFirst,      // law 3: prompts go before those that decode
  kNoFloor,           // law 3: decodes may fill the step for ever
  kOldestGivesWay,    // law 4, and it is planned already
  kBackOfTheQueue,    // law 4: who gave way queues again behind all others
  kDropOnShortage,    // law 4: who gave way is forgotten
  kOvertake,          // law 4: the youngest that waits goes first
  kPromptOnlyTarget,  // law 5: after a preemption prefill ends with the prompt
  kLastBlockIsAHit,   // law 5: nothing is left to compute
  kWrongGuessesStay,  // law 5: positions of wrong guesses count as computed
  kAheadOfGuesses,    // law 5: a plan is made before it is known what became of guesses
  kCount
};

#ifdef DOVETAIL_MUTANT
inline constexpr Mutant kMutant = static_cast<Mutant>(DOVETAIL_MUTANT);
#else
inline constexpr Mutant kMutant = Mutant::kNone;
#endif

constexpr bool mutated(Mutant mutant) { return kMutant == mutant; }

}  // namespace dovetail::schedule
