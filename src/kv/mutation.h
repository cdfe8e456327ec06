#pragma once

#include "base/mutant.h"

namespace dovetail::kv {

// Faults of the cache's books that tests build in (base/mutant.h).
enum class Mutant {
  kNone,
  kBlocksStay,          // law 2: a released sequence keeps its first block
  kLastBlockIsAHit,     // law 5: a full prefix hit leaves nothing to compute
  kWindowIsShort,       // law 5: a window's block is released one position early
  kWindowStays,         // law 2: blocks behind a window are never released
  kHitWithoutWindow,    // law 5: a prefix hit does not ask for the window's blocks
  kStateIsEarly,        // law 5: a state is saved one position early
  kStateOfOthers,       // law 5: a state is saved where another one may still be read
  kWrongDraftsInState,  // law 5: a sequence goes on with a state that took rejected draft tokens
  kWrongDraftsSaved,    // law 5: a state that took them can be found
  kGeneratedAsPrompt,   // law 5: a prompt finds what was kept of the same tokens when generated
  kCount
};

}  // namespace dovetail::kv
