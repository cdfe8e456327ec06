#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cores/machines.h"
#include "cores/spans.h"

namespace dovetail::cores {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(SlotWatch, WhatIsPendingStartsMovesOrChangesPlaces) {
  SlotWatch watch(2);
  watch.pend({1, 0}, 0, 1, 10);
  watch.pend({1, 1}, 0, 2, 10);
  watch.pend({2, 5}, 1, 2, 20);
  EXPECT_THAT(watch.pending(), IsEmpty()) << "nothing is over";
  watch.start({1, 0}, 0, 1, 30);  // its own
  watch.start({1, 1}, 1, 2, 40);  // what lane 2 of group 0 had, which has task 2 now
  watch.pend({3, 0}, 1, 2, 50);   // the slot is free again
  watch.unpend(0, 2, 60);         // task 2 found an idle lane
  watch.start({3, 0}, 1, 2, 70);
  const std::vector<Span> spans = {{1, 0, 0, 1, 10, 30},
                                   {2, 5, 1, 2, 20, 40},
                                   {1, 1, 0, 2, 10, 40},
                                   {2, 5, 0, 2, 40, 60},
                                   {3, 0, 1, 2, 50, 70}};
  EXPECT_EQ(watch.pending(), spans);
  EXPECT_EQ(watch.take_pending(), spans);
  EXPECT_THAT(watch.pending(), IsEmpty());
  EXPECT_THAT(watch.reserved(), IsEmpty());
}

// A mixed task has one block pending on several lanes: each starts its own.
TEST(SlotWatch, PartsOfAMixedTaskStayWhereTheyAre) {
  SlotWatch watch(1);
  watch.pend({1, 0}, 0, 0, 10);
  watch.pend({1, 0}, 0, 2, 10);
  watch.start({1, 0}, 0, 2, 20);
  EXPECT_THAT(watch.pending(), ElementsAre(Span{1, 0, 0, 2, 10, 20}));
  watch.start({1, 0}, 0, 0, 30);
  EXPECT_THAT(watch.pending(), ElementsAre(Span{1, 0, 0, 2, 10, 20}, Span{1, 0, 0, 0, 10, 30}));
}

TEST(SlotWatch, LanesAreReservedWhileTheyAreIdle) {
  GroupTracker tracker(topology("2x(1C2V)"));
  SlotWatch watch(2);
  const auto see = [&](Ticks now) {
    watch.see_reserved(tracker, now);
    return watch.take_reserved();
  };
  tracker.run(1, 0b010);
  tracker.reserve(1, 0b111);
  EXPECT_THAT(see(10), IsEmpty());
  tracker.finish(1, 1);
  EXPECT_THAT(see(20), IsEmpty());
  EXPECT_THAT(see(25), IsEmpty()) << "nothing has changed";
  tracker.run(1, 0b100);  // a task that ends in time
  EXPECT_THAT(see(30), ElementsAre(ReservedSpan{1, 2, 10, 30}));
  tracker.finish(1, 2);
  EXPECT_THAT(see(40), IsEmpty());
  tracker.release(1, 0b111);
  tracker.run(1, 0b111);
  EXPECT_THAT(see(50), ElementsAre(ReservedSpan{1, 0, 10, 50}, ReservedSpan{1, 1, 20, 50},
                                   ReservedSpan{1, 2, 40, 50}));
  EXPECT_THAT(watch.pending(), IsEmpty());
}

TEST(SlotWatch, WhatTookNoTimeIsLeftOut) {
  GroupTracker tracker(topology("1x(2L)"));
  SlotWatch watch(1);
  watch.pend({1, 0}, 0, 0, 10);
  watch.start({1, 0}, 0, 0, 10);
  watch.pend({2, 0}, 0, 0, 10);
  watch.unpend(0, 0, 10);
  tracker.reserve(0, 0b11);
  watch.see_reserved(tracker, 10);
  tracker.release(0, 0b11);
  watch.see_reserved(tracker, 10);
  EXPECT_THAT(watch.pending(), IsEmpty());
  EXPECT_THAT(watch.reserved(), IsEmpty());
}

}  // namespace
}  // namespace dovetail::cores
