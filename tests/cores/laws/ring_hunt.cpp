// Looks for a fault of the output ring that it is built with: dovetail_ring_mutant_N N ends with 0
// where some thousand random histories show mutant N, or, for 0, show nothing.

#include <cstdio>
#include <cstdlib>

#include "cores/laws/ring_model.h"

int main(int argc, char** argv) {
  using namespace dovetail::cores;
  const bool has_fault = argc > 1 && std::atoi(argv[1]) != 0;
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
