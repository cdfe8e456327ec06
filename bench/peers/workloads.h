#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <vector>

namespace dovetail::bench {

// Empty tasks, as many as every runtime is given.
inline constexpr int kTasks = 200'000;
inline constexpr int kChain = 256;  // tasks that wait for each other, in the workload "chains"
// Blocks of an attention row, each of four tasks: scores, softmax, values, update of the row.
inline constexpr int kBlocksPerRow = 16;
inline constexpr int kRounds = 7;

// Runs a workload if it was asked for and prints "NAME millions of tasks per second", the median of
// several rounds from the first submission to the last end.
template <class Run>
void measure(int argc, char** argv, const char* name, Run run) {
  if (argc > 1 && std::strcmp(argv[1], name) != 0) return;
  std::vector<double> rates;
  for (int round = 0; round <= kRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    run();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    if (round > 0) rates.push_back(kTasks / took.count() / 1e6);
  }
  std::sort(rates.begin(), rates.end());
  std::printf("%s %.3f\n", name, rates[rates.size() / 2]);
}

}  // namespace dovetail::bench
