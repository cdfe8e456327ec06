#include "cores/trace.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

namespace dovetail::cores {
namespace {

using Json = nlohmann::json;

LaneTrace small_trace() {
  LaneTrace trace;
  trace.running = {{0, 0, 0, 0, 0, 2500}, {0, 0, 0, 1, 0, 2500}, {1, 3, 1, 2, 1000, 4000}};
  trace.pending = {{2, 0, 0, 1, 500, 2500}};
  trace.reserved = {{1, 0, 0, 1000}};
  trace.counters = {{"tasks", {{0, 1.0}, {1000, 3.0}}}};
  trace.name = [](TaskId task) {
    return task == 0 ? "say \"a\\b\" <&>" : fmt::format("t{}", task);
  };
  return trace;
}

std::string written(const Topology& topology, const LaneTrace& trace) {
  std::string text;
  write_lane_trace(topology, trace, [&](std::string_view piece) { text += piece; });
  return text;
}

TEST(LaneTrace, HasATrackForEachLane) {
  const auto topology = *Topology::parse("2x(1C2V)");
  const Json trace = Json::parse(written(topology, small_trace()));
  std::map<std::pair<int, int>, std::string> tracks;
  std::map<std::string, std::vector<Json>> slices;
  for (const Json& event : trace["traceEvents"]) {
    const auto key = std::pair(event.value("pid", 0), event.value("tid", 0));
    if (event["name"] == "thread_name") tracks[key] = event["args"]["name"];
    if (event["ph"] == "X") slices[tracks.at(key)].push_back(event);
  }
  EXPECT_EQ(tracks.size(), 6U + 2U);
  ASSERT_EQ(slices["group 0 · matrix 0"].size(), 1U);
  const Json& slice = slices["group 0 · matrix 0"][0];
  EXPECT_EQ(slice["name"], "say \"a\\b\" <&>");
  EXPECT_EQ(slice["ts"], 0.0);
  EXPECT_EQ(slice["dur"], 2.5);
  ASSERT_EQ(slices["group 1 · vector 1"].size(), 1U);
  EXPECT_EQ(slices["group 1 · vector 1"][0]["args"], Json({{"task", 1}, {"block", 3}}));
  ASSERT_EQ(slices["group 0 · vector 0 · parked"].size(), 1U);
  EXPECT_EQ(slices["group 0 · vector 0 · parked"][0]["name"], "t2");
  EXPECT_EQ(slices["group 1 · matrix 0 · kept"].size(), 1U);
}

TEST(LaneTrace, HasCounters) {
  const Json trace = Json::parse(written(*Topology::parse("2x(1C2V)"), small_trace()));
  std::vector<std::pair<double, double>> samples;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == "C") samples.emplace_back(event["ts"], event["args"]["value"]);
  }
  EXPECT_EQ(samples, (std::vector<std::pair<double, double>>{{0.0, 1.0}, {1.0, 3.0}}));
}

TEST(LaneTrace, OfNothing) {
  const Json trace = Json::parse(written(*Topology::parse("1x(2L)"), {}));
  EXPECT_EQ(trace["traceEvents"].size(), 2U + 2U * 2U) << "names and places of tracks";
}

TEST(LaneTrace, NumbersLanesThroughAllGroups) {
  const auto topology = *Topology::parse("2x(1C2V)+1x(2L)");
  const observe::LaneSlice ran = lane_slice(Span{7, 3, 2, 1, 10, 20}, topology, "norm");
  EXPECT_EQ(std::tuple(ran.lane, ran.block, ran.start, ran.end), std::tuple(7U, 3U, 10, 20));
  EXPECT_EQ(ran.track, observe::LaneTrack::kRunning);
  const observe::LaneSlice reserved = lane_slice(ReservedSpan{1, 2, 30, 40}, topology);
  EXPECT_EQ(std::tuple(reserved.lane, reserved.start, reserved.end), std::tuple(5U, 30, 40));
  EXPECT_EQ(reserved.track, observe::LaneTrack::kReserved);
  EXPECT_STREQ(reserved.task, "kept");
}

}  // namespace
}  // namespace dovetail::cores
