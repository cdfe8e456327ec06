#include "cores/slot_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cores/machines.h"

namespace dovetail::cores {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(SlotWatch, WhatIsParkedStartsMovesOrChangesPlaces) {
  SlotWatch watch(2);
  watch.park({1, 0}, 0, 1, 10);
  watch.park({1, 1}, 0, 2, 10);
  watch.park({2, 5}, 1, 2, 20);
  EXPECT_THAT(watch.parked(), IsEmpty()) << "nothing is over";
  watch.start({1, 0}, 0, 1, 30);  // its own
  watch.start({1, 1}, 1, 2, 40);  // what lane 2 of group 0 had, which has task 2 now
  watch.park({3, 0}, 1, 2, 50);   // the slot is free again
  watch.unpark(0, 2, 60);         // task 2 found an idle lane
  watch.start({3, 0}, 1, 2, 70);
  const std::vector<Span> spans = {{1, 0, 0, 1, 10, 30},
                                   {2, 5, 1, 2, 20, 40},
                                   {1, 1, 0, 2, 10, 40},
                                   {2, 5, 0, 2, 40, 60},
                                   {3, 0, 1, 2, 50, 70}};
  EXPECT_EQ(watch.parked(), spans);
  EXPECT_EQ(watch.take_parked(), spans);
  EXPECT_THAT(watch.parked(), IsEmpty());
  EXPECT_THAT(watch.kept(), IsEmpty());
}

// A mixed task has one block parked on several lanes: each starts its own.
TEST(SlotWatch, PartsOfAMixedTaskStayWhereTheyAre) {
  SlotWatch watch(1);
  watch.park({1, 0}, 0, 0, 10);
  watch.park({1, 0}, 0, 2, 10);
  watch.start({1, 0}, 0, 2, 20);
  EXPECT_THAT(watch.parked(), ElementsAre(Span{1, 0, 0, 2, 10, 20}));
  watch.start({1, 0}, 0, 0, 30);
  EXPECT_THAT(watch.parked(), ElementsAre(Span{1, 0, 0, 2, 10, 20}, Span{1, 0, 0, 0, 10, 30}));
}

TEST(SlotWatch, LanesAreKeptWhileTheyAreIdle) {
  GroupTracker tracker(topology("2x(1C2V)"));
  SlotWatch watch(2);
  const auto see = [&](Ticks now) {
    watch.see_kept(tracker, now);
    return watch.take_kept();
  };
  tracker.run(1, 0b010);
  tracker.keep(1, 0b111);
  EXPECT_THAT(see(10), IsEmpty());
  tracker.finish(1, 1);
  EXPECT_THAT(see(20), IsEmpty());
  EXPECT_THAT(see(25), IsEmpty()) << "nothing has changed";
  tracker.run(1, 0b100);  // by somebody who ends in time
  EXPECT_THAT(see(30), ElementsAre(KeptSpan{1, 2, 10, 30}));
  tracker.finish(1, 2);
  EXPECT_THAT(see(40), IsEmpty());
  tracker.release(1, 0b111);
  tracker.run(1, 0b111);
  EXPECT_THAT(see(50),
              ElementsAre(KeptSpan{1, 0, 10, 50}, KeptSpan{1, 1, 20, 50}, KeptSpan{1, 2, 40, 50}));
  EXPECT_THAT(watch.parked(), IsEmpty());
}

TEST(SlotWatch, WhatTookNoTimeIsLeftOut) {
  GroupTracker tracker(topology("1x(2L)"));
  SlotWatch watch(1);
  watch.park({1, 0}, 0, 0, 10);
  watch.start({1, 0}, 0, 0, 10);
  watch.park({2, 0}, 0, 0, 10);
  watch.unpark(0, 0, 10);
  tracker.keep(0, 0b11);
  watch.see_kept(tracker, 10);
  tracker.release(0, 0b11);
  watch.see_kept(tracker, 10);
  EXPECT_THAT(watch.parked(), IsEmpty());
  EXPECT_THAT(watch.kept(), IsEmpty());
}

}  // namespace
}  // namespace dovetail::cores
