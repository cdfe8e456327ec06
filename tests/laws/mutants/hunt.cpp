// Plays random histories with the mutant that this program was built with, until a law is seen
// broken. Exit code 0: it was seen; or this is mutant 0, the scheduler as it is, and nothing was.

#include <cstdint>
#include <cstdio>
#include <exception>
#include <random>
#include <string>
#include <vector>

#include "laws/checker/history.h"
#include "schedule/mutation.h"

int main() {
  using dovetail::laws::Verdict;
  using dovetail::schedule::kMutant;
  using dovetail::schedule::Mutant;
  constexpr int kMost = 5000;
  static_assert(kMutant < Mutant::kCount);
  for (int number = 0; number < kMost; ++number) {
    std::mt19937 random(static_cast<std::uint32_t>(number));
    std::vector<std::uint8_t> bytes(dovetail::laws::kHistoryHead + 3 * (random() % 150));
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
    const dovetail::laws::History history =
        dovetail::laws::read_history(bytes.data(), bytes.size());
    std::string fault;
    try {
      const Verdict verdict = dovetail::laws::play(history);
      if (!verdict.faults.empty()) fault = verdict.faults.front();
    } catch (const std::exception& exception) {
      fault = exception.what();
    }
    if (fault.empty()) continue;
    std::printf("mutant %d is seen in history %d: %s\n", static_cast<int>(kMutant), number,
                fault.c_str());
    return kMutant == Mutant::kNone ? 1 : 0;
  }
  std::printf("mutant %d is not seen in %d histories\n", static_cast<int>(kMutant), kMost);
  return kMutant == Mutant::kNone ? 0 : 1;
}
