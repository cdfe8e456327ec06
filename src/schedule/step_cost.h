#pragma once

#include <cstdint>

namespace dovetail::schedule {

// What one more or less token means for the time of a step.
struct StepLoad {
  std::uint32_t prefill_tokens = 0;
  std::uint32_t decode_rows = 0;  // guesses included
  double context_tokens = 0;      // pairs of a query and a key that attention reads
};

// A chunk of `tokens` after `first_position` positions: every token reads those before it and
// itself.
constexpr double context_read(std::uint32_t first_position, std::uint32_t tokens) {
  const double n = tokens;
  return n * first_position + n * (n + 1) / 2;
}

// Predicts how long a step takes, in microseconds: a + b * prefill tokens + c * decode rows + d *
// context read. Tokens up to `free_tokens` in all cost nothing: a small batch takes as long as the
// weights need to stream through, whatever it holds. All zero: nothing is known.
struct StepCost {
  double step = 0;           // a
  double prefill_token = 0;  // b
  double decode_row = 0;     // c
  double context_token = 0;  // d
  std::uint32_t free_tokens = 0;

  bool known() const { return prefill_token > 0; }
  double predict(const StepLoad& load) const;

  // The largest chunk at `first_position`, at most `most`, with which a step of this load beside it
  // takes no more than `microseconds`.
  std::uint32_t affordable_chunk(const StepLoad& load, std::uint32_t first_position,
                                 std::uint32_t most, double microseconds) const;
};

}  // namespace dovetail::schedule
