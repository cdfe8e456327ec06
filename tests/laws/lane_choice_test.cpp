#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "laws/checker/lane_law_checker.h"
#include "laws/lane_runs.h"

// What a mixed task may have to wait for where it could have one of several choices of lanes:
// the events do not say which ones are reserved for it.

namespace dovetail::laws {
namespace {

// What else ran, ready when it started: on these lanes, one entry for each block.
struct Ran {
  cores::Ticks from = 0, to = 0;
  std::string shape;
  std::vector<std::string> lanes;
};

// Task 0, ready at 1, starts on these lanes when the others have ended.
std::string all_before(const std::string& shape, const std::string& lanes,
                       const std::vector<Ran>& others) {
  enum Rank { kEnds, kBecomesReady, kStarts };
  std::vector<std::tuple<cores::Ticks, Rank, std::string>> events = {
      {1, kBecomesReady, "ready 0 " + shape}};
  cores::Ticks end = 0;
  for (std::size_t i = 0; i < others.size(); ++i) {
    const Ran& ran = others[i];
    end = std::max(end, ran.to);
    events.emplace_back(ran.from, kBecomesReady, fmt::format("ready {} {}", i + 1, ran.shape));
    for (std::size_t block = 0; block < ran.lanes.size(); ++block) {
      const std::string what = fmt::format("{}.{} {}", i + 1, block, ran.lanes[block]);
      events.emplace_back(ran.from, kStarts, "start " + what);
      events.emplace_back(ran.to, kEnds, "end " + what);
    }
  }
  events.emplace_back(end, kStarts, "start 0 " + lanes);
  events.emplace_back(end + 1, kEnds, "end 0 " + lanes);
  std::stable_sort(events.begin(), events.end(), [](const auto& a, const auto& b) {
    return std::pair(std::get<0>(a), std::get<1>(a)) < std::pair(std::get<0>(b), std::get<1>(b));
  });
  std::string text;
  for (const auto& [at, rank, what] : events) text += fmt::format("{} {};", at, what);
  return text;
}

// Tasks of a single lane, one after the other, that start at these times by lane. The last ones end
// at 100.
std::vector<Ran> singles_from(
    const std::vector<std::pair<std::string, std::vector<cores::Ticks>>>& starts) {
  std::vector<Ran> all;
  for (const auto& [lane, times] : starts) {
    for (std::size_t i = 0; i < times.size(); ++i)
      all.push_back({times[i], i + 1 < times.size() ? times[i + 1] : 100, "V", {lane}});
  }
  return all;
}

const std::vector<cores::Ticks> kOnce = {0}, kTwice = {0, 10}, kThrice = {0, 10, 20},
                                kOften = {0, 10, 20, 30, 40, 50};
constexpr const char* kThreeOthers =
    "at 20: law 4: mixed task 0 waited for 3 others, whichever lanes were reserved for it";

TEST(LaneLawChecker, CountsOthersOnEachGroupThatMayBeReserved) {
  const auto judge = [](const auto& a, const auto& b, const auto& c, const auto& d) {
    const auto others = singles_from({{"0.0", a}, {"0.1", b}, {"1.0", c}, {"1.1", d}});
    return judge_lanes("2x(2L)", LaneRules(), all_before("group", "1.0 1.1", others));
  };
  EXPECT_EQ(judge(kOften, kOften, kTwice, kTwice), "");
  EXPECT_EQ(judge(kTwice, kTwice, kOften, kOften), "");
  EXPECT_EQ(judge(kOnce, kThrice, kOften, kOften), "");
  EXPECT_EQ(judge(kThrice, kTwice, kOften, kOften), kThreeOthers);
}

TEST(LaneLawChecker, CountsOthersOnLanesThatMayBeReserved) {
  const auto judge = [](const auto& a, const auto& b, const auto& c) {
    const auto others = singles_from({{"0.1", a}, {"0.2", b}, {"0.3", c}});
    return judge_lanes("1x(1C3V)", LaneRules(), all_before("2V", "0.1 0.2", others));
  };
  EXPECT_EQ(judge(kOften, kTwice, kTwice), "");
  EXPECT_EQ(judge(kTwice, kOften, kTwice), "");
  EXPECT_EQ(judge(kThrice, kOften, kTwice), kThreeOthers);
}

// Whatever they cost: they are not let in where they end in time.
TEST(LaneLawChecker, CountsYoungerMixedTasks) {
  for (const char* shape : {"2V", "2V 1 80"}) {
    std::vector<Ran> others = singles_from({{"0.0", kTwice}, {"0.1", kThrice}});
    others.push_back({0, 10, "2V", {"1.0 1.1"}});
    others.push_back({10, 20, shape, {"1.0 1.1"}});
    const auto judge = [&] {
      return judge_lanes("2x(2L)", LaneRules(), all_before("group", "1.0 1.1", others));
    };
    others.push_back({20, 100, "V 1 80", {"1.0"}});
    others.push_back({20, 100, "V 1 80", {"1.1"}});
    EXPECT_EQ(judge(), "");
    others.resize(others.size() - 2);
    others.push_back({20, 100, shape, {"1.0 1.1"}});
    EXPECT_EQ(judge(), kThreeOthers);
  }
}

// After a gang they may be others.
TEST(LaneLawChecker, CountsAgainAfterAGang) {
  using Starts = std::vector<cores::Ticks>;
  const auto judge = [](const std::string& on_group_1, const Starts& on_group_0, bool three) {
    std::vector<Ran> others = singles_from({{"0.0", on_group_0}, {"0.1", on_group_0}});
    for (const char* lane : {"1.0", "1.1"}) {
      others.push_back({0, 10, "V", {lane}});
      others.push_back({10, 20, "V", {lane}});
      others.push_back({25, 100, "V", {lane}});
    }
    others.push_back({20, 25, on_group_1, {"1.0", "1.1"}});
    if (!three) return judge_lanes("2x(2L)", LaneRules(), all_before("group", "0.0 0.1", others));
    for (const Ran& ran : singles_from({{"1.2", kOften}})) others.push_back(ran);
    return judge_lanes("1x(2L)+1x(3L)", LaneRules(), all_before("2V", "0.0 0.1", others));
  };
  for (const bool three : {false, true}) {
    EXPECT_EQ(judge("V 2!", {0, 10, 30}, three), "");
    EXPECT_EQ(
        judge("V 2", {0, 10, 30}, three),
        "at 30: law 4: mixed task 0 waited for 4 others, whichever lanes were reserved for it");
    EXPECT_EQ(
        judge("V 2!", {0, 10, 30, 40}, three),
        "at 40: law 4: mixed task 0 waited for 4 others, whichever lanes were reserved for it");
  }
}

}  // namespace
}  // namespace dovetail::laws
