// Looks for a fault of the dispatcher or the executor: dovetail_thread_hunt N WHERE ends with 0
// where the laws on threads notice the N-th, or, for 0, notice nothing. WHERE: dispatcher or
// executor.

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "cores/laws/thread_laws.h"
#include "cores/mutation.h"
#include "support/mutant_argument.h"

int main(int argc, char** argv) {
  using namespace dovetail::cores;
  if (argc != 3) return 2;
  const int number = std::string_view(argv[2]) == "executor"
                         ? dovetail::activate_mutant_argument<ExecutorMutant>(argc, argv)
                         : dovetail::activate_mutant_argument<DispatchMutant>(argc, argv);
  const bool has_fault = number != 0;
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
