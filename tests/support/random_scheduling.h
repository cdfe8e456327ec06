#pragma once

#include <algorithm>
#include <cstdint>
#include <random>

#include "dovetail/engine.h"

namespace dovetail::test {

// Gives the options how steps are planned: every kind of schedule, and all that must not be seen in
// an answer.
inline void randomize_scheduling(EngineOptions& options, std::mt19937& random) {
  const auto below = [&](std::uint32_t end) { return static_cast<std::uint32_t>(random() % end); };
  options.max_num_batched_tokens = 8 + below(90);
  options.prefix_cache = below(4) != 0;
  options.speculative_tokens = below(2) == 0 ? 0 : 1 + below(4);
  // Draft tokens of models with states need at least one.
  options.saved_states = std::max(below(60), std::min(options.speculative_tokens, 1U));
  options.state_interval = 1 + below(3);
  options.async_scheduling = below(2) == 0;
  options.mixed = below(4) != 0;
  options.prefill_alignment = below(3);
  options.min_prefill_tokens = 1 + below(20);
  options.prefill_interval = 1 + below(3);
  options.policy = static_cast<PolicyOption>(below(3));
  options.ageing_steps = 1 + below(30);
}

}  // namespace dovetail::test
