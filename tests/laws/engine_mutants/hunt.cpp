// Plays random histories of the demo model with the mutant that this program was built with, until
// an answer is seen to differ. Exit code 0: it was seen; or this is mutant 0, the engine as it is,
// and nothing was.

#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>

#include "engine/mutation.h"
#include "laws/demo_histories.h"

int main() {
  using dovetail::engine::kMutant;
  using dovetail::engine::Mutant;
  static_assert(kMutant < Mutant::kCount);
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
      std::printf("mutant %d is seen in history %u: %s\n", static_cast<int>(kMutant), number,
                  fault.c_str());
      return kMutant == Mutant::kNone ? 1 : 0;
    }
  } catch (const std::exception& exception) {
    std::printf("%s\n", exception.what());
    return 1;
  }
  std::printf("mutant %d is not seen in %u histories\n", static_cast<int>(kMutant), kMost);
  return kMutant == Mutant::kNone ? 0 : 1;
}
