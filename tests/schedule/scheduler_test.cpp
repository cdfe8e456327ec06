#include "schedule/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedule/driver.h"

namespace dovetail::schedule {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

SchedulerOptions small() {
  SchedulerOptions options;
  options.max_num_seqs = 4;
  options.max_num_batched_tokens = 16;
  options.block_size = 4;
  options.kv_blocks = 20;
  options.max_context = 32;
  options.max_waiting = 6;
  return options;
}

TEST(Scheduler, AddRefusesWhatCanNeverFit) {
  struct Case {
    std::uint32_t prompt;
    const char* message;  // null: accepted
  };
  for (const auto& [prompt, message] :
       {Case{1, nullptr}, Case{31, nullptr},
        Case{32,
             "prompt: 32 tokens and at least one new token do not fit the context of 32 positions "
             "(20 cache blocks of 4)"},
        Case{4294967295U,
             "prompt: 4294967295 tokens and at least one new token do not fit the context of 32 "
             "positions (20 cache blocks of 4)"}}) {
    Scheduler scheduler(small());
    const Status added = scheduler.add(1, prompt);
    EXPECT_EQ(added.has_value(), message == nullptr) << prompt;
    EXPECT_EQ(scheduler.waiting(), message == nullptr ? 1U : 0U);
    if (added || message == nullptr) continue;
    EXPECT_EQ(added.error().kind, ErrorKind::kInvalid);
    EXPECT_EQ(added.error().message, message);
  }
}

TEST(Scheduler, AddRefusesWhenTheQueueIsFull) {
  Scheduler scheduler(small());
  for (SequenceId id = 0; id < 6; ++id) ASSERT_TRUE(scheduler.add(id, 4));
  const Status added = scheduler.add(6, 4);
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().kind, ErrorKind::kExhausted);
  EXPECT_EQ(added.error().message, "the queue is full: 6 sequences are waiting");
  // What is too long is called so, full queue or not: trying later would not help.
  EXPECT_EQ(scheduler.add(7, 32).error().kind, ErrorKind::kInvalid);
  ASSERT_TRUE(scheduler.plan());
  EXPECT_EQ(scheduler.waiting(), 2U);
  EXPECT_TRUE(scheduler.add(6, 4));
}

TEST(Scheduler, CancelMakesRoomInTheQueue) {
  Scheduler scheduler(small());
  for (SequenceId id = 0; id < 6; ++id) ASSERT_TRUE(scheduler.add(id, 4));
  scheduler.cancel(3);
  scheduler.cancel(3);
  scheduler.cancel(99);
  EXPECT_EQ(scheduler.waiting(), 5U);
  EXPECT_TRUE(scheduler.add(6, 4));
}

TEST(Scheduler, AnIdlePlanIsEmpty) {
  Scheduler scheduler(small());
  const auto plan = scheduler.plan();
  ASSERT_TRUE(plan);
  EXPECT_THAT(plan->rows, IsEmpty());
  EXPECT_EQ(plan->tokens, 0U);
  scheduler.commit(*plan, {});
  EXPECT_TRUE(scheduler.idle());
}

// max_num_seqs, budget, threshold and prompts decide the first step.
TEST(Scheduler, FirstStep) {
  struct Case {
    const char* name;
    std::uint32_t slots, budget, threshold;
    std::vector<std::uint32_t> prompts;
    std::vector<std::uint32_t> tokens;  // of each row
    std::vector<bool> sampled;
  };
  const std::vector<Case> cases = {
      {"one", 4, 16, 0, {5}, {5}, {true}},
      {"a single token", 4, 16, 0, {1}, {1}, {true}},
      {"all fit", 4, 16, 0, {5, 6, 5}, {5, 6, 5}, {true, true, true}},
      {"the budget cuts the last", 4, 16, 0, {10, 10}, {10, 6}, {true, false}},
      {"the budget ends with a prompt", 4, 16, 0, {10, 6, 1}, {10, 6}, {true, true}},
      {"slots end first", 2, 16, 0, {1, 1, 1}, {1, 1}, {true, true}},
      {"one long prompt", 4, 16, 0, {31, 1}, {16}, {false}},
      {"the threshold caps each", 4, 16, 4, {9, 4, 5}, {4, 4, 4}, {false, true, false}},
      {"threshold and budget", 4, 6, 4, {9, 9}, {4, 2}, {false, false}},
      {"a threshold beyond the budget", 4, 16, 99, {31}, {16}, {false}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    SchedulerOptions options = small();
    options.max_num_seqs = c.slots;
    options.max_num_batched_tokens = c.budget;
    options.long_prefill_token_threshold = c.threshold;
    Scheduler scheduler(options);
    for (SequenceId id = 0; id < c.prompts.size(); ++id) {
      ASSERT_TRUE(scheduler.add(id, c.prompts[id]));
    }
    const auto plan = scheduler.plan();
    ASSERT_TRUE(plan);
    std::vector<std::uint32_t> tokens;
    std::vector<bool> sampled;
    std::uint32_t total = 0;
    for (const Row& row : plan->rows) {
      EXPECT_EQ(row.sequence, tokens.size());
      EXPECT_EQ(row.slot, tokens.size());
      EXPECT_EQ(row.first_position, 0U);
      tokens.push_back(row.tokens);
      sampled.push_back(row.sampled);
      total += row.tokens;
    }
    EXPECT_EQ(tokens, c.tokens);
    EXPECT_EQ(sampled, c.sampled);
    EXPECT_EQ(plan->tokens, total);
    EXPECT_EQ(plan->prefill_rows, plan->rows.size());
    EXPECT_EQ(plan->admitted.size(), plan->rows.size());
  }
}

TEST(Scheduler, LayoutIsPrefillsThenDecodes) {
  Driver driver(small());
  ASSERT_TRUE(driver.add(10, 5));
  ASSERT_TRUE(driver.add(11, 3));
  ASSERT_TRUE(driver.step());
  ASSERT_TRUE(driver.add(12, 4));
  ASSERT_TRUE(driver.add(13, 20));
  ASSERT_TRUE(driver.plan());
  const StepPlan& plan = driver.last_plan();
  ASSERT_EQ(plan.rows.size(), 4U);
  EXPECT_EQ(plan.prefill_rows, 2U);
  EXPECT_EQ(plan.tokens, 16U);
  struct Case {
    SequenceId sequence;
    std::uint32_t slot, first, tokens;
    bool sampled;
    std::vector<kv::BlockId> blocks;
  };
  // Sequence 13 holds five blocks and shows those that its chunk of ten reaches.
  const std::vector<Case> expected = {{12, 2, 0, 4, true, {3}},
                                      {13, 3, 0, 10, false, {4, 5, 6}},
                                      {10, 0, 5, 1, true, {0, 1}},
                                      {11, 1, 3, 1, true, {2}}};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const Row& row = plan.rows[i];
    EXPECT_EQ(row.sequence, expected[i].sequence);
    EXPECT_EQ(row.slot, expected[i].slot);
    EXPECT_EQ(row.first_position, expected[i].first);
    EXPECT_EQ(row.tokens, expected[i].tokens);
    EXPECT_EQ(row.sampled, expected[i].sampled);
    const auto table = plan.block_table(row);
    EXPECT_EQ((std::vector<kv::BlockId>(table.begin(), table.end())), expected[i].blocks);
  }
  EXPECT_EQ(driver.scheduler().pool().free(), 11U);
}

TEST(Scheduler, ReusesTheLowestFreeSlot) {
  Driver driver(small());
  for (SequenceId id = 0; id < 4; ++id) ASSERT_TRUE(driver.add(id, 2));
  ASSERT_TRUE(driver.step());
  driver.cancel(3);
  driver.cancel(1);
  for (SequenceId id = 4; id < 7; ++id) ASSERT_TRUE(driver.add(id, 2));
  ASSERT_TRUE(driver.step());
  EXPECT_THAT(driver.last_plan().admitted, ElementsAre(4, 5));
  EXPECT_EQ(driver.row_of(4)->slot, 1U);
  EXPECT_EQ(driver.row_of(5)->slot, 3U);
  EXPECT_EQ(driver.row_of(0)->slot, 0U);
  EXPECT_EQ(driver.row_of(2)->slot, 2U);
}

// Blocks a4 b3 c1 d1, all of nine in use: how many are wanted decides how many give way.
TEST(Scheduler, VictimsAreTheYoungestAndNoMoreThanNeeded) {
  struct Case {
    const char* name;
    std::uint32_t a, b;  // prompts: with 16 and 12 tokens the next one wants a block
    std::vector<SequenceId> preempted;
  };
  for (const Case& c : {Case{"none", 15, 11, {}}, Case{"a", 16, 11, {3}}, Case{"b", 15, 12, {3}},
                        Case{"a and b", 16, 12, {3, 2}}}) {
    SCOPED_TRACE(c.name);
    SchedulerOptions options = small();
    options.max_num_batched_tokens = 64;
    options.kv_blocks = 9;
    Driver driver(options);
    ASSERT_TRUE(driver.add(0, c.a));
    ASSERT_TRUE(driver.add(1, c.b));
    ASSERT_TRUE(driver.add(2, 2));
    ASSERT_TRUE(driver.add(3, 2));
    ASSERT_TRUE(driver.step());
    ASSERT_EQ(driver.scheduler().running(), 4U);
    ASSERT_EQ(driver.scheduler().pool().free(), 0U);
    ASSERT_TRUE(driver.plan());
    EXPECT_EQ(driver.last_plan().preempted, c.preempted);
    EXPECT_EQ(driver.scheduler().preemptions(), c.preempted.size());
    EXPECT_EQ(driver.scheduler().waiting(), c.preempted.size());
  }
}

// A preempted sequence returns to the queue also when that is full.
TEST(Scheduler, APreemptedSequenceIsNotRefused) {
  SchedulerOptions options = small();
  options.kv_blocks = 8;
  options.max_waiting = 1;
  options.max_num_batched_tokens = 64;
  Driver driver(options);
  ASSERT_TRUE(driver.add(0, 16));
  ASSERT_TRUE(driver.step());
  ASSERT_TRUE(driver.add(1, 11));
  ASSERT_TRUE(driver.step());
  ASSERT_EQ(driver.scheduler().pool().free(), 0U);
  ASSERT_TRUE(driver.add(2, 4));
  for (int i = 0; i < 32 && driver.scheduler().preemptions() == 0; ++i) ASSERT_TRUE(driver.step());
  EXPECT_EQ(driver.scheduler().waiting(), 2U);
  EXPECT_EQ(driver.add(3, 4).error().message, "the queue is full: 2 sequences are waiting");
  EXPECT_TRUE(driver.run_until_idle(200));
}

TEST(Scheduler, FreedBlocksAreTold) {
  Scheduler scheduler(small());
  ASSERT_TRUE(scheduler.add(1, 7));
  ASSERT_TRUE(scheduler.add(2, 3));
  const auto plan = scheduler.plan();
  ASSERT_TRUE(plan);
  EXPECT_THAT(scheduler.take_freed_blocks(), IsEmpty());
  scheduler.cancel(2);
  EXPECT_THAT(scheduler.take_freed_blocks(), ElementsAre(2));
  scheduler.commit(*plan, StepResult{{true, true}});
  EXPECT_THAT(scheduler.take_freed_blocks(), ElementsAre(0, 1));
  EXPECT_TRUE(scheduler.idle());
  EXPECT_EQ(scheduler.pool().free(), 20U);
}

}  // namespace
}  // namespace dovetail::schedule
