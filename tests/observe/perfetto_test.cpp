#include "observe/perfetto.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string>
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
    EXPECT_TRUE(scheduler_.add(spec));
  }
  void step() {
    tick();
    schedule::StepPlan plan;
    EXPECT_TRUE(scheduler_.plan(plan));
    tick();
    schedule::StepResult result;
    for (const schedule::Row& row : plan.rows) {
      if (row.sampled) result.rows.push_back({1, false, 0});
    }
    scheduler_.commit(plan, result);
  }
  void cancel(schedule::SequenceId id) { scheduler_.cancel(id); }
  std::vector<Event> events() const { return log_.events(); }
  bool idle() const { return scheduler_.idle(); }

 private:
  void tick() { log_.set_time(log_.time() + 1000000); }

  EventLog log_;
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
  EXPECT_THAT(instants, ElementsAre("preempted"));
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

}  // namespace
}  // namespace dovetail::observe
