#include <gtest/gtest.h>

#include <array>
#include <thread>
#include <vector>

#include "cores/waiting.h"

namespace dovetail::cores {
namespace {

// What each part wrote before it came is there for all of them afterwards, time after time.
TEST(Rendezvous, AllSeeWhatAllDid) {
  constexpr std::uint32_t kParts = 4;
  constexpr std::uint32_t kTimes = 2000;
  Rendezvous rendezvous;
  std::array<std::uint32_t, kParts> written = {};  // plain: ThreadSanitizer watches
  std::array<std::uint32_t, kParts> missed = {};
  std::vector<std::thread> threads;
  for (std::uint32_t part = 0; part < kParts; ++part) {
    threads.emplace_back([&, part] {
      for (std::uint32_t time = 1; time <= kTimes; ++time) {
        written[part] = time;
        rendezvous.meet(kParts);
        for (const std::uint32_t value : written) missed[part] += value == time ? 0 : 1;
        rendezvous.meet(kParts);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::uint32_t count : missed) EXPECT_EQ(count, 0U);
}

// What the last one does is done once, before anyone goes on, and after all have come.
TEST(Rendezvous, TheLastDoesSomethingForAll) {
  constexpr std::uint32_t kParts = 4;
  constexpr std::uint32_t kTimes = 2000;
  Rendezvous rendezvous;
  std::array<std::uint32_t, kParts> came = {};  // plain: ThreadSanitizer watches
  std::array<std::uint32_t, kParts> missed = {};
  std::uint32_t sum = 0;
  std::vector<std::thread> threads;
  for (std::uint32_t part = 0; part < kParts; ++part) {
    threads.emplace_back([&, part] {
      for (std::uint32_t time = 1; time <= kTimes; ++time) {
        came[part] = time;
        rendezvous.meet(kParts, [&] {
          for (const std::uint32_t value : came) sum += value;
        });
        missed[part] += sum == kParts * time * (time + 1) / 2 ? 0 : 1;
        rendezvous.meet(kParts);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::uint32_t count : missed) EXPECT_EQ(count, 0U);
}

TEST(Rendezvous, OneWaitsForNoOther) {
  Rendezvous rendezvous;
  rendezvous.meet(1);
  int times = 0;
  rendezvous.meet(1, [&] { ++times; });
  EXPECT_EQ(times, 1);
}

}  // namespace
}  // namespace dovetail::cores
