#include "observe/perfetto.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "schedule/scheduler.h"

namespace dovetail::observe {
namespace {

using Json = nlohmann::json;
using testing::ElementsAre;

constexpr std::int64_t kMicrosecond = 1000;

struct Slice {
  std::string name;
  double begin = 0, end = 0;
};

// The slices of each track, by the names of process and track.
std::map<std::string, std::vector<Slice>> slices(const Json& trace) {
  std::map<int, std::string> processes;
  std::map<std::pair<int, int>, std::string> tracks;
  std::map<std::string, std::vector<Slice>> found;
  for (const Json& event : trace["traceEvents"]) {
    if (event["name"] == "process_name") processes[event["pid"]] = event["args"]["name"];
    if (event["name"] == "thread_name")
      tracks[{event["pid"], event["tid"]}] = event["args"]["name"];
  }
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    const double begin = event["ts"];
    found[processes.at(event["pid"]) + "/" + tracks.at({event["pid"], event["tid"]})].push_back(
        {event["name"], begin, begin + event["dur"].get<double>()});
  }
  return found;
}

std::vector<std::string> names(const std::vector<Slice>& track) {
  std::vector<std::string> all;
  for (const Slice& slice : track) all.push_back(slice.name);
  return all;
}

Json parse(const EventLog& log) { return Json::parse(perfetto_json(log.events())); }

TEST(Perfetto, AnEmptyLogIsATrace) { EXPECT_TRUE(slices(Json::parse(perfetto_json({}))).empty()); }

TEST(Perfetto, AStepIsNamedForWhatItHoldsAndLastsAsItsForwardPass) {
  EventLog log(1024);
  const auto write = [&](std::int64_t microsecond, EventKind kind, std::uint64_t id,
                         std::uint32_t a = 0, std::uint32_t b = 0, std::uint32_t c = 0,
                         std::uint16_t flags = 0) {
    log.set_time(microsecond * kMicrosecond);
    log.write(kind, id, a, b, c, flags);
  };
  write(1000, EventKind::kPlan, 7);
  write(1000, EventKind::kRow, 50, 0, 1792, 0, 0);
  write(1000, EventKind::kRow, 51, 0, 142, 0, kRowFinalChunk | kRowSampled);
  for (std::uint64_t id = 0; id < 114; ++id)
    write(1000, EventKind::kRow, id, 9, 1, 0, kRowSampled | kRowDecode);
  write(1005, EventKind::kPlanned, 7, 2, 114, 2048);
  write(1010, EventKind::kForward, 7);
  // Planned ahead, while step 7 computes.
  write(1020, EventKind::kPlan, 8, 1);
  write(1020, EventKind::kRow, 1, 10, 4, 3, kRowSampled | kRowDecode);
  write(1024, EventKind::kPlanned, 8, 0, 1, 4);
  write(1500, EventKind::kForwarded, 7);
  write(1520, EventKind::kSampled, 7);
  write(1530, EventKind::kCommit, 7);
  write(1540, EventKind::kForward, 8);
  write(1600, EventKind::kForwarded, 8);
  const auto found = slices(parse(log));
  const auto& steps = found.at("engine/steps");
  EXPECT_THAT(names(steps),
              ElementsAre("mixed[p=2 chunks/1934 tok, d=114]", "decode[d=1+3 guesses]"));
  EXPECT_DOUBLE_EQ(steps[0].begin, 10);
  EXPECT_DOUBLE_EQ(steps[0].end, 500);
  EXPECT_DOUBLE_EQ(steps[1].begin, 540);
  EXPECT_DOUBLE_EQ(steps[1].end, 600);
  EXPECT_EQ(found.at("engine/planning").size(), 2U);
  ASSERT_EQ(found.at("engine/sampling").size(), 1U);
  EXPECT_DOUBLE_EQ(found.at("engine/sampling")[0].end, 520);
}

// A scheduler without an engine, over a pool that is too small for both of its sequences.
class SmallPool {
 public:
  SmallPool() : scheduler_(options(), &log_) {
    for (const std::uint64_t id : {10U, 11U}) {
      schedule::SequenceSpec spec;
      spec.id = id;
      spec.prompt_tokens = 6;
      spec.max_new_tokens = 8;
      EXPECT_TRUE(scheduler_.add(spec));
    }
    schedule::StepPlan plan;
    for (std::int64_t time = 0; !scheduler_.idle(); time += 100) {
      log_.set_time(time * kMicrosecond);
      EXPECT_TRUE(scheduler_.plan(plan));
      schedule::StepResult result;
      for (const schedule::Row& row : plan.rows) {
        if (row.sampled) result.rows.emplace_back();
      }
      log_.set_time((time + 100) * kMicrosecond);
      scheduler_.commit(plan, result);
    }
  }

  const EventLog& log() const { return log_; }

 private:
  static schedule::SchedulerOptions options() {
    schedule::SchedulerOptions options;
    options.max_num_seqs = 4;
    options.block_size = 4;
    options.kv_blocks = 6;
    options.max_context = 24;
    options.watermark = 0;
    return options;
  }

  EventLog log_{1024};
  schedule::Scheduler scheduler_;
};

TEST(Perfetto, ShowsSlotsPreemptionsAndWaiting) {
  const SmallPool run;
  const Json trace = parse(run.log());
  const auto found = slices(trace);
  // 11 gives way, and comes back when 10 has ended.
  EXPECT_THAT(names(found.at("slots/slot 0")),
              ElementsAre("10 prefill", "10 decode", "11 prefill", "11 decode"));
  EXPECT_THAT(names(found.at("slots/slot 1")), ElementsAre("11 prefill", "11 decode"));
  for (const auto& [track, all] : found) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_GE(all[i].end, all[i].begin) << track;
      if (i > 0) {
        EXPECT_GE(all[i].begin, all[i - 1].end) << track << " " << i;
      }
    }
  }
  const auto count = [&](auto holds) {
    const Json& events = trace["traceEvents"];
    return std::count_if(events.begin(), events.end(), holds);
  };
  EXPECT_EQ(count([](const Json& e) { return e["ph"] == "i" && e["name"] == "preempt 11"; }), 1);
  for (const char* phase : {"b", "e"}) {
    EXPECT_EQ(count([&](const Json& e) { return e["ph"] == phase && e["name"] == "11 waits"; }), 2);
    EXPECT_EQ(count([&](const Json& e) { return e["ph"] == phase && e["name"] == "10 waits"; }), 1);
  }
  std::uint64_t most_used = 0;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == "C" && event["name"] == "blocks used")
      most_used = std::max(most_used, event["args"]["blocks used"].get<std::uint64_t>());
  }
  EXPECT_EQ(most_used, 6U);
}

TEST(Perfetto, ALogThatLostItsBeginningGivesWhatIsWhole) {
  const SmallPool run;
  const std::vector<Event> events = run.log().events();
  for (std::size_t lost = 0; lost <= events.size(); ++lost) {
    const Json trace = Json::parse(perfetto_json(std::span(events).subspan(lost)));
    for (const auto& [track, all] : slices(trace)) {
      for (const Slice& slice : all) EXPECT_GE(slice.end, slice.begin) << track << " " << lost;
    }
    for (const Json& event : trace["traceEvents"]) {
      if (event["ph"] == "C" && event["name"] != "decode tokens") {
        EXPECT_LT(event["args"].begin()->get<std::uint64_t>(), 1000U) << event << lost;
      }
    }
  }
}

}  // namespace
}  // namespace dovetail::observe
