// Tasks that fail while others start: the parts of a mixed task or a gang run all or not at all,
// since those that run may wait for each other.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "cores/executor.h"
#include "cores/machines.h"

namespace dovetail::cores {
namespace {

struct FailingKind {
  TaskSpec spec;
  std::uint32_t parts;
};

// All machines below can do them.
constexpr std::array kWideKinds = {
    FailingKind{{{1, 2, false}, false, 1, 0}, 3},  // mixed
    FailingKind{{{1, 1, false}, false, 3, 0}, 2}, FailingKind{{{0, 2, false}, false, 1, 0}, 2},
    FailingKind{{{1, 1, false}, true, 2, 0}, 2},  // gangs
    FailingKind{{kVectorTask, true, 4, 0}, 1},    FailingKind{{kVectorTask, true, 2, 0}, 1},
};

enum class FailsAs { kSingle, kWide };

// A program of tasks of which some fail, to be submitted or recorded, and what became of it.
class FailingProgram {
 public:
  static constexpr std::size_t kTasks = 40;

  FailingProgram(Executor& executor, bool meets, FailsAs fails_as, unsigned seed)
      : executor_(executor), meets_(meets), random_(seed), tasks_(kTasks) {
    for (std::size_t number = 0; number < kTasks; ++number) {
      Task& task = tasks_[number];
      if (below(2) == 0) {
        const FailingKind& kind = kWideKinds[below(kWideKinds.size())];
        task.spec = kind.spec;
        task.parts = kind.parts;
      } else {
        task.spec = {below(2) == 0 ? kMatrixTask : kVectorTask, false, 1, 0};
      }
      if (number > 0 && below(3) == 0) task.after = {number - 1 - below(std::min(number, kFar))};
      const bool may_fail = task.spec.is_wide() == (fails_as == FailsAs::kWide);
      task.may_fail = may_fail && below(4) == 0;
      task.failing = {below(task.spec.blocks), below(task.parts)};
      task.patience = below(2) == 0 ? 0 : below(2000);
    }
    tasks_.back().may_fail = true;
  }

  // What the run ended with.
  Status submit_all(bool fails) {
    begin(fails);
    Status refused;
    for (std::uint32_t number = 0; number < kTasks; ++number) {
      const Task& task = tasks_[number];
      std::vector<TaskNumber> after;
      for (const std::size_t earlier : task.after) after.push_back(tasks_[earlier].number);
      const auto submitted = executor_.submit(task.spec, function(number), {}, after);
      if (!submitted) {
        refused = fail(submitted.error());
        break;
      }
      tasks_[number].number = *submitted;
    }
    Status ended = executor_.wait();
    if (!refused) {
      EXPECT_FALSE(ended);
      EXPECT_EQ(refused.error().message, ended ? "" : ended.error().message);
    }
    return ended;
  }

  // As submit_all(), recorded once.
  Status run(bool fails) {
    begin(fails);
    if (recording_.size() == 0) {
      Recorder recorder;
      for (std::uint32_t number = 0; number < kTasks; ++number) {
        Task& task = tasks_[number];
        const std::vector<TaskNumber> after(task.after.begin(), task.after.end());
        const auto added = recorder.add(task.spec, function(number), {}, after);
        EXPECT_TRUE(added);
        task.number = number;
      }
      recording_ = std::move(recorder).finish();
    }
    return executor_.run(recording_);
  }

  // After a run that ended with `ended`, as one has to in which tasks fail if it `fails`.
  void check(bool fails, const Status& ended) const {
    ASSERT_FALSE(stuck_) << "a part waited for one that was not run";
    ASSERT_EQ(ended.has_value(), !fails);
    bool named = false;
    for (const Task& task : tasks_) {
      const std::uint32_t all = (1U << task.parts) - 1;
      const auto is = [&](std::uint32_t parts) {
        return [parts](const auto& ran) { return ran == parts; };
      };
      const auto first = task.ran.begin(), last = first + task.spec.blocks;
      // Those of a gang as one, others block by block.
      ASSERT_TRUE(
          std::all_of(first, last, is(all)) || (fails && std::all_of(first, last, is(0))) ||
          (fails && !task.spec.together &&
           std::all_of(first, last, [&](const auto& ran) { return ran == 0 || ran == all; })))
          << "some of its parts alone: task " << &task - tasks_.data();
      for (const std::size_t earlier : task.after) {
        ASSERT_TRUE(!tasks_[earlier].failed || std::all_of(first, last, is(0)));
      }
      named |= fails && task.failed &&
               ended.error().message == fmt::format("task {}: on purpose", task.number);
    }
    ASSERT_EQ(named, fails);
    ASSERT_EQ(faults_, 0);
  }

  // Mixed tasks and gangs that ran, and those that did not.
  std::pair<int, int> wide() const {
    std::pair<int, int> counts;
    for (const Task& task : tasks_) {
      if (task.spec.is_wide()) ++(task.ran[0] == 0 ? counts.second : counts.first);
    }
    return counts;
  }

 private:
  static constexpr std::size_t kFar = 6, kBlocks = 4;

  struct Task {
    TaskSpec spec;
    std::uint32_t parts = 1;
    std::vector<std::size_t> after;
    bool may_fail = false;
    std::pair<std::uint32_t, std::uint32_t> failing;  // the block and its part
    std::uint32_t patience = 0;  // how long it looks for parts that meet, before it fails
    TaskNumber number = 0;
    std::array<std::atomic<std::uint32_t>, kBlocks> ran = {};   // by block: its parts
    std::array<std::atomic<std::uint32_t>, kBlocks> came = {};  // to meet the others
    std::atomic<bool> failed{false};
  };

  std::uint32_t below(std::size_t n) { return static_cast<std::uint32_t>(random_() % n); }

  TaskFunction function(std::uint32_t number) {
    return [this, number](const Part& part) { play(tasks_[number], part); };
  }

  void begin(bool fails) {
    fails_ = fails;
    for (Task& task : tasks_) {
      for (auto& ran : task.ran) ran = 0;
      for (auto& came : task.came) came = 0;
      task.failed = false;
    }
  }

  void play(Task& task, const Part& part) {
    const std::uint32_t own = 1U << part.part;
    const bool again = (task.ran[part.block].fetch_or(own) & own) != 0;
    if (again || part.parts != task.parts) ++faults_;
    if (fails_ && task.may_fail && task.failing == std::pair(part.block, part.part)) {
      // The moment at which parts of another task start is the one to choose.
      const std::uint32_t before = meetings_;
      for (std::uint32_t i = 0; i < task.patience && meetings_ == before; ++i) {
        std::this_thread::yield();
      }
      task.failed = true;
      executor_.fail(part, {ErrorKind::kInternal, "on purpose"});
    }
    if (!meets_ || !task.spec.is_wide()) return;
    task.spec.together ? meet(task.came[0], task.parts * task.spec.blocks)
                       : meet(task.came[part.block], task.parts);
  }

  // As a Rendezvous, but with an end: a part that waits in vain tells all others.
  void meet(std::atomic<std::uint32_t>& came, std::uint32_t parts) {
    ++meetings_;
    ++came;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (came < parts && !stuck_) {
      std::this_thread::yield();
      if (std::chrono::steady_clock::now() > end) stuck_ = true;
    }
  }

  Executor& executor_;
  const bool meets_;
  bool fails_ = false;
  std::mt19937 random_;
  std::vector<Task> tasks_;
  Recording recording_;
  std::atomic<std::uint32_t> meetings_{0};
  std::atomic<int> faults_{0};
  std::atomic<bool> stuck_{false};
};

class FailuresOnMachines : public OnMachines {
 protected:
  static constexpr int kTimes = 4;

  // Plays random programs on one executor, each some times with failures and without. `play`
  // returns what a run ended with.
  template <class Play>
  void check(Play play) {
    ExecutorOptions small = options();
    small.graph = {64, 256, 256};
    Executor executor(machine(), small);
    const bool meets = small.threads == 0;  // otherwise parts may not wait for each other
    int ran = 0, skipped = 0;
    for (unsigned seed = 0; seed < 20; ++seed) {
      FailingProgram program(executor, meets, seed % 2 == 0 ? FailsAs::kSingle : FailsAs::kWide,
                             seed);
      for (int time = 0; time < kTimes; ++time) {
        for (const bool fails : {true, false}) {
          program.check(fails, play(program, fails));
          ASSERT_FALSE(HasFatalFailure()) << "seed " << seed << ", time " << time;
          if (!fails) continue;
          const auto [more, fewer] = program.wide();
          ran += more;
          skipped += fewer;
        }
      }
    }
    EXPECT_GT(ran, 0);
    EXPECT_GT(skipped, 0);
  }
};

INSTANTIATE_TEST_SUITE_P(Machines, FailuresOnMachines,
                         testing::Values(Machine{"2x(1C2V)", 0, true},
                                         Machine{"2x(1C2V)", 0, false}, Machine{"1x(4L)", 0, true},
                                         Machine{"2x(1C2V)", 2, true},
                                         Machine{"1x(4L)", 3, false}));

TEST_P(FailuresOnMachines, AllPartsRunOrNone) {
  check([](FailingProgram& program, bool fails) { return program.submit_all(fails); });
}

TEST_P(FailuresOnMachines, AllPartsOfARecordingRunOrNone) {
  check([](FailingProgram& program, bool fails) { return program.run(fails); });
}

// The blocks of a gang are given to lanes one after the other, and all of them run or none. A
// failure between two of them is rare: a fault here shows in every other run of the test.
TEST(ExecutorFailures, AFailureDividesNoGang) {
  constexpr std::uint32_t kBlocks = 11;
  ExecutorOptions options;
  options.caller_serves = false;
  Executor executor(topology("12x(1L)"), options);
  std::atomic<bool> due{false};
  std::atomic<std::uint32_t> ran{0};
  std::uint32_t patience = 0;
  bool fails = true;
  Recorder recorder;
  ASSERT_TRUE(recorder.add(kVector, [&](const Part& part) {
    // Fails about when the gang starts.
    while (!due) std::this_thread::yield();
    for (std::uint32_t i = 0; i < patience; ++i) due = true;
    if (fails) executor.fail(part, {ErrorKind::kInternal, "on purpose"});
  }));
  ASSERT_TRUE(recorder.add(kVector, [&](const Part&) { due = true; }));
  ASSERT_TRUE(recorder.add(
      {kVectorTask, true, kBlocks, 0}, [&](const Part&) { ++ran; }, {},
      std::vector<TaskNumber>{1}));
  const Recording recording = std::move(recorder).finish();
  std::mt19937 random(3);
  for (int time = 0; time < 400; ++time) {
    due = false;
    ran = 0;
    patience = static_cast<std::uint32_t>(random() % (1U << random() % 12));
    fails = time % 8 != 0;
    ASSERT_EQ(executor.run(recording).has_value(), !fails);
    ASSERT_TRUE(ran == kBlocks || (fails && ran == 0)) << "time " << time << ": " << ran;
  }
}

}  // namespace
}  // namespace dovetail::cores
