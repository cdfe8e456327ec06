// The laws on threads; thread_hunt.cpp sees to it that they can fail.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <string>

#include "cores/laws/thread_laws.h"

namespace dovetail::cores {
namespace {

TEST(ExecutorLaws, HoldOnThreads) {
  const std::uint64_t seeds = std::getenv("DOVETAIL_LONG") != nullptr ? 2000 : 40;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    const auto found = broken_on_threads(
        1000 + seed, std::chrono::seconds(120),
        [](const std::string& why) { ADD_FAILURE() << "it stands still: " << why; });
    for (const std::string& one : found) ADD_FAILURE() << "seed " << 1000 + seed << ": " << one;
    if (!found.empty()) return;
  }
}

}  // namespace
}  // namespace dovetail::cores
