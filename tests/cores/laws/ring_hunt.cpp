// Looks for a fault of the output ring: dovetail_ring_hunt N ends with 0 where some thousand random
// histories show the N-th, or, for 0, show nothing.

#include <cstdio>

#include "cores/laws/ring_model.h"
#include "cores/mutation.h"
#include "support/mutant_argument.h"

int main(int argc, char** argv) {
  using namespace dovetail::cores;
  const bool has_fault = dovetail::activate_mutant_argument<RingMutant>(argc, argv) != 0;
  for (std::uint64_t seed = 0; seed < 20'000; ++seed) {
    const RingHistory history = random_ring_history(seed);
    const auto fault = ring_fault(history.options, history.steps);
    if (!fault) continue;
    std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), fault->c_str());
    return has_fault ? 0 : 1;
  }
  std::printf("nothing was noticed\n");
  return has_fault ? 1 : 0;
}
