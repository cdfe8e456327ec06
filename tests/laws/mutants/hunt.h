#pragma once

#include <cstdint>
#include <cstdio>
#include <exception>
#include <random>
#include <string>
#include <vector>

#include "laws/checker/history.h"
#include "support/mutant_argument.h"

namespace dovetail::laws {

// Plays random histories with the fault that the program's first argument names until a law is seen
// broken. Exit code 0: it was seen; or it is 0, no fault, and nothing was.
template <class Mutant>
int hunt(int argc, char** argv) {
  constexpr int kMost = 5000;
  const int mutant = activate_mutant_argument<Mutant>(argc, argv);
  for (int number = 0; number < kMost; ++number) {
    std::mt19937 random(static_cast<std::uint32_t>(number));
    std::vector<std::uint8_t> bytes(kHistoryHead + 3 * (random() % 150));
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
    const History history = read_history(bytes.data(), bytes.size());
    std::string fault;
    try {
      const Verdict verdict = play(history);
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

}  // namespace dovetail::laws
