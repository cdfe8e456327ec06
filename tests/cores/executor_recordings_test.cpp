#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "cores/executor.h"
#include "cores/machines.h"

namespace dovetail::cores {
namespace {

using testing::HasSubstr;

class RecordingsOnMachines : public OnMachines {};

INSTANTIATE_TEST_SUITE_P(Machines, RecordingsOnMachines, testing::ValuesIn(kMachines));

TEST_P(RecordingsOnMachines, ARecordingRunsAgainAndAgain) {
  Executor executor(machine(), options());
  std::vector<int> values(20, 0);
  std::atomic<int> blocks{0};
  Recorder recorder;
  for (std::size_t i = 0; i < values.size(); ++i) {
    int* value = &values[i];
    ASSERT_TRUE(recorder.add(
        kVector, [value](const Part&) { ++*value; },
        std::vector{access_of(i, AccessMode::kReadWrite)}));
  }
  const auto join = recorder.add({{0, 0, false}, false, 1, 0}, {}, {},
                                 std::vector<TaskNumber>{0, 1, 2, 3, 4, 5, 6, 7});
  ASSERT_TRUE(join);
  const auto wide = recorder.add(
      {kMatrixTask, false, 5, 0}, [&](const Part&) { ++blocks; }, {}, std::vector{*join});
  ASSERT_TRUE(wide);
  Recording recording = std::move(recorder).finish();
  EXPECT_EQ(recording.size(), 22U);
  EXPECT_EQ(recording.edges(), 9U);
  for (int time = 1; time <= 50; ++time) {
    ASSERT_TRUE(executor.run(recording));
    ASSERT_THAT(values, testing::Each(time));
    ASSERT_EQ(blocks, 5 * time);
  }
  recording.set_blocks(*wide, 11);
  ASSERT_TRUE(executor.run(recording));
  EXPECT_EQ(blocks, 250 + 11);
  ASSERT_TRUE(executor.run(Recorder().finish())) << "of nothing";
  // Tasks may be submitted before and after.
  expect_submits(executor, kVector, [&](const Part&) { ++blocks; });
  ASSERT_TRUE(executor.wait());
  EXPECT_EQ(blocks, 262);
}

TEST_P(RecordingsOnMachines, ARecordingThatFailsCanRunAgain) {
  Executor executor(machine(), options());
  bool fails = true;
  std::atomic<int> after{0};
  Recorder recorder;
  ASSERT_TRUE(recorder.add(kMatrix, [&](const Part& part) {
    if (fails) executor.fail(part, {ErrorKind::kIo, "no such luck"});
  }));
  ASSERT_TRUE(recorder.add(
      kVector, [&](const Part&) { ++after; }, {}, std::vector<TaskNumber>{0}));
  const Recording recording = std::move(recorder).finish();
  const Status failed = executor.run(recording);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message, "task 0: no such luck");
  EXPECT_EQ(after, 0);
  fails = false;
  EXPECT_TRUE(executor.run(recording));
  EXPECT_EQ(after, 1);
}

TEST(Recordings, AJoinPutsNothingBehindWhatCameLater) {
  Executor executor(topology("1x(1L)"), {});
  std::vector<TaskNumber> order, expected;
  const auto note = [&order](const Part& part) { order.push_back(part.task); };
  Recorder recorder;
  const auto join = recorder.add({{0, 0, false}, false, 1, 0}, {});
  ASSERT_TRUE(join);
  for (TaskNumber number = 1; number < 50; ++number) {
    const std::vector<TaskNumber> after(number == 1 ? 1 : 0, *join);
    ASSERT_TRUE(recorder.add(number % 2 == 0 ? kVector : kMatrix, note, {}, after));
    expected.push_back(number);
  }
  const Recording recording = std::move(recorder).finish();
  ASSERT_TRUE(executor.run(recording));
  EXPECT_EQ(order, expected);
}

TEST_P(RecordingsOnMachines, AChainRunsInItsOrderOnLanesThatFit) {
  ExecutorOptions traced = options();
  traced.trace = true;
  Executor executor(machine(), traced);
  constexpr int kLinks = 50;
  for (const auto& [odd, even] :
       {std::pair(kVector, kVector), std::pair(kMatrix, kMatrix), std::pair(kMatrix, kVector)}) {
    std::vector<TaskNumber> order;
    Recorder recorder;
    std::vector<TaskNumber> last;
    for (int link = 0; link < kLinks; ++link) {
      const bool matrix = (link % 2 == 0 ? even : odd).shape.matrix > 0;
      const auto function = [&executor, &order, matrix](const Part& part) {
        const GroupSpec& group = executor.topology().groups()[part.group];
        EXPECT_NE((matrix ? group.matrix : group.vector) >> part.lane & 1, 0U);
        order.push_back(part.task);
      };
      last = {*recorder.add(link % 2 == 0 ? even : odd, function, {}, last)};
    }
    const Recording recording = std::move(recorder).finish();
    std::atomic<int> others{0};
    for (int time = 0; time < 3; ++time) {
      order.clear();
      ASSERT_TRUE(executor.run(recording));
      ASSERT_THAT(order, testing::SizeIs(kLinks));
      EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
      EXPECT_THAT(executor.take_spans().running, testing::SizeIs(kLinks));
      // Lanes are as free as before.
      for (int i = 0; i < 20; ++i) {
        expect_submits(executor, i % 2 == 0 ? kMatrix : kVector, [&](const Part&) { ++others; });
      }
      ASSERT_TRUE(executor.wait());
      EXPECT_THAT(executor.take_spans().running, testing::SizeIs(20));
    }
    EXPECT_EQ(others, 60);
  }
}

TEST_P(RecordingsOnMachines, AChainThatIsChangedRunsAsItIs) {
  Executor executor(machine(), options());
  constexpr TaskNumber kLinks = 10, kChanged = 4;
  struct Seen {
    const Topology& topology;
    bool whole = false;  // what the changed link is
    std::array<std::atomic<std::uint32_t>, kLinks> blocks{};
  } seen{executor.topology()};
  Recorder recorder;
  std::vector<TaskNumber> last;
  for (TaskNumber link = 0; link < kLinks; ++link) {
    const auto function = [&seen](const Part& part) {
      const GroupSpec& group = seen.topology.groups()[part.group];
      const bool joined = seen.whole && part.task == kChanged;
      EXPECT_EQ(part.parts, joined ? std::popcount(group.all()) : 1);
      if (part.part == 0) ++seen.blocks[part.task];
    };
    last = {*recorder.add(kVector, function, {}, last)};
  }
  Recording recording = std::move(recorder).finish();
  for (const auto& [blocks, whole] :
       {std::pair(1U, false), std::pair(7U, false), std::pair(1U, true), std::pair(3U, true),
        std::pair(1U, false)}) {
    seen.whole = whole;
    for (auto& count : seen.blocks) count = 0;
    recording.set_blocks(kChanged, blocks);
    recording.set_shape(kChanged, whole ? kWholeGroup : kVectorTask);
    ASSERT_TRUE(executor.run(recording));
    for (TaskNumber link = 0; link < kLinks; ++link)
      EXPECT_EQ(seen.blocks[link], link == kChanged ? blocks : 1) << link;
  }
}

TEST(ExecutorRecordings, TheWatchdogSeesAChain) {
  ExecutorOptions options;
  options.stall_limit = std::chrono::milliseconds(20);
  std::atomic<int> told{0};
  std::vector<Stall> stalls;
  options.on_stall = [&](const Stall& stall) {
    stalls.push_back(stall);
    ++told;
  };
  Executor executor(topology("1x(2L)"), options);
  Recorder recorder;
  const auto first = recorder.add(kVector, [](const Part&) {});
  const auto waits = [&told](const Part&) {
    const int before = told;
    while (told == before) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  ASSERT_TRUE(recorder.add(kVector, waits, {}, std::vector<TaskNumber>{*first}));
  const Recording recording = std::move(recorder).finish();
  for (int time = 0; time < 2; ++time) ASSERT_TRUE(executor.run(recording));
  ASSERT_EQ(told, 2);
  for (const Stall& stall : stalls) {
    EXPECT_EQ(stall.kind, StallKind::kRunsTooLong);
    EXPECT_THAT(stall.message, HasSubstr("task 1, block 0"));
  }
}

// Tasks in layers, of all kinds and several blocks, each of which waits for some of those before
// it. What they write are no atomics, so that ThreadSanitizer sees whether they wait.
class Layers {
 public:
  Layers(const Topology& machine, unsigned seed) : random_(seed) {
    const bool mixes =
        machine.groups().front().matrix != machine.groups().front().all() || machine.lanes() > 1;
    Recorder recorder;
    std::vector<TaskNumber> before;
    tasks_.reserve(kLayers * kWidth);
    for (std::size_t layer = 0; layer < kLayers; ++layer) {
      const std::size_t width = random_() % 2 == 0 ? 1 : 1 + random_() % kWidth;
      std::vector<TaskNumber> own;
      for (std::size_t i = 0; i < width; ++i) {
        const auto number = static_cast<std::uint32_t>(tasks_.size());
        Task& task = tasks_.emplace_back();
        task.runs.resize(kBlocks);
        task.spec.shape = random_() % 2 == 0 ? kMatrixTask : kVectorTask;
        if (mixes && random_() % 20 == 0) task.spec.shape = {1, 1, false};
        if (random_() % 20 == 0) task.spec.shape = {0, 0, false};
        for (const TaskNumber earlier : before) {
          if (random_() % 3 != 0) task.after.push_back(earlier);
        }
        if (task.after.empty() && !before.empty()) task.after.push_back(before.front());
        Condition condition;
        task.skipped = task.spec.shape.lanes() == 0;
        if (!task.skipped && random_() % 20 == 0) {
          condition = Condition::on(&never_, Comparison::kEqual, 1);
          task.skipped = true;
        }
        const auto function = [this, number](const Part& part) { play(tasks_[number], part); };
        EXPECT_EQ(recorder.add(task.spec, function, {}, task.after, condition).value(), number);
        own.push_back(number);
      }
      // Some of the layer before are waited for across this one.
      if (width == 1) before.clear();
      before.insert(before.end(), own.begin(), own.end());
      if (before.size() > 2 * kWidth) before.erase(before.begin(), before.end() - kWidth);
    }
    recording_ = std::move(recorder).finish();
  }

  void run(Executor& executor, int time) {
    time_ = time;
    for (TaskNumber number = 0; number < tasks_.size(); ++number) {
      Task& task = tasks_[number];
      if (task.spec.shape.lanes() == 0) continue;
      task.spec.blocks =
          random_() % 2 == 0 ? 1 : 1 + static_cast<std::uint32_t>(random_() % kBlocks);
      recording_.set_blocks(number, task.spec.blocks);
      if (number % 8 == 0)
        recording_.set_shape(number, random_() % 4 == 0 ? kWholeGroup : kVectorTask);
    }
    ASSERT_TRUE(executor.run(recording_));
    for (const Task& task : tasks_) ASSERT_TRUE(has_run(task));
    ASSERT_EQ(faults_, 0);
  }

 private:
  static constexpr std::size_t kLayers = 40, kWidth = 4, kBlocks = 9;

  struct Task {
    TaskSpec spec;
    std::vector<TaskNumber> after;
    std::vector<int> runs;  // by block: the last one
    bool skipped = false;
  };

  bool has_run(const Task& task) const {
    return task.skipped || std::all_of(task.runs.begin(), task.runs.begin() + task.spec.blocks,
                                       [&](int run) { return run == time_; });
  }
  void play(Task& task, const Part& part) {
    if (part.part != 0) return;
    for (const TaskNumber earlier : task.after) faults_ += has_run(tasks_[earlier]) ? 0 : 1;
    if ((task.after.size() + 7 * part.task + part.block + static_cast<unsigned>(time_)) % 211 ==
        0) {
      std::this_thread::sleep_for(std::chrono::microseconds(150));
    }
    task.runs[part.block] = time_;
  }

  std::mt19937 random_;
  std::vector<Task> tasks_;
  Recording recording_;
  std::int32_t never_ = 0;
  int time_ = 0;
  std::atomic<int> faults_{0};
};

TEST_P(RecordingsOnMachines, LayersOfARecordingFollowEachOther) {
  Executor executor(machine(), options());
  for (unsigned seed = 0; seed < 4; ++seed) {
    Layers layers(machine(), seed);
    for (int time = 1; time <= 25; ++time) {
      layers.run(executor, time);
      // Threads that look for work give up.
      if (time % 8 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
}

// Blocks of a task that is no gang meet where each lane has a thread: as long as one of them has
// not been taken, a lane is idle and has to be woken. A wake that is lost lets this hang.
TEST(ExecutorRecordings, NoLaneSleepsBesideAStageThatHasBlocksLeft) {
  for (const char* machine : {"1x(2L)", "1x(3L)", "1x(1C3V)"}) {
    Executor executor(topology(machine), {});
    const auto lanes = static_cast<std::uint32_t>(executor.topology().groups()[0].vector);
    const auto most = static_cast<std::uint32_t>(std::popcount(lanes));
    std::vector<std::atomic<std::uint32_t>> met(300);
    Recorder recorder;
    std::vector<TaskNumber> last;
    for (std::size_t stage = 0; stage < met.size(); ++stage) {
      const std::uint32_t blocks =
          stage % 3 == 0 ? 1 : 2 + static_cast<std::uint32_t>(stage) % (most - 1);
      const auto task = recorder.add(
          {kVectorTask, false, blocks, 0},
          [meeting = &met[stage], blocks, sleeps = stage % 50 == 0](const Part&) {
            // Long enough for the others to fall asleep.
            if (sleeps) std::this_thread::sleep_for(std::chrono::milliseconds(1));
            meeting->fetch_add(1);
            while (meeting->load() % blocks != 0) std::this_thread::yield();
          },
          {}, last);
      ASSERT_TRUE(task);
      last = {*task};
    }
    const Recording recording = std::move(recorder).finish();
    for (int time = 0; time < 5; ++time) ASSERT_TRUE(executor.run(recording));
  }
}

TEST(ExecutorRecordings, ARecordingIsNoLargerThanTheRings) {
  ExecutorOptions options;
  options.graph = {4, 16, 16};
  Executor executor(topology("1x(1L)"), options);
  Recorder recorder(5, 1);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(recorder.add(kVector, [](const Part&) {}));
  const auto sixth = recorder.add(kVector, [](const Part&) {});
  ASSERT_FALSE(sixth);
  EXPECT_THAT(sixth.error().message, HasSubstr("room for 5 tasks"));
  const Status refused = executor.run(std::move(recorder).finish());
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("GraphOptions::tasks has room for 4"));
}

}  // namespace
}  // namespace dovetail::cores
