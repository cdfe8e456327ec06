#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "cores/thread_pins.h"

namespace dovetail::cores {
namespace {

constexpr Ticks kSecond = 1'000'000'000;

struct Look {
  Ticks time = 0;  // in milliseconds
  std::optional<double> waited;
  bool stays = false;
};

struct Case {
  std::string name;
  std::vector<Look> looks;
};

TEST(PinRule, Table) {
  const std::vector<Case> cases = {
      {"the cores are uncontested", {{0, 0.0, true}, {250, 0.01, true}, {500, 0.09, true}}},
      {"the system does not say, or there was little to do",
       {{0, {}, false}, {250, {}, false}, {500, 0.0, true}, {750, {}, true}}},
      {"contested from the beginning", {{0, 0.5, false}, {250, 0.06, false}, {500, 0.04, true}}},
      {"a little is no reason to go, but one not to come",
       {{0, 0.05, false}, {250, 0.049, true}, {500, 0.05, true}, {750, 0.1, false}}},
      {"a pause after contention",
       {{0, 0.0, true}, {250, 0.3, false}, {1249, 0.0, false}, {1250, 0.0, true}}},
      {"no try while they are still contested",
       {{0, 0.0, true}, {250, 0.3, false}, {5000, 0.3, false}, {5250, 0.0, true}}},
      {"each pause is twice as long",
       {{0, 0.0, true},
        {250, 0.3, false},
        {1250, 0.0, true},
        {1500, 0.3, false},
        {3499, 0.0, false},
        {3500, 0.0, true},
        {3750, 0.3, false},
        {7749, 0.0, false},
        {7750, 0.0, true}}},
      {"who stayed for long begins with a short pause",
       {{0, 0.0, true},
        {250, 0.3, false},
        {1250, 0.0, true},
        {1500, 0.3, false},
        {3500, 0.0, true},
        {13500, 0.3, false},
        {14499, 0.0, false},
        {14500, 0.0, true}}},
  };
  for (const Case& one : cases) {
    PinRule rule;
    for (const Look& look : one.looks) {
      EXPECT_EQ(rule.look(look.time * 1'000'000, look.waited), look.stays)
          << one.name << ", after " << look.time << " ms";
    }
  }
}

// Two engines that never learn of each other lose little by trying.
TEST(PinRule, TriesEverLessOften) {
  PinRule rule;
  Ticks stayed = 0;
  Ticks last_try = 0, longest = 0;
  bool stays = false;
  constexpr Ticks kStep = kSecond / 4;
  for (Ticks now = 0; now < 3600 * kSecond; now += kStep) {
    const bool before = stays;
    stays = rule.look(now, stays ? 0.5 : 0.0);
    if (stays && !before) {
      if (now > 0) longest = std::max(longest, now - last_try);
      last_try = now;
    }
    stayed += stays ? kStep : 0;
  }
  EXPECT_LE(stayed, 20 * kSecond);
  EXPECT_GE(longest, PinRule::kLongestPause);
  EXPECT_LE(longest, PinRule::kLongestPause + 2 * kStep);
}

}  // namespace
}  // namespace dovetail::cores
