#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "dovetail/request.h"

namespace dovetail::engine {

// How often each token has occurred in a sequence.
struct TokenCounts {
  std::unordered_map<TokenId, std::uint32_t> prompt, output;
};

struct SamplingContext {
  const SamplingParams* params = nullptr;
  std::uint64_t seed = 0;
  std::uint32_t choice = 0;
  std::uint32_t position = 0;               // of the new token in the output, from 0
  const TokenCounts* counts = nullptr;      // read only where a penalty is on
  std::span<const TokenId> forbidden = {};  // never chosen
  // One bit per token, those that may be chosen; empty: all.
  std::span<const std::uint64_t> allowed = {};
};

// The next token for one row of logits, or nothing where no logit is a number above minus infinity.
// The same row and context give the same token, whatever else is sampled. Ties go to the lowest id.
std::optional<TokenId> sample(std::span<const float> logits, const SamplingContext& context);

// Log-probabilities of `chosen` and of the `top` most probable tokens under the unmodified
// distribution.
OutputToken describe(std::span<const float> logits, TokenId chosen, std::int32_t top);

}  // namespace dovetail::engine
