// dovetail_engine_hunt N: plays random histories of the demo model with the N-th fault of the
// engine until a completion is seen to differ. Exit code 0: it was seen; or N is 0, the engine as
// it is, and nothing was.

#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>

#include "engine/mutation.h"
#include "laws/demo_histories.h"
#include "support/mutant_argument.h"

int main(int argc, char** argv) {
  const int mutant = dovetail::activate_mutant_argument<dovetail::engine::Mutant>(argc, argv);
  constexpr std::uint32_t kMost = 100;
  try {
    dovetail::laws::DemoModel model;
    for (std::uint32_t number = 0; number < kMost; ++number) {
      const dovetail::laws::DemoHistory history = model.history(number);
      std::string fault;
      try {
        fault = model.judge(history, model.play(history));
      } catch (const std::exception& exception) {
        fault = exception.what();
      }
      if (fault.empty()) continue;
      std::printf("mutant %d is seen in history %u: %s\n", mutant, number, fault.c_str());
      return mutant == 0 ? 1 : 0;
    }
  } catch (const std::exception& exception) {
    std::printf("%s\n", exception.what());
    return 1;
  }
  std::printf("mutant %d is not seen in %u histories\n", mutant, kMost);
  return mutant == 0 ? 0 : 1;
}
