#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace dovetail {

using TokenId = std::int32_t;

// How the next token is chosen. The order of the steps: logit bias, penalties, the grammar (what it
// does not allow is taken out), temperature, top-k, top-p, min-p, draw.
// src/base/sampling_table.h has a row for each number.
struct SamplingParams {
  float temperature = 1.0F;  // >= 0; 0 is greedy: the highest logit, the lowest id among equals
  std::int32_t top_k = 0;    // keep the k most probable; 0: all
  float top_p = 1.0F;        // (0, 1]: keep the smallest set with at least this probability
  float min_p = 0.0F;        // [0, 1]: keep what is at least this share of the most probable
  float repetition_penalty =
      1.0F;  // > 0; over prompt and output (Keskar et al., https://arxiv.org/abs/1909.05858)
  float presence_penalty = 0.0F;   // [-2, 2]; over the output, as OpenAI's API defines it
  float frequency_penalty = 0.0F;  // [-2, 2]
  std::vector<std::pair<TokenId, float>> logit_bias;
  // The random stream of choice i is a function of (seed, i, position) only. Unset: drawn by the
  // engine and reported in no event.
  std::optional<std::uint64_t> seed;
};

}  // namespace dovetail
