// Looks for a fault in how blocks are taken: dovetail_claim_hunt N WHERE ends with 0 where
// eight threads notice the N-th, or, for 0, notice nothing. WHERE: ring, handoff or executor.

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "cores/laws/claims.h"
#include "cores/mutation.h"
#include "support/mutant_argument.h"

int main(int argc, char** argv) {
  using namespace dovetail::cores;
  if (argc != 3) return 2;
  const bool has_fault = dovetail::activate_mutant_argument<ClaimMutant>(argc, argv) != 0;
  const std::string_view where = argv[2];
  const Notice notice = [has_fault](const std::string& what) {
    std::printf("%s\n", what.c_str());
    std::fflush(stdout);
    std::_Exit(has_fault ? 0 : 1);
  };
  for (int time = 0; time < 20; ++time) {
    const auto wrong =
        where == "ring" ? eight_take_from_ring(notice)
        : where == "handoff"
            ? eight_take_from_handoff(notice)
            // Without a fault nothing waits for ever.
            : eight_take_from_executor(notice, std::chrono::seconds(has_fault ? 2 : 120));
    if (wrong) notice(*wrong);
  }
  std::printf("nothing was noticed\n");
  return has_fault ? 1 : 0;
}
