#pragma once

#include "base/mutant.h"

namespace dovetail::engine {

// Faults of the engine that tests build in (base/mutant.h).
enum class Mutant {
  kNone,
  kAcceptAllDrafts,   // tokens after a draft token are accepted whether it was right or not
  kOneRandomPerStep,  // all tokens of a step are sampled with the same random number
  kReadPastTheEnd,    // draft tokens after the end token are accepted
  kPlaceholder,       // planned ahead, a row computes a placeholder instead of the real last token
  kStaleDrafts,       // the computed draft tokens are not those compared
  kStateNotLoaded,    // a sequence whose states were saved goes on with those of its slot
  kOneSaveForAll,     // all rows of a step save the states that its first one is to save
  kDraftsTooEarly,    // draft tokens follow a step's first token, however many were right
  kDecodesAhead,      // planned ahead, a decode row's first position is one too far
  kBudgetOfSteps,     // a budget of reasoning holds for the first token of a step alone
  kCount
};

}  // namespace dovetail::engine
