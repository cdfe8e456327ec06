// dovetail_schedule_hunt N: plays random histories with the N-th fault of the scheduler until a law
// is seen broken. Exit code 0: it was seen; or N is 0, the scheduler as it is, and nothing was.

#include <cstdint>
#include <cstdio>
#include <exception>
#include <random>
#include <string>
#include <vector>

#include "laws/checker/history.h"
#include "schedule/mutation.h"
#include "support/mutant_argument.h"

int main(int argc, char** argv) {
  using dovetail::laws::Verdict;
  constexpr int kMost = 5000;
  const int mutant = dovetail::activate_mutant_argument<dovetail::schedule::Mutant>(argc, argv);
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
    std::printf("mutant %d is seen in history %d: %s\n", mutant, number, fault.c_str());
    return mutant == 0 ? 1 : 0;
  }
  std::printf("mutant %d is not seen in %d histories\n", mutant, kMost);
  return mutant == 0 ? 0 : 1;
}
