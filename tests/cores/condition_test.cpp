#include "cores/condition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <vector>

#include "cores/task_graph.h"
#include "study/virtual_machine.h"

namespace dovetail::cores {
namespace {

constexpr Comparison kAll[] = {Comparison::kEqual,   Comparison::kNotEqual,
                               Comparison::kLess,    Comparison::kLessOrEqual,
                               Comparison::kGreater, Comparison::kGreaterOrEqual};

template <class T>
std::vector<bool> outcomes(T element, T value) {
  std::vector<bool> all;
  for (const Comparison comparison : kAll) {
    all.push_back(Condition::on(&element, comparison, value).holds());
  }
  return all;
}

template <class T>
class ConditionOf : public testing::Test {};
using Types = testing::Types<std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t,
                             std::uint16_t, std::uint32_t, std::uint64_t, float>;
TYPED_TEST_SUITE(ConditionOf, Types);

// In the order of kAll.
const std::vector<bool> kIsLess = {false, true, true, true, false, false};
const std::vector<bool> kIsEqual = {true, false, false, true, false, true};
const std::vector<bool> kIsGreater = {false, true, false, false, true, true};

TYPED_TEST(ConditionOf, Compares) {
  using T = TypeParam;
  const T lowest = std::numeric_limits<T>::lowest(), highest = std::numeric_limits<T>::max();
  EXPECT_EQ(outcomes<T>(3, 7), kIsLess);
  EXPECT_EQ(outcomes<T>(7, 7), kIsEqual);
  EXPECT_EQ(outcomes<T>(7, 3), kIsGreater);
  EXPECT_EQ(outcomes<T>(lowest, highest), kIsLess) << "signs are the type's";
  EXPECT_EQ(outcomes<T>(highest, lowest), kIsGreater);
  EXPECT_EQ(outcomes<T>(highest, highest), kIsEqual);
}

TYPED_TEST(ConditionOf, ReadsAnyAddressAndOnlyTheElement) {
  using T = TypeParam;
  std::array<unsigned char, 2 * sizeof(T) + 1> bytes{};
  bytes.fill(0xA5);
  const T seven = 7;
  std::memcpy(bytes.data() + 1, &seven, sizeof seven);
  const auto* element = reinterpret_cast<const T*>(bytes.data() + 1);
  EXPECT_TRUE(Condition::on(element, Comparison::kEqual, seven).holds());
}

TEST(Condition, IsReadWhenItIsAskedFor) {
  std::int32_t element = 0;
  const Condition condition = Condition::on(&element, Comparison::kGreater, 5);
  EXPECT_FALSE(condition.holds());
  element = 6;
  EXPECT_TRUE(condition.holds());
}

TEST(Condition, NoneAlwaysHolds) {
  EXPECT_TRUE(Condition().always());
  EXPECT_TRUE(Condition().holds());
}

TEST(Condition, ANaNIsOnlyNotEqual) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(outcomes(nan, 1.0F), (std::vector<bool>{false, true, false, false, false, false}));
  EXPECT_EQ(outcomes(nan, nan), (std::vector<bool>{false, true, false, false, false, false}));
}

// What a program over cells of memory does, serially and on lanes.
struct Step {
  std::size_t reads = 0, writes = 0;
  std::int64_t adds = 0;
  std::optional<std::pair<std::size_t, std::int64_t>> only_above;  // that cell, this value
  TaskShape shape = kVectorTask;
  Ticks takes = 1;
};
using Memory = std::vector<std::int64_t>;

Condition condition_of(const Step& step, const Memory& memory) {
  if (!step.only_above) return {};
  return Condition::on(&memory[step.only_above->first], Comparison::kGreater,
                       step.only_above->second);
}

void run(const Step& step, Memory& memory) {
  memory[step.writes] = (memory[step.reads] * 31 + step.adds) % 1000;
}

// What is left in memory, and which steps ran, in their order.
struct Outcome {
  Memory memory;
  std::vector<bool> ran;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

Outcome serially(const std::vector<Step>& steps, Memory memory) {
  std::vector<bool> ran;
  for (const Step& step : steps) {
    ran.push_back(condition_of(step, memory).holds());
    if (ran.back()) run(step, memory);
  }
  return {memory, ran};
}

Outcome on_lanes(const std::vector<Step>& steps, Memory memory) {
  TaskGraph graph({4096, 4096, 4096});
  std::vector<bool> ran(steps.size(), true);
  study::VirtualMachine* machine = nullptr;
  const auto start_ready = [&](Ticks now) {
    while (const auto task = graph.take_ready()) {
      if (!condition_of(steps[*task], memory).holds()) {
        ran[*task] = false;
        graph.finish(*task);
        continue;
      }
      EXPECT_TRUE(machine->submit({*task, steps[*task].shape, 1, false, 0}, now));
    }
  };
  study::VirtualMachine player(
      *Topology::parse("2x(1C2V)"), {},
      [&](TaskId task, std::uint32_t, GroupId, unsigned) { return steps[task].takes; },
      [&](TaskId task, Ticks now) {
        run(steps[task], memory);
        graph.finish(task);
        start_ready(now);
      });
  machine = &player;
  for (const Step& step : steps) {
    std::vector<Access> accesses = {{Region(step.reads, 0, 8), AccessMode::kRead},
                                    {Region(step.writes, 0, 8), AccessMode::kReadWrite}};
    if (step.only_above) {
      accesses.push_back({Region(step.only_above->first, 0, 8), AccessMode::kRead});
    }
    EXPECT_TRUE(graph.submit(accesses));
  }
  start_ready(0);
  EXPECT_EQ(player.run(), 0U);
  EXPECT_EQ(graph.running(), 0U) << "who waits for a task that does not run is let go on";
  return {memory, ran};
}

TEST(Condition, DecidesWhetherATaskRuns) {
  enum Cell : std::size_t { kFlag, kX, kSeen, kZero };
  for (const std::int64_t flag : {0, 1}) {
    const std::vector<Step> steps = {
        {kZero, kX, 42, {}, kVectorTask, 3},
        {kZero, kFlag, flag, {}, kVectorTask, 9},
        {kZero, kX, 999, std::pair(kFlag, 0), {1, 2, false}, 2},
        {kX, kSeen, 0, {}, kMatrixTask, 1},
    };
    const Outcome outcome = on_lanes(steps, Memory(4, 0));
    EXPECT_EQ(outcome.memory[kX], flag == 0 ? 42 : 999);
    EXPECT_EQ(outcome.memory[kSeen], outcome.memory[kX] * 31 % 1000);
    EXPECT_EQ(outcome, serially(steps, Memory(4, 0)));
  }
}

TEST(Condition, RandomProgramsRunAsSerialOnesDo) {
  std::mt19937_64 random(11);
  const auto below = [&](std::uint64_t n) { return random() % n; };
  std::size_t skipped = 0, count = 0;
  for (int round = 0; round < 200; ++round) {
    const std::size_t cells = 1 + below(8);
    std::vector<Step> steps(1 + below(300));
    for (Step& step : steps) {
      step.reads = below(cells);
      step.writes = below(cells);
      step.adds = static_cast<std::int64_t>(below(1000));
      if (below(3) == 0) step.only_above = std::pair(below(cells), below(1000));
      step.shape = below(3) == 0 ? TaskShape{1, 2, false} : kVectorTask;
      step.takes = 1 + below(20);
    }
    const Outcome outcome = on_lanes(steps, Memory(cells, 1));
    ASSERT_EQ(outcome, serially(steps, Memory(cells, 1))) << "round " << round;
    skipped += static_cast<std::size_t>(std::count(outcome.ran.begin(), outcome.ran.end(), false));
    count += steps.size();
  }
  EXPECT_GT(skipped, count / 20);
  EXPECT_LT(skipped, count / 2);
}

}  // namespace
}  // namespace dovetail::cores
