#pragma once

#include <cstdint>

#include "engine/step_loop.h"

namespace dovetail::study {

// Positions of a prompt that repeat_contexts() computes, at least.
inline constexpr std::uint32_t kComputedContext = 512;

// Opens what `inner` does for measures at depths that take long to compute. Of a chunk of a prompt
// that begins behind kComputedContext positions it computes the last one or two blocks alone; the
// cache has copies of blocks before these for the others. So decode rows read as much as ever
// from memory of its own, and floats that a model makes, but their tokens mean nothing. A state
// that goes from token to token has seen only what was computed.
engine::OpenBackend repeat_contexts(engine::OpenBackend inner);

}  // namespace dovetail::study
