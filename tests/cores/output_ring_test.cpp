#include "cores/output_ring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "cores/laws/ring_model.h"
#include "cores/task_graph.h"

namespace dovetail::cores {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::uint64_t kKiB = 1024;

// Asks for KiB, for a task outside of scopes; -1: refused for now, -2: for ever.
int ask(OutputRing& ring, TaskNumber task, std::uint64_t kib, TaskNumber held_from) {
  const auto offset = ring.allocate(task, kib * kKiB, held_from);
  if (!offset) return offset.error().kind == ErrorKind::kExhausted ? -1 : -2;
  EXPECT_EQ(*offset % kKiB, 0U);
  return static_cast<int>(*offset / kKiB);
}
int ask(OutputRing& ring, TaskNumber task, std::uint64_t kib) { return ask(ring, task, kib, task); }

OutputRing ring_of(std::uint64_t kib, std::uint32_t tasks = 64) {
  return OutputRing({kib * kKiB, kKiB, tasks});
}

TEST(OutputRing, GivesAlignedBytesOneBehindTheOther) {
  OutputRing ring = ring_of(8);
  EXPECT_EQ(ring.allocate(0, 1, 0).value(), 0U);
  EXPECT_EQ(ring.allocate(1, 1025, 1).value(), 1024U);
  EXPECT_EQ(ring.allocate(1, 0, 1).value(), 0U) << "nothing is held";
  EXPECT_EQ(ring.allocate(1, 1024, 1).value(), 3072U) << "a second output of the same task";
  EXPECT_EQ(ring.used(), 4096U);
  EXPECT_EQ(ring.high_water().tasks, 2U);
}

TEST(OutputRing, NeverOnBothSidesOfTheEnd) {
  OutputRing ring = ring_of(8);
  EXPECT_EQ(ask(ring, 0, 3), 0);
  EXPECT_EQ(ask(ring, 1, 3), 3);
  EXPECT_EQ(ask(ring, 2, 3), -1) << "2 before the end";
  ring.give_up_before(1);
  EXPECT_EQ(ask(ring, 2, 3), 0);
}

TEST(OutputRing, TheGapAtTheEndCountsOnce) {
  OutputRing ring = ring_of(8);
  ask(ring, 0, 3);
  ask(ring, 1, 3);
  ring.give_up_before(1);
  ask(ring, 2, 3);
  EXPECT_EQ(ring.gap(), 2 * kKiB);
  EXPECT_EQ(ring.used(), 8 * kKiB);
  EXPECT_EQ(ring.high_water().bytes, 8 * kKiB);
  ring.give_up_before(2);
  EXPECT_EQ(ring.gap(), 0U);
  EXPECT_EQ(ring.used(), 3 * kKiB);
  EXPECT_EQ(ask(ring, 3, 5), 3) << "the gap can be had again";
}

TEST(OutputRing, AFullRingIsNoEmptyOne) {
  OutputRing ring = ring_of(4);
  EXPECT_EQ(ask(ring, 0, 4), 0);
  EXPECT_EQ(ask(ring, 1, 1), -1) << "head and tail are in one place";
  EXPECT_EQ(ring.used(), 4 * kKiB);
  ring.give_up_before(1);
  EXPECT_EQ(ring.used(), 0U);
  // The same in the middle.
  EXPECT_EQ(ask(ring, 1, 2), 0);
  EXPECT_EQ(ask(ring, 2, 2), 2);
  ring.give_up_before(2);
  EXPECT_EQ(ask(ring, 3, 2), 0);
  EXPECT_EQ(ask(ring, 4, 1), -1);
  EXPECT_EQ(ring.gap(), 0U);
}

TEST(OutputRing, AnEmptyRingBeginsAgain) {
  OutputRing ring = ring_of(4);
  EXPECT_EQ(ask(ring, 0, 3), 0);
  ring.give_up_before(1);
  EXPECT_EQ(ask(ring, 1, 4), 0);
}

TEST(OutputRing, ChecksItsOptions) {
  const auto message = [](const OutputRingOptions& options) {
    const Status ok = OutputRing::check(options);
    return ok ? std::string() : ok.error().message;
  };
  EXPECT_EQ(message({}), "");
  EXPECT_THAT(message({1024, 768, 1}), HasSubstr("OutputRingOptions::alignment: 768"));
  EXPECT_THAT(message({1536, 1024, 1}), HasSubstr("OutputRingOptions::bytes: 1536"));
  EXPECT_THAT(message({0, 1024, 1}), HasSubstr("OutputRingOptions::bytes: 0"));
  EXPECT_THAT(message({1024, 1024, 0}), HasSubstr("OutputRingOptions::tasks: 0"));
}

TEST(OutputRing, WhatIsLargerThanTheRingIsRefusedForEver) {
  OutputRing ring = ring_of(4);
  for (const std::uint64_t bytes : {std::uint64_t{4097}, ~std::uint64_t{0}}) {
    const auto refused = ring.allocate(7, bytes, 7);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, ErrorKind::kInvalid);
    EXPECT_THAT(refused.error().message,
                AllOf(HasSubstr("task 7"), HasSubstr(std::to_string(bytes)),
                      HasSubstr("OutputRingOptions::bytes has room for 4096")));
  }
}

TEST(OutputRing, AScopeThatHoldsTooMuchIsADeadlock) {
  OutputRing ring = ring_of(8);
  ask(ring, 0, 2);
  ask(ring, 1, 3);  // the scope begins here
  ask(ring, 2, 1);
  EXPECT_EQ(ask(ring, 3, 3, 1), -2) << "2 behind them and 2 before them";
  EXPECT_EQ(ask(ring, 3, 2, 1), 6);
  EXPECT_EQ(ask(ring, 4, 2, 1), -1) << "task 0 is going to give up as much";
  const auto stuck = ring.allocate(4, 3 * kKiB, 1);
  ASSERT_FALSE(stuck);
  EXPECT_EQ(stuck.error().kind, ErrorKind::kInvalid);
  EXPECT_THAT(stuck.error().message,
              AllOf(HasSubstr("deadlock: task 4 needs 3072 bytes"), HasSubstr("tasks 1 to 3"),
                    HasSubstr("8192"), HasSubstr("OutputRingOptions::bytes")));
}

TEST(OutputRing, SoIsOneThatHoldsAllPlaces) {
  OutputRing ring = ring_of(8, 2);
  ask(ring, 0, 1);
  ask(ring, 1, 1);
  EXPECT_EQ(ask(ring, 2, 1), -1);
  EXPECT_EQ(ask(ring, 1, 1), 2) << "it has its place";
  const auto stuck = ring.allocate(2, kKiB, 0);
  ASSERT_FALSE(stuck);
  EXPECT_THAT(stuck.error().message, AllOf(HasSubstr("tasks 0 to 1 hold all 2 places"),
                                           HasSubstr("OutputRingOptions::tasks")));
}

// Two scopes of a program, each with a scratch of two thirds of the ring.
TEST(OutputRing, ScratchesOfSuccessiveScopes) {
  TaskGraph graph({16, 64, 64});
  OutputRing ring = ring_of(1536);
  for (int scope = 0; scope < 2; ++scope) {
    graph.begin_scope();
    EXPECT_EQ(ask(ring, graph.submitted(), 1024, graph.held_from()), 0);
    ASSERT_TRUE(graph.submit({}));
    EXPECT_EQ(ask(ring, graph.submitted(), 1024, graph.held_from()), -2);
    graph.finish(graph.take_ready().value());
    ring.give_up_before(graph.oldest());
    EXPECT_EQ(ring.used(), 1024 * kKiB) << "the scope keeps it";
    graph.end_scope();
    ring.give_up_before(graph.oldest());
  }
}

TEST(OutputRing, DoesWhatAListOfIntervalsDoes) {
  rc::check([] {
    const std::uint64_t alignment = std::uint64_t{1} << *rc::gen::inRange(0, 11);
    const std::uint64_t bytes = alignment * *rc::gen::weightedOneOf<std::uint64_t>({
                                                {3, rc::gen::inRange<std::uint64_t>(1, 12)},
                                                {1, rc::gen::inRange<std::uint64_t>(1, 1000)},
                                            });
    const auto tasks = *rc::gen::inRange<std::uint32_t>(1, 20);
    const auto step = rc::gen::weightedOneOf<RingStep>({
        {8, rc::gen::construct<RingStep>(rc::gen::just(RingStep::Kind::kAsk),
                                         rc::gen::inRange<std::uint64_t>(0, bytes + 2))},
        {8, rc::gen::construct<RingStep>(rc::gen::just(RingStep::Kind::kAsk),
                                         rc::gen::inRange<std::uint64_t>(0, bytes / 4 + 2))},
        {16, rc::gen::construct<RingStep>(rc::gen::just(RingStep::Kind::kNext),
                                          rc::gen::inRange<std::uint64_t>(0, 4))},
        {1, rc::gen::construct<RingStep>(rc::gen::just(RingStep::Kind::kScope),
                                         rc::gen::just(std::uint64_t{0}))},
    });
    const auto steps = *rc::gen::container<std::vector<RingStep>>(step);
    const auto fault = ring_fault({bytes, alignment, tasks}, steps);
    if (fault) RC_FAIL(*fault);
  });
}

TEST(OutputRing, LongHistories) {
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    const RingHistory history = random_ring_history(seed);
    const auto fault = ring_fault(history.options, history.steps);
    ASSERT_FALSE(fault) << "seed " << seed << ": " << *fault;
  }
}

}  // namespace
}  // namespace dovetail::cores
