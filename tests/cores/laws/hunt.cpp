// Looks for a fault of the dispatcher: dovetail_dispatch_hunt N ends with 0 where the laws notice
// the N-th within some thousand random histories, or, for 0, notice nothing.

#include <cstdio>

#include "cores/laws/play.h"
#include "cores/mutation.h"
#include "support/mutant_argument.h"

int main(int argc, char** argv) {
  using namespace dovetail::cores;
  const bool has_fault = dovetail::activate_mutant_argument<DispatchMutant>(argc, argv) != 0;
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    const History history = random_history(seed);
    const Played played = play(history.topology, history.jobs, history.options);
    auto found = violations(history.topology, history.jobs, played, history.options);
    if (found.empty()) found = violations_of_backfill(seed);
    if (found.empty()) continue;
    std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), found.front().c_str());
    return has_fault ? 0 : 1;
  }
  std::printf("nothing was noticed\n");
  return has_fault ? 1 : 0;
}
