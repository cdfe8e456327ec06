#include "observe/perfetto.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/scheduler.h"

namespace dovetail::observe {
namespace {

using nlohmann::json;
using testing::Contains;
using testing::ElementsAre;

constexpr int kSteps = 1, kSlots = 2, kSequences = 3;

// Slices of a track in the order of their beginnings.
std::vector<std::string> slices(const json& trace, int process, std::uint64_t thread) {
  std::vector<std::pair<double, std::string>> found;
  for (const json& item : trace.at("traceEvents")) {
    if (item.at("ph") == "X" && item.at("pid") == process && item.at("tid") == thread)
      found.emplace_back(item.at("ts"), item.at("name"));
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> names;
  for (auto& [time, name] : found) names.push_back(std::move(name));
  return names;
}

// A scheduler under a clock that advances by a millisecond per call.
class Machine {
 public:
  explicit Machine(const schedule::SchedulerOptions& options)
      : log_(1 << 16), scheduler_(options, &log_) {}

  void add(schedule::SequenceId id, std::uint32_t prompt, std::uint32_t max) {
    schedule::SequenceSpec spec;
    spec.id = id;
    spec.prompt_tokens = prompt;
    spec.max_new_tokens = max;
    const std::vector<std::int32_t> tokens(prompt, static_cast<std::int32_t>(id));
    if (scheduler_.options().prefix_cache) spec.prompt = tokens;
    EXPECT_TRUE(scheduler_.add(spec));
  }
  void step() {
    tick();
    schedule::StepPlan plan;
    EXPECT_TRUE(scheduler_.plan(plan));
    tick();
    commit(plan);
  }
  // Until all is done; each step but the first is planned while another is in flight.
  void overlapped(bool engine) {
    schedule::StepPlan plans[2];
    std::size_t current = 0;
    const auto launch = [&] {
      tick();
      if (engine) log_.write(EventKind::kForward, plans[current].number);
    };
    while (!scheduler_.idle()) {
      EXPECT_TRUE(scheduler_.plan(plans[current]));
      launch();
      while (!plans[current].rows.empty()) {
        tick();
        EXPECT_TRUE(scheduler_.plan(plans[1 - current]));
        tick();
        if (engine) log_.write(EventKind::kForwarded, plans[current].number);
        tick();
        if (engine) log_.write(EventKind::kSampled, plans[current].number);
        commit(plans[current]);
        current = 1 - current;
        if (!plans[current].rows.empty()) launch();
      }
    }
  }
  std::uint64_t steps() const { return steps_; }
  std::uint32_t cached_blocks() const { return scheduler_.pool().cached(); }
  void cancel(schedule::SequenceId id) { scheduler_.cancel(id); }
  std::vector<Event> events() const { return log_.events(); }
  bool idle() const { return scheduler_.idle(); }

 private:
  void tick() { log_.set_time(log_.time() + 1000000); }
  void commit(const schedule::StepPlan& plan) {
    schedule::StepResult result;
    for (const schedule::Row& row : plan.rows) {
      if (!row.sampled) continue;
      result.rows.push_back({1, false, 0});
      result.tokens.push_back(static_cast<std::int32_t>(row.sequence));
    }
    scheduler_.commit(plan, result);
    ++steps_;
  }

  EventLog log_;
  std::uint64_t steps_ = 0;
  schedule::Scheduler scheduler_;
};

schedule::SchedulerOptions options(std::uint32_t blocks) {
  schedule::SchedulerOptions options;
  options.max_num_seqs = 4;
  options.max_num_batched_tokens = 16;
  options.block_size = 4;
  options.kv_blocks = blocks;
  options.max_context = 32;
  options.watermark = 0;
  return options;
}

TEST(Perfetto, NamesStepsByWhatTheyHold) {
  Machine run(options(40));
  run.add(1, 20, 3);
  run.add(2, 12, 1);
  while (!run.idle()) run.step();
  const json trace = json::parse(perfetto_json(run.events()));
  EXPECT_THAT(slices(trace, kSteps, 1),
              ElementsAre("prefill[p=1 chunks/16 tok]", "prefill[p=2 chunks/16 tok]", "decode[d=1]",
                          "decode[d=1]"));
  EXPECT_THAT(slices(trace, kSlots, 0), ElementsAre("prefill 1: 0+16", "prefill 1: 16+4",
                                                    "decode 1: 20+1", "decode 1: 21+1"));
  EXPECT_THAT(slices(trace, kSlots, 1), ElementsAre("prefill 2: 0+12"));
  EXPECT_THAT(slices(trace, kSequences, 1), ElementsAre("waiting", "prefill", "decode"));
  EXPECT_THAT(slices(trace, kSequences, 2), ElementsAre("waiting", "prefill"));
}

TEST(Perfetto, NamesMixedStepsAndInstants) {
  Machine run(options(8));
  run.add(1, 3, 28);
  run.step();
  run.add(2, 10, 20);
  while (!run.idle()) run.step();
  const json trace = json::parse(perfetto_json(run.events()));
  EXPECT_THAT(slices(trace, kSteps, 1), Contains("mixed[p=1 chunks/10 tok, d=1]"));
  EXPECT_THAT(slices(trace, kSequences, 2),
              ElementsAre("waiting", "prefill", "decode", "waiting", "prefill", "decode"));
  std::multiset<std::string> instants;
  for (const json& item : trace.at("traceEvents")) {
    if (item.at("ph") == "i") instants.insert(item.at("name"));
  }
  EXPECT_THAT(instants, ElementsAre("finished", "finished", "preempted"));
}

// The highest value of a counter's series, and the last.
std::pair<std::uint64_t, std::uint64_t> counted(const json& trace, std::string_view counter,
                                                std::string_view series) {
  std::pair<std::uint64_t, std::uint64_t> result;
  for (const json& item : trace.at("traceEvents")) {
    if (item.at("ph") != "C" || item.at("name") != counter) continue;
    result.second = item.at("args").at(std::string(series));
    result.first = std::max(result.first, result.second);
  }
  return result;
}

TEST(Perfetto, CountsWhatRunsWaitsAndIsCached) {
  schedule::SchedulerOptions with_cache = options(40);
  with_cache.prefix_cache = true;
  Machine run(with_cache);
  for (schedule::SequenceId id = 1; id <= 6; ++id) run.add(id, 9, 2);
  while (!run.idle()) run.step();
  const json trace = json::parse(perfetto_json(run.events()));
  EXPECT_EQ(counted(trace, "sequences", "running").second, 0U);
  EXPECT_GE(counted(trace, "sequences", "waiting").first, 4U);
  EXPECT_EQ(counted(trace, "sequences", "waiting").second, 0U);
  EXPECT_GE(counted(trace, "blocks", "in use").first, 3U);
  EXPECT_EQ(counted(trace, "blocks", "in use").second, 0U);
  EXPECT_EQ(counted(trace, "blocks", "cached").second, run.cached_blocks());
  EXPECT_GT(run.cached_blocks(), 0U);
  // A prompt and an answer; a second prompt would have to be cut.
  EXPECT_EQ(counted(trace, "tokens of a step", "tokens").first, 10U);
}

// Chrome's viewer nests slices of a track that overlap, and shows nonsense.
void expect_no_overlap(const json& trace) {
  std::map<std::pair<int, std::uint64_t>, std::vector<std::pair<double, double>>> tracks;
  for (const json& item : trace.at("traceEvents")) {
    if (item.at("ph") != "X") continue;
    const double begin = item.at("ts");
    tracks[{item.at("pid"), item.at("tid")}].emplace_back(begin,
                                                          begin + item.at("dur").get<double>());
  }
  for (auto& [track, found] : tracks) {
    std::sort(found.begin(), found.end());
    for (std::size_t i = 1; i < found.size(); ++i) {
      EXPECT_LE(found[i - 1].second, found[i].first + 1e-6)
          << "process " << track.first << ", track " << track.second;
    }
  }
}

TEST(Perfetto, StepsPlannedAheadBeginWhereTheOneBeforeEnds) {
  for (const bool engine : {false, true}) {  // writes its own events, or not
    Machine run(options(40));
    for (schedule::SequenceId id = 1; id <= 6; ++id) run.add(id, 9, 5);
    run.overlapped(engine);
    const json trace = json::parse(perfetto_json(run.events()));
    expect_no_overlap(trace);
    EXPECT_GT(slices(trace, kSteps, 3).size(), 3U);  // planned ahead
    EXPECT_EQ(slices(trace, kSteps, 1).size(), run.steps());
    EXPECT_EQ(slices(trace, kSteps, 2).size(), engine ? 2 * run.steps() : 0U);
    for (schedule::SequenceId id = 1; id <= 6; ++id)
      EXPECT_THAT(slices(trace, kSequences, id), ElementsAre("waiting", "prefill", "decode"));
  }
}

// Also of a log that has lost its beginning, and of events that make no sense.
TEST(Perfetto, IsValidWhateverTheEvents) {
  Machine run(options(8));
  for (schedule::SequenceId id = 1; id < 12; ++id) run.add(id, 3 + id, 20);
  for (int i = 0; i < 12; ++i) run.step();
  run.cancel(1);
  while (!run.idle()) run.step();
  const std::vector<Event> events = run.events();
  for (std::size_t lost = 0; lost < events.size(); lost += 7) {
    const json trace = json::parse(perfetto_json(std::span(events).subspan(lost)));
    expect_no_overlap(trace);
    for (const json& item : trace.at("traceEvents")) {
      if (item.contains("ts")) {
        EXPECT_GE(item.at("ts").get<double>(), 0.0);
      }
      if (item.at("ph") == "X") {
        EXPECT_GE(item.at("dur").get<double>(), 0.0);
      }
    }
  }
  EXPECT_TRUE(json::accept(perfetto_json({})));
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<Event> noise(random() % 60);
    const auto below = [&](std::uint32_t end) {
      return static_cast<std::uint32_t>(random()) % end;
    };
    for (Event& event : noise) {
      event.time = below(100);
      event.id = below(5);
      event.a = below(6);
      event.b = below(6);
      event.c = below(6);
      event.kind = static_cast<EventKind>(below(20));
      event.flags = static_cast<std::uint16_t>(below(8));
    }
    EXPECT_TRUE(json::accept(perfetto_json(noise)));
  }
}

TEST(Perfetto, DrawsLanes) {
  std::vector<Event> events(2);
  events[0].time = 1000;
  events[1].time = 9000;
  const std::vector<LaneSlice> lanes = {{3000, 4500, "gate-up", 3, 1, 2, 1},
                                        {2000, 3000, "logits", -1, 0, 0, 0},
                                        {3500, 4500, "down", 3, 1, 0, 1, LaneTrack::kPending},
                                        {4500, 5000, "kept", -1, 0, 0, 1, LaneTrack::kReserved},
                                        {500, 900, "logits", -1, 0, 0, 0}};  // before the log
  const json trace = json::parse(perfetto_json(events, lanes));
  EXPECT_THAT(slices(trace, 4, 3), ElementsAre("layer 3 gate-up"));
  EXPECT_THAT(slices(trace, 4, 4), ElementsAre("layer 3 down"));
  EXPECT_THAT(slices(trace, 4, 5), ElementsAre("kept"));
  EXPECT_THAT(slices(trace, 4, 0), ElementsAre("logits"));
  std::map<std::int64_t, std::string> names;
  for (const json& item : trace.at("traceEvents")) {
    if (item.at("name") == "thread_name" && item.at("pid") == 4)
      names[item.at("tid")] = item.at("args").at("name");
  }
  EXPECT_EQ(names,
            (std::map<std::int64_t, std::string>{
                {0, "lane 0"}, {3, "lane 1"}, {4, "lane 1 · parked"}, {5, "lane 1 · kept"}}));
  for (const json& item : trace.at("traceEvents")) {
    if (item.at("name") != "layer 3 gate-up") continue;
    EXPECT_EQ(item.at("ts"), 2.0);
    EXPECT_EQ(item.at("dur"), 1.5);
    EXPECT_EQ(item.at("args"), (json{{"tile", 1}, {"block", 2}}));
  }
}

// The last ones are kept.
TEST(LaneLog, ForgetsTheOldest) {
  LaneLog log(3);
  EXPECT_TRUE(log.slices().empty());
  for (std::uint32_t lane = 0; lane < 5; ++lane) log.write({0, 0, "", -1, 0, 0, lane});
  std::set<std::uint32_t> left;
  for (const LaneSlice& slice : log.slices()) left.insert(slice.lane);
  EXPECT_THAT(left, ElementsAre(2, 3, 4));
}

}  // namespace
}  // namespace dovetail::observe
