#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dovetail/request.h"

namespace dovetail::engine {

// A repetition is believed from two tokens on: a single token comes back everywhere (every "the"
// would have a guess behind it), and a wrong guess costs a row. Beyond four, a longer agreement
// tells little more.
inline constexpr std::uint32_t kShortestRepeat = 2;
inline constexpr std::uint32_t kLongestRepeat = 4;
// How far back a repetition is looked for. Bounds a look-up to some microseconds, whatever the
// context's length.
inline constexpr std::uint32_t kLookBack = 8192;

// Guesses how a sequence goes on by looking it up in itself (prompt look-up decoding, Saxena 2023):
// the longest end of `tokens`, of kShortestRepeat to kLongestRepeat tokens, that also occurs
// earlier in the last kLookBack tokens; of several occurrences the most recent. What followed it
// there is the guess. A guess that reaches the end of `tokens` goes on with itself, so that a short
// cycle repeats. `drafts` gets `most` tokens, or none; reusing it keeps its memory. A function of
// its arguments alone.
void propose(std::span<const TokenId> tokens, std::uint32_t most, std::vector<TokenId>& drafts);

}  // namespace dovetail::engine
