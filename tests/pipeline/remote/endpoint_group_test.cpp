#include "pipeline/remote/endpoint_group.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <string>

namespace dovetail::pipeline {
namespace {

TEST(EndpointGroup, TakesTheLeastLoadedWithRoom) {
  const EndpointGroup group({"a", "b", "c"});
  struct Case {
    std::vector<EndpointLoad> loads;
    std::optional<std::size_t> chosen;
  };
  for (const Case& c : {
           Case{{{0, 10}, {0, 10}, {0, 10}}, 0},
           Case{{{1, 10}, {0, 10}, {0, 10}}, 1},
           Case{{{5, 10}, {9, 100}, {1, 2}}, 1},
           Case{{{10, 10}, {100, 100}, {1, 2}}, 2},
           Case{{{10, 10}, {100, 100}, {2, 2}}, std::nullopt},
           Case{{{0, 10, false}, {7, 10}, {8, 10}}, 1},
           Case{{{0, 10, false}, {0, 10, false}, {0, 10, false}}, std::nullopt},
           Case{{{5, 1}, {5, 1}, {0, 1}}, 2},
       }) {
    EXPECT_EQ(group.choose(c.loads), c.chosen);
  }
  EXPECT_EQ(EndpointGroup({}).choose({}), std::nullopt);
}

TEST(EndpointGroup, EqualPrefixesGoToOneEndpointUntilItIsMuchBusier) {
  const EndpointGroup group({"a", "b", "c", "d"});
  std::vector<EndpointLoad> loads(4, EndpointLoad{0, 100});
  const std::uint64_t prefix = prefix_hash("You are a judge. ");
  const std::size_t favourite = *group.choose(loads, prefix);
  for (; loads[favourite].in_flight <= 25; ++loads[favourite].in_flight) {
    EXPECT_EQ(group.choose(loads, prefix), favourite);
  }
  EXPECT_NE(group.choose(loads, prefix), favourite);
  for (EndpointLoad& load : loads) load.in_flight = 60;
  loads[favourite].in_flight = 80;
  EXPECT_EQ(group.choose(loads, prefix), favourite);
  loads[favourite].available = false;
  const std::size_t second = *group.choose(loads, prefix);
  EXPECT_NE(second, favourite);
  const EndpointGroup plain({"a", "b", "c", "d"}, GroupOptions{-1});
  loads[second].in_flight = 61;
  EXPECT_NE(plain.choose(loads, prefix), second);
}

TEST(EndpointGroup, PrefixesSpreadAndStayWhenAnEndpointGoes) {
  const std::vector<std::string> names = {"a", "b", "c", "d", "e"};
  const EndpointGroup all(names);
  const EndpointGroup fewer({"a", "b", "c", "d"});
  std::map<std::size_t, int> counts;
  for (int i = 0; i < 5000; ++i) {
    const std::uint64_t prefix = prefix_hash("prompt " + std::to_string(i));
    const std::size_t with = *all.choose(std::vector<EndpointLoad>(5), prefix);
    const std::size_t without = *fewer.choose(std::vector<EndpointLoad>(4), prefix);
    ++counts[with];
    if (with != 4) {
      EXPECT_EQ(without, with);
    }
  }
  for (const auto& [endpoint, count] : counts) EXPECT_NEAR(count, 1000, 150) << endpoint;
}

TEST(EndpointGroup, HashesThePrefixAlone) {
  const std::string shared(1024, 'x');
  EXPECT_EQ(prefix_hash(shared + "a"), prefix_hash(shared + "b"));
  EXPECT_NE(prefix_hash("a"), prefix_hash("b"));
  EXPECT_EQ(prefix_hash("ab", 1), prefix_hash("ac", 1));
  EXPECT_EQ(prefix_hash(""), prefix_hash("", 0));
}

RC_GTEST_PROP(EndpointGroup, NeverChoosesOneWithoutRoom, ()) {
  const auto raw = *rc::gen::container<std::vector<std::pair<std::uint8_t, std::uint8_t>>>(
      7, rc::gen::arbitrary<std::pair<std::uint8_t, std::uint8_t>>());
  std::vector<EndpointLoad> loads;
  bool any = false;
  for (const auto& [in_flight, limit] : raw) {
    loads.push_back({in_flight % 32, 1 + limit % 32, in_flight % 5 != 0});
    any |= loads.back().available && loads.back().in_flight < loads.back().limit;
  }
  const EndpointGroup group({"a", "b", "c", "d", "e", "f", "g"});
  for (const std::optional<std::uint64_t> prefix :
       {std::optional<std::uint64_t>(), std::optional<std::uint64_t>(raw[0].first)}) {
    const auto chosen = group.choose(loads, prefix);
    RC_ASSERT(chosen.has_value() == any);
    if (!chosen) continue;
    RC_ASSERT(loads[*chosen].available);
    RC_ASSERT(loads[*chosen].in_flight < loads[*chosen].limit);
  }
}

}  // namespace
}  // namespace dovetail::pipeline
