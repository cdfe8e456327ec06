#include "laws/checker/cheapest_lanes.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <vector>

namespace dovetail::laws {
namespace {

using cores::GroupSpec;
using cores::LaneMask;
using cores::TaskShape;
using cores::Topology;

constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();

std::int64_t sum_over(LaneMask lanes, const std::vector<std::int64_t>& cost) {
  std::int64_t sum = 0;
  cores::for_each_lane(lanes, [&](unsigned lane) { sum += cost[lane]; });
  return sum;
}

TEST(CheapestLanes, CostAsLittleAsAnyChoice) {
  std::mt19937_64 random(11);
  const auto below = [&](std::uint64_t n) { return random() % n; };
  static constexpr const char* kGroups[] = {"1x(1C2V)", "1x(4L)",     "1x(1C1V2L)",
                                            "1x(3C4V)", "1x(2C1V3L)", "1x(1C)"};
  std::size_t found = 0, none = 0;
  for (std::size_t round = 0; round < 20000; ++round) {
    const Topology machine = *Topology::parse(kGroups[below(std::size(kGroups))]);
    const GroupSpec& group = machine.groups().front();
    TaskShape shape = {static_cast<std::uint8_t>(below(3)), static_cast<std::uint8_t>(below(4)),
                       below(8) == 0};
    if (shape.lanes() == 0) shape.whole_group = true;
    if (shape.whole_group) shape = cores::kWholeGroup;
    std::vector<std::int64_t> cost(machine.lanes());
    for (std::int64_t& one : cost) one = static_cast<std::int64_t>(below(9)) - 3;
    std::int64_t expected = kNone;
    for (LaneMask lanes = 1; lanes <= group.all(); ++lanes) {
      if (choose_lanes(group, shape, lanes) == lanes)
        expected = std::min(expected, sum_over(lanes, cost));
    }
    const LaneMask lanes = cheapest_lanes(group, shape, cost);
    ASSERT_EQ(lanes == 0, expected == kNone) << "round " << round;
    lanes == 0 ? ++none : ++found;
    if (lanes == 0) continue;
    ASSERT_EQ(choose_lanes(group, shape, lanes), lanes) << "round " << round;
    ASSERT_EQ(sum_over(lanes, cost), expected) << "round " << round;
  }
  EXPECT_GT(found, 10000U);
  EXPECT_GT(none, 1000U);
}

}  // namespace
}  // namespace dovetail::laws
