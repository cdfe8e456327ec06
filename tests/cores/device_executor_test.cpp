#include "dovetail/device_executor.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <queue>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "dovetail/cores.h"
#include "study/program.h"

namespace dovetail::cores {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr TaskSpec kC = {kMatrixTask, false, 1, 0};
constexpr TaskSpec kV = {kVectorTask, false, 1, 0};
constexpr TaskSpec kFused = {{1, 2, false}, false, 1, 0};
constexpr TaskSpec kJoin = {{0, 0, false}, false, 1, 0};

std::string lanes_text(LaneMask lanes) {
  std::string text;
  for_each_lane(lanes, [&](unsigned lane) { text += fmt::format(" {}", lane); });
  return text;
}

// An executor, and what it asked for: "dispatch TASK.BLOCK GROUP: LANES", "pend ...", "move ...".
struct Driven {
  explicit Driven(const char* topology, DeviceOptions options = {}) {
    options.trace = true;
    DeviceCallbacks callbacks;
    callbacks.dispatch = [this](const Placement& placed) {
      const auto note = [&](const char* what, LaneMask lanes) {
        if (lanes == 0) return;
        asked.push_back(fmt::format("{} {}.{} {}:{}", what, placed.task, placed.block, placed.group,
                                    lanes_text(lanes)));
      };
      note("dispatch", placed.running);
      note("pend", placed.pending);
      if (inside) inside();
    };
    callbacks.move = [this](const Move& move) {
      asked.push_back(fmt::format("move {}.{} {}.{} to {}.{}", move.task, move.block,
                                  move.from_group, move.from_lane, move.to_group, move.to_lane));
    };
    callbacks.ended = [this](TaskNumber task, Ticks) { ended.push_back(task); };
    executor.emplace(
        DeviceExecutor::create(*Topology::parse(topology), options, std::move(callbacks)).value());
  }
  Driven(const Driven&) = delete;
  Driven& operator=(const Driven&) = delete;

  TaskNumber submit(const TaskSpec& spec, const std::vector<Access>& accesses = {},
                    const std::vector<TaskNumber>& after = {}) {
    return executor->submit(spec, accesses, after).value();
  }
  // What was asked for at that time.
  std::vector<std::string> schedule(Ticks now) {
    asked.clear();
    const Status ok = executor->schedule(now);
    EXPECT_TRUE(ok) << ok.error().message;
    return asked;
  }
  std::vector<HandOver> complete(const LanePart& part, Ticks now) {
    const auto started = executor->complete(part, now);
    EXPECT_TRUE(started) << started.error().message;
    return started.value_or(std::vector<HandOver>());
  }
  // The message of a completion that is refused.
  std::string refused(const std::vector<LanePart>& parts, Ticks now) {
    const auto started = executor->complete(parts, now);
    if (started) return "completed";
    EXPECT_EQ(started.error().kind, ErrorKind::kInvalid);
    return started.error().message;
  }

  std::vector<std::string> asked;
  std::vector<TaskNumber> ended;
  std::function<void()> inside;
  std::optional<DeviceExecutor> executor;
};

Access access(BufferId buffer, AccessMode mode) { return {Region(buffer, 0, 64), mode}; }

TEST(DeviceExecutor, StartsATaskWhenThoseThatItWaitsForHaveEnded) {
  Driven device("2x(1C2V)");
  device.submit(kV, {access(1, AccessMode::kWrite)});
  device.submit(kC, {access(1, AccessMode::kRead), access(2, AccessMode::kWrite)});
  device.submit(kC, {access(3, AccessMode::kWrite)});
  device.submit(kV, {}, {1, 2});
  EXPECT_THAT(device.asked, IsEmpty()) << "submit() starts nothing";
  EXPECT_THAT(device.schedule(0), ElementsAre("dispatch 0.0 0: 1", "dispatch 2.0 0: 0"));
  EXPECT_THAT(device.complete({2, 0, 0, 0}, 5), IsEmpty());
  EXPECT_THAT(device.schedule(5), IsEmpty());
  device.complete({0, 0, 0, 1}, 7);
  EXPECT_THAT(device.schedule(7), ElementsAre("dispatch 1.0 0: 0"));
  device.complete({1, 0, 0, 0}, 9);
  EXPECT_THAT(device.schedule(9), ElementsAre("dispatch 3.0 0: 1"));
  EXPECT_EQ(device.executor->unfinished(), 1U);
  EXPECT_EQ(device.executor->busy_lanes(), 1U);
  device.complete({3, 0, 0, 1}, 11);
  EXPECT_THAT(device.ended, ElementsAre(2, 0, 1, 3));
  EXPECT_TRUE(device.executor->end_run());
}

TEST(DeviceExecutor, StartsTheOldestFirst) {
  Driven device("1x(1C)");
  for (int task = 0; task < 4; ++task) device.submit(kC);
  EXPECT_THAT(device.schedule(0), ElementsAre("dispatch 0.0 0: 0", "pend 1.0 0: 0"));
  for (TaskNumber task = 0; task < 4; ++task) {
    const auto next = device.complete({task, 0, 0, 0}, task + 1);
    if (task == 3) break;
    ASSERT_EQ(next.size(), 1U);
    EXPECT_EQ(next[0].starts, (LanePart{task + 1, 0, 0, 0}));
    EXPECT_FALSE(next[0].exchanged);
    device.schedule(task + 1);
  }
  EXPECT_THAT(device.ended, ElementsAre(0, 1, 2, 3));
}

TEST(DeviceExecutor, GivesAMixedTaskItsLanesAtOnceAndKeepsThemMeanwhile) {
  DeviceOptions options;
  options.dispatch.pending_slots = false;
  Driven device("1x(1C2V)", options);
  device.submit(kV);
  EXPECT_THAT(device.schedule(0), ElementsAre("dispatch 0.0 0: 1"));
  device.submit(kFused);
  device.submit(kC);
  device.submit(kV);
  EXPECT_THAT(device.schedule(0), IsEmpty()) << "lanes 0 and 2 are kept";
  EXPECT_THAT(device.schedule(9), IsEmpty());
  device.complete({0, 0, 0, 1}, 10);
  EXPECT_THAT(device.schedule(10), ElementsAre("dispatch 1.0 0: 0 1 2"));
  // It ends with its last part.
  device.complete({1, 0, 0, 2}, 12);
  device.complete({1, 0, 0, 0}, 13);
  EXPECT_THAT(device.ended, ElementsAre(0));
  device.complete({1, 0, 0, 1}, 14);
  EXPECT_THAT(device.ended, ElementsAre(0, 1));
  EXPECT_THAT(device.schedule(14), ElementsAre("dispatch 2.0 0: 0", "dispatch 3.0 0: 1"));

  const LaneSpans spans = device.executor->take_spans();
  EXPECT_THAT(spans.reserved,
              testing::UnorderedElementsAre(ReservedSpan{0, 0, 0, 10}, ReservedSpan{0, 2, 0, 10}));
  EXPECT_THAT(spans.running, ElementsAre(Span{0, 0, 0, 1, 0, 10}, Span{1, 0, 0, 2, 10, 12},
                                         Span{1, 0, 0, 0, 10, 13}, Span{1, 0, 0, 1, 10, 14}));
}

TEST(DeviceExecutor, StartsAGangAsAWhole) {
  Driven device("2x(1C2V)");
  device.submit(kC);
  EXPECT_THAT(device.schedule(0), ElementsAre("dispatch 0.0 0: 0"));
  device.submit({kMatrixTask, true, 2, 0});
  EXPECT_THAT(device.schedule(0), IsEmpty());
  device.complete({0, 0, 0, 0}, 3);
  EXPECT_THAT(device.schedule(3), ElementsAre("dispatch 1.0 0: 0", "dispatch 1.1 1: 0"));
}

TEST(DeviceExecutor, SaysWhatLanesHaveExchanged) {
  Driven device("1x(2V)");
  for (int task = 0; task < 4; ++task) device.submit(kV);
  EXPECT_THAT(device.schedule(0), ElementsAre("dispatch 0.0 0: 0", "dispatch 1.0 0: 1",
                                              "pend 2.0 0: 0", "pend 3.0 0: 1"));
  // Task 2 is older than what lane 1 has pending.
  const auto next = device.complete({1, 0, 0, 1}, 5);
  ASSERT_EQ(next.size(), 1U);
  EXPECT_EQ(next[0].starts, (LanePart{2, 0, 0, 1}));
  EXPECT_EQ(next[0].exchanged, (LanePart{3, 0, 0, 0}));
  EXPECT_EQ(device.complete({0, 0, 0, 0}, 6).at(0).starts, (LanePart{3, 0, 0, 0}));
  const auto pending = device.executor->take_spans().pending;
  EXPECT_THAT(pending, testing::UnorderedElementsAre(Span{2, 0, 0, 0, 0, 5}, Span{3, 0, 0, 1, 0, 5},
                                                     Span{3, 0, 0, 0, 5, 6}));
}

TEST(DeviceExecutor, MovesWhatIsPendingToAnIdleLane) {
  Driven device("1x(2V)");
  for (int task = 0; task < 3; ++task) device.submit(kV);
  EXPECT_THAT(device.schedule(0),
              ElementsAre("dispatch 0.0 0: 0", "dispatch 1.0 0: 1", "pend 2.0 0: 0"));
  EXPECT_THAT(device.complete({1, 0, 0, 1}, 5), IsEmpty());
  EXPECT_THAT(device.schedule(5), ElementsAre("move 2.0 0.0 to 0.1"));
  EXPECT_THAT(device.complete({0, 0, 0, 0}, 6), IsEmpty());
  device.complete({2, 0, 0, 1}, 7);
  EXPECT_EQ(device.executor->unfinished(), 0U);
}

TEST(DeviceExecutor, EndsJoinsByThemselves) {
  Driven device("1x(1C2V)");
  device.submit(kV);
  device.submit(kJoin, {}, {0});
  device.submit(kJoin, {}, {1});
  device.submit(kC, {}, {2});
  device.submit(kJoin);
  device.schedule(0);
  EXPECT_THAT(device.ended, ElementsAre(4));
  device.complete({0, 0, 0, 1}, 4);
  EXPECT_THAT(device.ended, ElementsAre(4, 0, 1, 2));
  EXPECT_THAT(device.schedule(4), ElementsAre("dispatch 3.0 0: 0"));
}

TEST(DeviceExecutor, RefusesWhatIsMoreThanTheGraphHolds) {
  DeviceOptions options;
  options.graph.tasks = 4;
  Driven device("1x(1C)", options);
  for (int task = 0; task < 4; ++task) device.submit(kC);
  for (TaskNumber task = 0; task < 20; ++task) {
    const auto full = device.executor->submit(kC);
    ASSERT_FALSE(full);
    EXPECT_EQ(full.error().kind, ErrorKind::kExhausted);
    device.schedule(task);
    device.complete({task, 0, 0, 0}, task);
    EXPECT_EQ(device.submit(kC), task + 4) << "one has ended, one place is free";
  }
  EXPECT_EQ(device.executor->high_water().tasks, 4U);

  // A scope that holds all places can never be left by waiting.
  Driven scoped("1x(1C)", options);
  scoped.executor->begin_scope();
  for (int task = 0; task < 4; ++task) scoped.submit(kC);
  const auto never = scoped.executor->submit(kC);
  ASSERT_FALSE(never);
  EXPECT_EQ(never.error().kind, ErrorKind::kInvalid);
  EXPECT_THAT(never.error().message, HasSubstr("GraphOptions::tasks"));
  EXPECT_TRUE(scoped.executor->end_scope());
  EXPECT_THAT(scoped.executor->end_scope().error().message, HasSubstr("no scope is open"));
}

TEST(DeviceExecutor, RefusesCompletionsThatCannotBe) {
  Driven device("1x(1C2V)");
  for (int task = 0; task < 3; ++task) device.submit(kC);
  EXPECT_THAT(device.refused({{0, 0, 0, 0}}, 0), HasSubstr("is not on group 0 · matrix 0; it "
                                                           "executes nothing"))
      << "before schedule()";
  EXPECT_THAT(device.schedule(0), ElementsAre("dispatch 0.0 0: 0", "pend 1.0 0: 0"));
  EXPECT_THAT(device.refused({{0, 0, 7, 0}}, 1), HasSubstr("has no group 7; 0 to 0 are valid"));
  EXPECT_THAT(device.refused({{0, 0, 0, 3}}, 1), HasSubstr("has no lane 3; 0 to 2 are valid"));
  EXPECT_THAT(device.refused({{0, 0, 0, 99}}, 1), HasSubstr("has no lane 99"));
  EXPECT_THAT(device.refused({{0, 0, 0, 1}}, 1), HasSubstr("vector 0; it executes nothing"));
  EXPECT_THAT(device.refused({{0, 1, 0, 0}}, 1),
              AllOf(HasSubstr("block 1 of task 0"), HasSubstr("block 0 of task 0, which it")));
  EXPECT_THAT(device.refused({{1, 0, 0, 0}}, 1), HasSubstr("is pending on group 0"));
  EXPECT_THAT(device.refused({{0, 0, 0, 0}, {0, 0, 0, 0}}, 1), HasSubstr("is listed twice"));
  EXPECT_THAT(device.refused({{0, 0, 0, 0}, {2, 0, 0, 1}}, 1), HasSubstr("block 0 of task 2"))
      << "nor is the first of them taken";
  EXPECT_EQ(device.executor->busy_lanes(), 1U);

  EXPECT_EQ(device.complete({0, 0, 0, 0}, 4).size(), 1U);
  EXPECT_THAT(device.refused({{0, 0, 0, 0}}, 5),
              AllOf(HasSubstr("block 0 of task 0 on group 0 · matrix 0 was completed before, at 4"),
                    HasSubstr("block 0 of task 1, which it executes, is valid")));
  EXPECT_THAT(device.refused({{1, 0, 0, 0}}, 3), HasSubstr("the time is 3; 4 or later is valid"));
  EXPECT_THAT(device.executor->schedule(3).error().message, HasSubstr("4 or later"));
  device.schedule(5);
  device.complete({1, 0, 0, 0}, 6);
  device.complete({2, 0, 0, 0}, 7);
  EXPECT_THAT(device.refused({{2, 0, 0, 0}}, 8), HasSubstr("was completed before, at 7"));
  EXPECT_THAT(device.ended, ElementsAre(0, 1, 2)) << "each once";
}

TEST(DeviceExecutor, RefusesCallsByItsCallbacks) {
  Driven device("1x(1C)");
  device.submit(kC);
  std::vector<std::string> messages;
  device.inside = [&] {
    DeviceExecutor& executor = *device.executor;
    messages = {executor.submit(kC).error().message, executor.schedule(0).error().message,
                executor.complete({0, 0, 0, 0}, 0).error().message,
                executor.fail(0, {}).error().message, executor.end_run().error().message};
  };
  device.schedule(0);
  ASSERT_EQ(messages.size(), 5U);
  for (const std::string& message : messages) {
    EXPECT_THAT(message, HasSubstr("() was called by a callback"));
  }
  device.complete({0, 0, 0, 0}, 1);
  EXPECT_TRUE(device.executor->end_run());
}

TEST(DeviceExecutor, RefusesTasksThatCannotBe) {
  Driven device("2x(1C1V)");
  const auto message = [&](const TaskSpec& spec, const std::vector<TaskNumber>& after = {}) {
    const auto task = device.executor->submit(spec, {}, after);
    return task ? "submitted" : task.error().message;
  };
  EXPECT_THAT(message(kFused), HasSubstr("no group has 1 matrix and 2 vector lanes"));
  EXPECT_THAT(message({kMatrixTask, true, 3, 0}), HasSubstr("the machine has places for 2"));
  EXPECT_THAT(message({kMatrixTask, false, 0, 0}), HasSubstr("no blocks"));
  EXPECT_THAT(message(kC, {0}), HasSubstr("`after` names task 0; the 0 tasks before it are valid"));
  EXPECT_EQ(device.executor->submitted(), 0U);
  EXPECT_THAT(device.executor->fail(0, {}).error().message, HasSubstr("task 0"));

  const auto made = [](DeviceOptions options, DeviceCallbacks callbacks) {
    const auto executor =
        DeviceExecutor::create(*Topology::parse("1x(1C)"), options, std::move(callbacks));
    return executor ? "made" : executor.error().message;
  };
  DeviceCallbacks callbacks;
  EXPECT_THAT(made({}, callbacks), HasSubstr("DeviceCallbacks::dispatch"));
  callbacks.dispatch = [](const Placement&) {};
  EXPECT_THAT(made({}, callbacks), HasSubstr("DeviceCallbacks::move"));
  DeviceOptions options;
  options.dispatch.pending_slots = false;
  EXPECT_EQ(made(options, callbacks), "made");
  options.graph.tasks = 12;
  EXPECT_THAT(made(options, callbacks), HasSubstr("GraphOptions::tasks is 12"));
}

TEST(DeviceExecutor, EndsARunThatFailsWithItsFirstError) {
  Driven device("1x(1C)");
  device.submit(kC);           // executes
  device.submit(kC);           // pending
  device.submit(kC);           // with the dispatcher
  device.submit(kC, {}, {0});  // waits
  device.submit(kJoin, {}, {2, 3});
  device.schedule(0);
  EXPECT_TRUE(device.executor->fail(0, {ErrorKind::kIo, "the link is down"}));
  EXPECT_TRUE(device.executor->fail(1, {ErrorKind::kIo, "still down"}));
  EXPECT_THAT(device.executor->submit(kC).error().message, HasSubstr("task 0: the link is down"));
  EXPECT_THAT(device.schedule(1), IsEmpty());
  EXPECT_THAT(device.ended, ElementsAre(2)) << "the others wait for what was dispatched";
  EXPECT_THAT(device.executor->end_run().error().message, HasSubstr("4 tasks have not ended"));
  EXPECT_EQ(device.complete({0, 0, 0, 0}, 2).at(0).starts, (LanePart{1, 0, 0, 0}));
  EXPECT_THAT(device.ended, ElementsAre(2, 0, 3, 4));
  EXPECT_THAT(device.complete({1, 0, 0, 0}, 3), IsEmpty());
  const Status run = device.executor->end_run();
  EXPECT_EQ(run.error().kind, ErrorKind::kIo);
  EXPECT_EQ(run.error().message, "task 0: the link is down");

  // The next run is clean.
  EXPECT_EQ(device.submit(kC), 5U);
  EXPECT_THAT(device.schedule(4), ElementsAre("dispatch 5.0 0: 0"));
  device.complete({5, 0, 0, 0}, 5);
  EXPECT_TRUE(device.executor->end_run());
}

TEST(DeviceExecutor, FailsWhereLanesAreReserved) {
  Driven device("1x(1C2V)");
  device.submit(kV);
  device.schedule(0);
  device.submit(kFused);
  device.schedule(0);
  EXPECT_TRUE(device.executor->fail(0, {ErrorKind::kIo, "no"}));
  device.complete({0, 0, 0, 1}, 8);
  EXPECT_FALSE(device.executor->end_run());
  EXPECT_THAT(device.executor->take_spans().reserved,
              testing::UnorderedElementsAre(ReservedSpan{0, 0, 0, 8}, ReservedSpan{0, 2, 0, 8}));
  device.submit(kFused);
  EXPECT_THAT(device.schedule(9), ElementsAre("dispatch 2.0 0: 0 1 2"));
  device.complete({2, 0, 0, 0}, 10);
  device.complete({2, 0, 0, 1}, 10);
  device.complete({2, 0, 0, 2}, 10);
  EXPECT_TRUE(device.executor->end_run());
}

// A device of which each part takes as long as the program says, driven to its end.
struct DeviceRun {
  LaneSpans spans;
  std::vector<TaskNumber> ended;
};

DeviceRun run_on_device(const Topology& topology, const std::vector<study::ProgramTask>& program,
                        const study::PlayOptions& options) {
  struct End {
    Ticks at = 0;
    std::uint64_t order = 0;
    LanePart part;
    bool operator>(const End& other) const {
      return std::tie(at, order) > std::tie(other.at, other.order);
    }
  };
  std::priority_queue<End, std::vector<End>, std::greater<>> ends;
  Ticks now = 0;
  std::uint64_t order = 0;
  const auto start = [&](const LanePart& part) {
    ends.push({now + program[part.task].takes, order++, part});
  };
  DeviceRun run;
  DeviceCallbacks callbacks;
  callbacks.dispatch = [&](const Placement& placed) {
    for_each_lane(placed.running, [&](unsigned lane) {
      start({placed.task, placed.block, placed.group, lane});
    });
  };
  callbacks.move = [&](const Move& move) {
    start({move.task, move.block, move.to_group, move.to_lane});
  };
  callbacks.ended = [&](TaskNumber task, Ticks) { run.ended.push_back(task); };
  auto executor = DeviceExecutor::create(topology, {options.graph, options.dispatch, true},
                                         std::move(callbacks))
                      .value();
  do {
    while (executor.submitted() < program.size()) {
      const study::ProgramTask& task = program[executor.submitted()];
      const TaskSpec spec = {task.shape, task.together, task.blocks,
                             options.costs_known ? task.takes : 0};
      const auto number = executor.submit(spec, task.accesses, task.after);
      if (number) continue;
      EXPECT_EQ(number.error().kind, ErrorKind::kExhausted) << number.error().message;
      break;
    }
    EXPECT_TRUE(executor.schedule(now));
    if (ends.empty()) continue;
    now = ends.top().at;
    std::vector<LanePart> ended;
    for (; !ends.empty() && ends.top().at == now; ends.pop()) ended.push_back(ends.top().part);
    const auto next = executor.complete(ended, now);
    EXPECT_TRUE(next) << next.error().message;
    for (const HandOver& one : *next) start(one.starts);
  } while (executor.unfinished() > 0 || executor.submitted() < program.size());
  EXPECT_TRUE(executor.end_run());
  EXPECT_EQ(executor.busy_lanes(), 0U);
  run.spans = executor.take_spans();
  return run;
}

std::vector<study::ProgramTask> random_program(std::mt19937_64& random) {
  const auto below = [&](std::uint64_t n) { return random() % n; };
  constexpr TaskShape kShapes[] = {kMatrixTask,   kVectorTask, {1, 1, false}, {1, 2, false},
                                   {0, 2, false}, kWholeGroup, {0, 0, false}};
  std::vector<study::ProgramTask> program(1 + below(120));
  for (TaskNumber number = 0; number < program.size(); ++number) {
    study::ProgramTask& task = program[number];
    task.shape = kShapes[below(std::size(kShapes))];
    if (study::has_lanes(task.shape)) {
      task.together = below(8) == 0;
      task.blocks = static_cast<std::uint32_t>(1 + (below(3) == 0 ? below(2) : 0));
    }
    task.takes = 1 + below(20);
    for (std::uint64_t access = below(3); access > 0; --access) {
      task.accesses.push_back({Region(below(12), 64 * below(2), 64 + 64 * below(2)),
                               static_cast<AccessMode>(below(3))});
    }
    if (number > 0 && below(6) == 0) task.after.push_back(below(number));
  }
  return program;
}

std::string text_of(const std::vector<Span>& spans) {
  std::string text;
  for (const Span& span : spans) {
    text += fmt::format("{}.{} on {}.{} from {} to {}\n", span.task, span.block, span.group,
                        span.lane, span.start, span.end);
  }
  return text;
}

template <class AnySpan>
std::vector<AnySpan> sorted(std::vector<AnySpan> spans) {
  std::sort(spans.begin(), spans.end(), [](const AnySpan& a, const AnySpan& b) {
    return std::tie(a.start, a.end, a.group, a.lane) < std::tie(b.start, b.end, b.group, b.lane);
  });
  return spans;
}

// The laws judge the virtual machine; the same program gives the same spans here.
TEST(DeviceExecutor, DoesWhatTheVirtualMachineDoes) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    std::mt19937_64 random(seed);
    const auto topology = *Topology::parse(seed % 2 == 0 ? "3x(1C2V)" : "2x(1C2V)+1x(3L)");
    const auto program = random_program(random);
    study::PlayOptions options;
    options.dispatch.starvation_bound = static_cast<std::uint32_t>(1 + random() % 10);
    options.dispatch.pending_slots = random() % 3 != 0;
    options.dispatch.backfills = random() % 3 != 0;
    options.costs_known = random() % 2 == 0;
    const auto played = study::play_program(topology, program, options);
    ASSERT_TRUE(played) << played.error().message;
    const DeviceRun run = run_on_device(topology, program, options);
    ASSERT_EQ(run.ended.size(), program.size()) << "seed " << seed;
    ASSERT_EQ(text_of(sorted(run.spans.running)), text_of(sorted(played->spans)))
        << "seed " << seed;
    ASSERT_EQ(text_of(sorted(run.spans.pending)), text_of(sorted(played->pending)))
        << "seed " << seed;
    ASSERT_EQ(sorted(run.spans.reserved), sorted(played->reserved)) << "seed " << seed;
  }
}

// Rings that are nearly always full, and every policy: all that was submitted ends once, after what
// it waits for.
TEST(DeviceExecutor, KeepsTheOrderOfTheSerialProgramInSmallRings) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    std::mt19937_64 random(seed);
    const auto topology = *Topology::parse("2x(1C2V)");
    const auto program = random_program(random);
    study::PlayOptions options;
    options.graph = {std::uint32_t{2} << random() % 4, static_cast<std::uint32_t>(3 + random() % 9),
                     static_cast<std::uint32_t>(12 + random() % 9)};
    options.dispatch.policy = static_cast<AdmissionPolicy>(seed % 3);
    const DeviceRun run = run_on_device(topology, program, options);
    std::vector<Ticks> starts(program.size(), ~Ticks{0}), ends(program.size(), 0);
    std::vector<std::size_t> position(program.size(), program.size());
    for (std::size_t i = 0; i < run.ended.size(); ++i) {
      ASSERT_EQ(position[run.ended[i]], program.size()) << "task " << run.ended[i] << " ends twice";
      position[run.ended[i]] = i;
    }
    ASSERT_EQ(run.ended.size(), program.size());
    for (const Span& span : run.spans.running) {
      starts[span.task] = std::min(starts[span.task], span.start);
      ends[span.task] = std::max(ends[span.task], span.end);
    }
    const auto before = study::dependencies_of(program);
    for (TaskNumber task = 0; task < program.size(); ++task) {
      for (const TaskNumber earlier : before[task]) {
        ASSERT_LT(position[earlier], position[task]) << "seed " << seed;
        ASSERT_LE(ends[earlier], starts[task]) << "seed " << seed << ", task " << task;
      }
    }
  }
}

}  // namespace
}  // namespace dovetail::cores
