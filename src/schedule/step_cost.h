#pragma once

#include <cstdint>

namespace dovetail::schedule {

// The work of a step, as far as its time depends on it.
struct StepLoad {
  std::uint32_t prefill_tokens = 0;
  std::uint32_t decode_rows = 0;  // draft tokens included
  double context_tokens = 0;      // pairs of a query and a key that attention reads
};

// Context read by a chunk of `tokens` after `first_position` positions: every token reads itself
// and the positions before it.
constexpr double context_read(std::uint32_t first_position, std::uint32_t tokens) {
  const double n = tokens;
  return n * first_position + n * (n + 1) / 2;
}

// Predicts how long a step takes, in microseconds: a + b * prefill tokens + c * decode rows + d *
// context read. The first `free_tokens` tokens cost nothing: the time of a small batch is that of
// reading the weights. All zero: unknown.
struct StepCost {
  double step = 0;           // a
  double prefill_token = 0;  // b
  double decode_row = 0;     // c
  double context_token = 0;  // d
  std::uint32_t free_tokens = 0;

  bool known() const { return prefill_token > 0; }
  double predict(const StepLoad& load) const;

  // The largest chunk at `first_position`, at most `max_tokens`, with which a step of this load
  // takes at most `microseconds`.
  std::uint32_t affordable_chunk(const StepLoad& load, std::uint32_t first_position,
                                 std::uint32_t max_tokens, double microseconds) const;
};

}  // namespace dovetail::schedule
