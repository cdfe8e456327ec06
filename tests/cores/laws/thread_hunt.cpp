// Looks for a fault that the dispatcher or the executor is built with: dovetail_thread_mutant_N N
// and dovetail_thread_dispatch_mutant_N N end with 0 where the laws on threads notice it, or, for
// 0, notice nothing.

#include <cstdio>
#include <cstdlib>

#include "cores/laws/thread_laws.h"

int main(int argc, char** argv) {
  using namespace dovetail::cores;
  const bool has_fault = argc > 1 && std::atoi(argv[1]) != 0;
  // Without a fault nothing waits for ever, however slow the machine is.
  const std::chrono::seconds limit(has_fault ? 5 : 120);
  const auto notice = [has_fault](std::uint64_t seed, const std::string& what) {
    std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), what.c_str());
    std::fflush(stdout);
    std::_Exit(has_fault ? 0 : 1);
  };
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const auto found = broken_on_threads(
        seed, limit, [&notice, seed](const std::string& why) { notice(seed, why); });
    if (!found.empty()) notice(seed, found.front());
  }
  std::printf("nothing was noticed\n");
  return has_fault ? 1 : 0;
}
