#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "dovetail/request.h"

namespace dovetail::engine {

// Number of occurrences of each token in a sequence.
struct TokenCounts {
  std::unordered_map<TokenId, std::uint32_t> prompt, output;
};

struct SamplingContext {
  const SamplingParams* params = nullptr;
  std::uint64_t seed = 0;
  std::uint32_t choice = 0;
  std::uint32_t position = 0;               // of the new token in the output, from 0
  const TokenCounts* counts = nullptr;      // read only where a penalty is on
  std::span<const TokenId> forbidden = {};  // not chosen
  // One bit per token, set if it may be chosen; empty: all.
  std::span<const std::uint64_t> allowed = {};
};

// The next token for one row of logits, or nothing where no logit is a number above minus infinity.
// Ties go to the lowest id. A function of its arguments alone.
std::optional<TokenId> sample(std::span<const float> logits, const SamplingContext& context);

// Log-probabilities of `chosen`, with its rank, and of the `top` most probable tokens under the
// unmodified distribution.
OutputToken describe(std::span<const float> logits, TokenId chosen, std::int32_t top);

// A number in [0, 1) that is a function of its three arguments alone: the random stream of a choice
// does not depend on the other rows of its batch. The mixing function is SplitMix64's (Steele, Lea,
// Flood: "Fast splittable pseudorandom number generators", 2014).
inline double uniform(std::uint64_t seed, std::uint64_t choice, std::uint64_t position) {
  const auto mix = [](std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
  };
  constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15ULL;
  const std::uint64_t stream = mix(mix(seed + kStep) + (choice + 1) * kStep);
  return static_cast<double>(mix(stream + (position + 1) * kStep) >> 11) * 0x1.0p-53;
}

}  // namespace dovetail::engine
