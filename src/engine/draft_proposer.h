#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dovetail/request.h"

namespace dovetail::engine {

// Shortest and longest repetition that gives drafts. A single token repeats everywhere (every "the"
// would propose one), and a rejected draft token costs a row; agreement beyond four tokens adds
// little.
inline constexpr std::uint32_t kMinRepeat = 2;
inline constexpr std::uint32_t kMaxRepeat = 4;
// Tokens searched for a repetition: bounds a look-up to some microseconds at any context length.
inline constexpr std::uint32_t kLookBack = 8192;

// Proposes draft tokens by looking the sequence up in itself (prompt look-up decoding, Saxena
// 2023): the longest end of `tokens`, of kMinRepeat to kMaxRepeat tokens, that also occurs earlier
// in the last kLookBack tokens; of several occurrences the most recent. The tokens after that
// occurrence become the draft; a draft that reaches the end of `tokens` continues with itself, so
// that a short cycle repeats. `drafts` gets `max_drafts` tokens, or none; reusing it keeps its
// memory. A function of its arguments alone.
void propose(std::span<const TokenId> tokens, std::uint32_t max_drafts,
             std::vector<TokenId>& drafts);

}  // namespace dovetail::engine
