#include "schedule/step_cost.h"

#include <algorithm>

namespace dovetail::schedule {

double StepCost::predict(const StepLoad& load) const {
  const std::uint32_t free_for_prefill =
      free_tokens > load.decode_rows ? free_tokens - load.decode_rows : 0;
  const std::uint32_t paid =
      load.prefill_tokens > free_for_prefill ? load.prefill_tokens - free_for_prefill : 0;
  return step + prefill_token * paid + decode_row * load.decode_rows +
         context_token * load.context_tokens;
}

std::uint32_t StepCost::affordable_chunk(const StepLoad& load, std::uint32_t first_position,
                                         std::uint32_t max_tokens, double microseconds) const {
  const auto fits = [&](std::uint32_t tokens) {
    StepLoad with = load;
    with.prefill_tokens += tokens;
    with.context_tokens += context_read(first_position, tokens);
    return predict(with) <= microseconds;
  };
  // The cost grows with the chunk: bisect.
  std::uint32_t low = 0, high = max_tokens;
  while (low < high) {
    const std::uint32_t middle = high - (high - low) / 2;
    if (fits(middle)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

}  // namespace dovetail::schedule
