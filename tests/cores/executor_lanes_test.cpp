#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#include "cores/executor.h"
#include "cores/laws/claims.h"
#include "cores/machines.h"

namespace dovetail::cores {
namespace {

// Keeps an account of who is on which lane, by blocks, and remembers what may not be.
class Account {
 public:
  explicit Account(const Topology& topology) {
    std::size_t lanes = 0;
    for (const GroupSpec& group : topology.groups()) {
      groups_.push_back({lanes, group});
      lanes += static_cast<std::size_t>(std::popcount(group.all()));
    }
    lanes_ = std::vector<std::atomic<std::uint64_t>>(lanes);
  }

  // A block of a task; those of a gang have the same meeting. `parts`: number of parts that meet,
  // 0: no part waits.
  struct Block {
    TaskShape shape;
    std::size_t meeting = 0;
    std::uint32_t parts = 0;
    std::atomic<std::uint32_t> ran{0};
    std::atomic<LaneMask> entered{0}, left{0};  // lanes of its group

    Block() = default;
    Block(const Block& other) : shape(other.shape), meeting(other.meeting), parts(other.parts) {}
  };
  std::vector<Block> blocks;

  void run(std::size_t number, const Part& part) {
    Block& block = blocks[number];
    const Group& group = groups_[part.group];
    const LaneMask bit = LaneMask{1} << part.lane;
    expect(lane(group, part.lane).exchange(number + 1) == 0);
    expect((block.entered.fetch_or(bit) & bit) == 0);
    check_lanes(number, group);
    // Others come by while it is there.
    for (std::size_t i = 0; i < number % 4; ++i) std::this_thread::yield();
    if (block.parts > 0) {
      // All have come before any goes on, and while all are there the lanes are theirs.
      meet(blocks[block.meeting], block.parts);
      check_lanes(number, group);
      expect(block.left == 0);
      expect(choose_lanes(group.spec, block.shape, block.entered) == block.entered);
      meet(blocks[block.meeting], 2 * block.parts);
    } else {
      ++blocks[block.meeting].ran;
    }
    check_lanes(number, group);
    block.left.fetch_or(bit);
    expect(lane(group, part.lane).exchange(0) == number + 1);
  }

  // After everything has ended: each part of each block ran, once.
  void expect_all_ran() {
    for (Block& block : blocks) {
      const LaneMask lanes = block.entered;
      const auto count = static_cast<unsigned>(std::popcount(lanes));
      expect(block.left == lanes);
      expect(block.shape.whole_group ? count > 1 : count == block.shape.lanes());
    }
    for (const auto& lane : lanes_) expect(lane == 0);
  }
  int faults() const { return faults_; }

 private:
  struct Group {
    std::size_t first_lane = 0;
    GroupSpec spec;
  };

  void expect(bool holds) {
    if (!holds) ++faults_;
  }
  std::atomic<std::uint64_t>& lane(const Group& group, unsigned index) {
    return lanes_[group.first_lane + index];
  }

  // No other block is on a lane of the block that its part has not left. Which of several lanes the
  // block has, the parts that have come say.
  void check_lanes(std::size_t number, const Group& group) {
    const Block& block = blocks[number];
    if (!block.shape.is_mixed()) return;
    const GroupSpec& spec = group.spec;
    LaneMask lanes = block.entered;
    const auto all_of = [&](LaneMask kind, unsigned count) {
      if (static_cast<unsigned>(std::popcount(kind)) == count) lanes |= kind;
    };
    all_of(spec.matrix, block.shape.matrix);
    all_of(spec.vector, block.shape.vector);
    if (block.shape.whole_group) lanes = spec.all();
    for (unsigned index = 0; lanes >> index != 0; ++index) {
      if ((lanes >> index & 1) == 0) continue;
      const std::uint64_t other = lane(group, index);
      if (other == 0 || other == number + 1) continue;
      expect((block.left >> index & 1) != 0);
    }
  }

  // Where the others never come, the test does not end.
  void meet(Block& meeting, std::uint32_t parts) {
    meeting.ran.fetch_add(1);
    while (meeting.ran < parts && faults_ == 0) std::this_thread::yield();
  }

  std::vector<Group> groups_;
  std::vector<std::atomic<std::uint64_t>> lanes_;  // the block's number + 1; 0: none
  std::atomic<int> faults_{0};
};

// Case 16: lanes are never shared, and a mixed task has its lanes to itself. With a thread for each
// lane its parts start together, too.
TEST(ExecutorLanes, MixedTasksHaveTheirLanesToThemselves) {
  struct Case {
    const char* topology;
    unsigned threads;
    bool together;
  };
  const bool many = std::getenv("DOVETAIL_LONG") != nullptr;
  for (const Case& one :
       {Case{"2x(1C2V)+1x(2V)", 8, true}, Case{"3x(1C2V)", 0, true}, Case{"3x(1C2V)", 8, false}}) {
    ExecutorOptions options;
    options.threads = one.threads;
    const Topology lanes = topology(one.topology);
    Executor executor(lanes, options);
    const Dispatcher dispatcher(lanes, {});
    std::mt19937 random(one.threads);
    Account account(lanes);
    const std::size_t tasks = many ? 350'000 : 10'000;
    std::vector<TaskSpec> specs;
    while (specs.size() < tasks) {
      static constexpr TaskShape kShapes[] = {
          kMatrixTask, kMatrixTask,   kMatrixTask,   kVectorTask,   kVectorTask,
          kVectorTask, {1, 1, false}, {1, 2, false}, {0, 2, false}, kWholeGroup};
      TaskSpec spec = {kShapes[random() % 10], false, 1, 0};
      if (random() % 8 == 0) spec.blocks = static_cast<std::uint32_t>(1 + random() % 5);
      spec.together = spec.blocks > 1 && !spec.shape.whole_group && random() % 4 == 0;
      if (!dispatcher.check({0, spec.shape, spec.blocks, spec.together, 0, 0})) continue;
      specs.push_back(spec);
      const bool meets = one.together && !spec.shape.whole_group && spec.is_wide();
      const std::uint32_t parts = spec.shape.lanes() * (spec.together ? spec.blocks : 1);
      for (std::uint32_t block = 0; block < spec.blocks; ++block) {
        Account::Block added;
        added.shape = spec.shape;
        added.meeting = account.blocks.size() - (spec.together ? block : 0);
        added.parts = meets ? parts : 0;
        account.blocks.push_back(added);
      }
    }
    std::size_t first = 0;
    for (const TaskSpec& spec : specs) {
      expect_submits(executor, spec, [&account, first](const Part& part) {
        account.run(first + part.block, part);
      });
      first += spec.blocks;
    }
    ASSERT_TRUE(executor.wait());
    account.expect_all_ran();
    EXPECT_EQ(account.faults(), 0) << one.topology << ", " << one.threads << " threads";
  }
}

// Case 34: eight threads take the blocks of one task, or of several, submitted and of a recording.
TEST(ExecutorLanes, EightThreadsTakeEachBlockOnce) {
  EXPECT_EQ(eight_take_from_executor().value_or(""), "");
}

// Each part waits for the others: without their starting together this would never end.
TEST(ExecutorLanes, PartsOfATaskMeet) {
  Executor executor(topology("2x(1C2V)"), {});
  std::vector<std::atomic<std::uint32_t>> met(400);
  for (std::size_t task = 0; task < met.size(); ++task) {
    expect_submits(executor, kMixed, [meeting = &met[task]](const Part& part) {
      meeting->fetch_add(1);
      while (meeting->load() < part.parts) std::this_thread::yield();
    });
    expect_submits(executor, kVector, [](const Part&) {});
  }
  ASSERT_TRUE(executor.wait());
  for (const auto& count : met) EXPECT_EQ(count, 3U);
}

TEST(ExecutorLanes, BlocksOfAGangMeet) {
  Executor executor(topology("3x(1C2V)"), {});
  std::vector<std::atomic<std::uint32_t>> met(200);
  for (std::size_t task = 0; task < met.size(); ++task) {
    const auto blocks = static_cast<std::uint32_t>(2 + task % 2);
    expect_submits(executor, {{1, 1, false}, true, blocks, 0},
                   [meeting = &met[task], blocks](const Part&) {
                     meeting->fetch_add(1);
                     while (meeting->load() < 2 * blocks) std::this_thread::yield();
                   });
    expect_submits(executor, kVector, [](const Part&) {});
    expect_submits(executor, kMatrix, [](const Part&) {});
  }
  ASSERT_TRUE(executor.wait());
}

}  // namespace
}  // namespace dovetail::cores
