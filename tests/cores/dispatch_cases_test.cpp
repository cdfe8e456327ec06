#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "cores/laws/play.h"

namespace dovetail::cores {
namespace {

constexpr AdmissionPolicy kPolicies[] = {AdmissionPolicy::kStrict, AdmissionPolicy::kUniform,
                                         AdmissionPolicy::kPerCore};
const std::vector<std::string> kNothing;

DispatchOptions with(AdmissionPolicy policy) {
  DispatchOptions options;
  options.policy = policy;
  return options;
}

// A vector task of 30 runs; a task of all three lanes becomes ready.
TEST(MixedTask, StartsTogetherOnceItsLastLaneIsFree) {
  const std::vector<Job> jobs = {{0, kVectorTask, 0, 30}, {1, k1C2V, 5, 10}};
  const Played strict = play("1x(1C2V)", jobs);
  EXPECT_EQ(violations("1x(1C2V)", jobs, strict), kNothing);
  for (const Span& span : strict.spans) {
    if (span.task != 1) continue;
    EXPECT_EQ(span.start, 30U);
  }
  // Part by part, two lanes would have burnt 25 each, waiting for the third.
  const Played per_core = play("1x(1C2V)", jobs, with(AdmissionPolicy::kPerCore));
  std::multiset<Ticks> starts;
  for (const Span& span : per_core.spans) {
    if (span.task == 1) starts.insert(span.start);
  }
  EXPECT_EQ(starts, (std::multiset<Ticks>{5, 5, 30}));
}

TEST(MixedTask, ALaneThatItDoesNotUseMayBeBusy) {
  for (const AdmissionPolicy policy : kPolicies) {
    const std::vector<Job> jobs = {{0, kVectorTask, 0, 30}, {1, k1C1V, 5, 10}};
    EXPECT_EQ(play("1x(1C2V)", jobs, with(policy)).start_of(1), 5U);
  }
}

TEST(MixedTask, TwoVectorLanesLeaveTheMatrixLaneToOthers) {
  const std::vector<Job> jobs = {{0, kMatrixTask, 0, 30}, {1, k2V, 1, 10}};
  EXPECT_EQ(play("1x(1C2V)", jobs).start_of(1), 1U);
}

TEST(MixedTask, AMatrixTaskStartsBesideTwoVectorLanes) {
  for (const AdmissionPolicy policy : kPolicies) {
    const std::vector<Job> jobs = {{0, k2V, 0, 30}, {1, kMatrixTask, 1, 10}};
    EXPECT_EQ(play("1x(1C2V)", jobs, with(policy)).start_of(1), 1U);
  }
}

TEST(MixedTask, NothingYoungerEntersTheGroupThatItWaitsFor) {
  const std::vector<Job> jobs = {
      {0, kVectorTask, 0, 30}, {1, k1C2V, 5, 10}, {2, kVectorTask, 6, 100}};
  const Played played = play("1x(1C2V)", jobs);
  EXPECT_EQ(played.start_of(1), 30U);
  EXPECT_GE(played.start_of(2), 30U);
}

TEST(MixedTask, GoesToAnotherGroupThatIsWhole) {
  const std::vector<Job> jobs = {{0, kVectorTask, 0, 30}, {1, k1C2V, 5, 10}};
  const Played played = play("2x(1C2V)", jobs);
  EXPECT_EQ(played.start_of(1), 5U);
  EXPECT_EQ(played.only_part(0).group, 0U);
  EXPECT_EQ(played.spans[0].group, 1U);
}

TEST(MixedTask, LeavesTheGroupThatWasReservedForItWhenAnotherIsFreeFirst) {
  const std::vector<Job> jobs = {
      {0, kVectorTask, 0, 100}, {1, k1C2V, 0, 10}, {2, k1C2V, 1, 5}};  // waits for either
  const Played played = play("2x(1C2V)", jobs);
  EXPECT_EQ(played.start_of(2), 10U);
}

TEST(SingleLanes, PackIntoOneGroup) {
  const std::vector<Job> jobs = {
      {0, kVectorTask, 0, 10}, {1, kVectorTask, 0, 10}, {2, k1C2V, 1, 5}};
  const Played played = play("2x(1C2V)", jobs);
  EXPECT_EQ(played.only_part(0).group, 0U);
  EXPECT_EQ(played.only_part(1).group, 0U);
  EXPECT_EQ(played.start_of(2), 1U);
}

TEST(Order, GangsThenMixedThenSingleLanes) {
  const std::vector<Job> jobs = {{0, k1C2V, 0, 10, 2},         // fills both groups
                                 {1, kVectorTask, 1, 10},      //
                                 {2, k1C2V, 2, 10},            //
                                 {3, k1C2V, 3, 10, 2, true}};  // a gang
  DispatchOptions options;
  options.pending_slots = false;
  const Played played = play("2x(1C2V)", jobs, options);
  EXPECT_EQ(violations("2x(1C2V)", jobs, played), kNothing);
  EXPECT_EQ(played.start_of(3), 10U);
  EXPECT_EQ(played.start_of(2), 20U);
  EXPECT_EQ(played.start_of(1), 20U);
}

TEST(Order, EqualMixedTasksRunInTheirOrder) {
  std::vector<Job> jobs = {{0, k1C2V, 0, 10}};
  for (TaskId id = 1; id <= 3; ++id) jobs.push_back({id, k1C2V, id, 10});
  for (const AdmissionPolicy policy : kPolicies) {
    EXPECT_EQ(play("1x(1C2V)", jobs, with(policy)).order(), (std::vector<TaskId>{0, 1, 2, 3}));
  }
}

// simpler runs it after all hundred.
TEST(Waiting, OneVectorTaskAmongAHundredMixedOnes) {
  std::vector<Job> jobs;
  for (TaskId id = 0; id < 100; ++id) jobs.push_back({id, k1C2V, 0, 10});
  jobs.push_back({100, kVectorTask, 0, 10});
  const Played played = play("1x(1C2V)", jobs);
  EXPECT_EQ(violations("1x(1C2V)", jobs, played), kNothing);
  EXPECT_LE(played.start_of(100), 80U) << "after eight at most";
  EXPECT_LE(played.end, 1010U);
}

TEST(Waiting, OneMixedTaskBehindAHundredVectorTasks) {
  std::vector<Job> jobs;
  for (TaskId id = 0; id < 100; ++id) jobs.push_back({id, kVectorTask, 0, 10});
  jobs.push_back({100, k1C2V, 1, 10});
  const Played played = play("1x(1C2V)", jobs);
  EXPECT_EQ(violations("1x(1C2V)", jobs, played), kNothing);
  const Ticks start = played.start_of(100);
  const auto before = std::count_if(played.spans.begin(), played.spans.end(),
                                    [&](const Span& span) { return span.start < start; });
  EXPECT_LE(before, 4) << "what ran, and what was parked";
}

TEST(Waiting, AStreamOfEachKeepsBothGoing) {
  std::vector<Job> jobs;
  for (TaskId id = 0; id < 600; ++id) {
    jobs.push_back({id, id % 3 == 0 ? k1C2V : id % 3 == 1 ? kVectorTask : kMatrixTask, id, 7});
  }
  const Played played = play("2x(1C2V)", jobs);
  EXPECT_EQ(violations("2x(1C2V)", jobs, played), kNothing);
}

TEST(PendingSlots, NothingIsPendingWhileALaneIsIdle) {
  std::vector<Job> jobs;
  for (TaskId id = 0; id < 4; ++id) jobs.push_back({id, kVectorTask, 0, 10});
  const Played played = play("4x(1C2V)", jobs);
  EXPECT_EQ(played.end, 10U);
  std::set<std::pair<GroupId, unsigned>> lanes;
  for (const Span& span : played.spans) lanes.insert({span.group, span.lane});
  EXPECT_EQ(lanes.size(), 4U);
}

TEST(PendingSlots, WhatIsPendingMovesToALaneThatComesFree) {
  // Lanes V0 and V1; task 2 is pending behind the one that has run longest, which is the longer
  // one.
  const std::vector<Job> jobs = {
      {0, kVectorTask, 0, 1000}, {1, kVectorTask, 1, 10}, {2, kVectorTask, 2, 10}};
  const Played played = play("1x(1C2V)", jobs);
  EXPECT_EQ(played.start_of(2), 11U);
  EXPECT_EQ(played.moves.size(), 1U);
}

TEST(PendingSlots, TheOldestPendingTaskMovesFirst) {
  const std::vector<Job> jobs = {{0, kVectorTask, 0, 1000}, {1, kVectorTask, 0, 1000},
                                 {2, kVectorTask, 1, 10},   {3, kVectorTask, 2, 10},
                                 {4, kVectorTask, 3, 10},   {5, k1C2V, 0, 20}};
  const Played played = play("2x(1C2V)", jobs);
  EXPECT_EQ(violations("2x(1C2V)", jobs, played), kNothing);
  EXPECT_EQ(played.start_of(2), 20U);
  EXPECT_EQ(played.start_of(3), 20U);
}

TEST(Backfill, ShortWorkUsesLanesThatAMixedTaskCannotUseYet) {
  std::vector<Job> jobs = {{0, kVectorTask, 0, 30, 1, false, 30},
                           {1, k1C2V, 1, 10},
                           {2, kMatrixTask, 2, 20, 1, false, 20},   // ends in time
                           {3, kMatrixTask, 3, 20, 1, false, 20}};  // would not
  DispatchOptions options;
  Played played = play("1x(1C2V)", jobs, options);
  EXPECT_EQ(played.start_of(1), 30U);
  EXPECT_EQ(played.start_of(2), 2U);
  EXPECT_EQ(played.start_of(3), 40U);
  options.backfills = false;
  played = play("1x(1C2V)", jobs, options);
  EXPECT_EQ(played.start_of(1), 30U);
  EXPECT_EQ(played.start_of(2), 40U);
}

TEST(Backfill, WorkOfUnknownLengthDoesNot) {
  const std::vector<Job> jobs = {
      {0, kVectorTask, 0, 30, 1, false, 30}, {1, k1C2V, 1, 10}, {2, kMatrixTask, 2, 20}};
  const Played played = play("1x(1C2V)", jobs);
  EXPECT_EQ(played.start_of(1), 30U);
  EXPECT_EQ(played.start_of(2), 40U);
}

// V1 is free long before V0, which is reserved for the mixed task.
TEST(Backfill, LanesThatAreNotReservedMayLetTheMixedTaskStart) {
  std::vector<Job> jobs = {{0, kVectorTask, 0, 100, 1, false, 100},
                           {1, kVectorTask, 0, 10, 1, false, 10},
                           {2, k1C1V, 1, 5},
                           {3, kMatrixTask, 2, 50, 1, false, 50},
                           {4, kMatrixTask, 3, 7, 1, false, 7}};
  const Played played = play("1x(1C2V)", jobs);
  EXPECT_EQ(played.start_of(2), 10U);
  EXPECT_EQ(played.start_of(3), 15U);
  jobs.pop_back();
  jobs[3].takes = jobs[3].cost = 8;  // just in time
  EXPECT_EQ(play("1x(1C2V)", jobs).start_of(3), 2U);
  EXPECT_EQ(play("1x(1C2V)", jobs).start_of(2), 10U);
  jobs[1].cost = 0;  // may end at any time
  EXPECT_EQ(play("1x(1C2V)", jobs).start_of(3), 15U);
}

// Under the policy that lets its parts start apart, they wait for each other.
TEST(Policies, PartsThatStartSoonerHoldTheirLanes) {
  const std::vector<Job> jobs = {{0, kVectorTask, 0, 30}, {1, k1C2V, 5, 10}};
  DispatchOptions options;
  options.policy = AdmissionPolicy::kPerCore;
  std::vector<Ticks> starts;
  for (const Span& span : play("1x(1C2V)", jobs, options).spans) {
    if (span.task != 1) continue;
    starts.push_back(span.start);
    EXPECT_EQ(span.end, 40U);
  }
  EXPECT_EQ(starts, (std::vector<Ticks>{5, 5, 30}));
}

// However many mixed tasks wait that need what is busy.
TEST(Mixed, OfAnotherShapeDoNotWaitForThoseThatFindNoLanes) {
  std::vector<Job> jobs = {{0, kMatrixTask, 0, 1000}, {1, kMatrixTask, 0, 1000}};
  while (jobs.size() < 42) jobs.push_back({jobs.size(), k1C2V, 1, 10});
  jobs.push_back({42, k2V, 2, 10});
  const Played played = play("2x(1C2V)", jobs);
  EXPECT_EQ(violations("2x(1C2V)", jobs, played), kNothing);
  EXPECT_EQ(played.start_of(42), 2U);
}

// Where it is known when lanes come free, those are reserved that do so first.
TEST(Reserving, TheLanesThatComeFreeFirst) {
  const std::vector<Job> jobs = {{0, kVectorTask, 0, 100, 1, false, 100},
                                 {1, kVectorTask, 0, 60, 1, false, 60},
                                 {2, kVectorTask, 0, 20, 1, false, 20},
                                 {3, kVectorTask, 0, 30, 1, false, 30},
                                 {4, k2V, 1, 5, 1, false, 5},
                                 {5, kVectorTask, 2, 500, 1, false, 500}};
  for (const char* machine : {"1x(1C4V)", "2x(1C2V)"}) {
    const Played played = play(machine, jobs);
    EXPECT_EQ(played.start_of(4), 30U) << machine;
    EXPECT_EQ(played.start_of(5), 35U) << machine;
  }
  std::vector<Job> gang = jobs;
  gang[4] = {4, kVectorTask, 1, 5, 2, true, 5};
  EXPECT_EQ(play("2x(1C2V)", gang).start_of(4), 30U);
  EXPECT_EQ(play("4x(1C1V)", gang).start_of(4), 30U);
}

TEST(Backfill, NeverDelaysWhoWaits) {
  for (std::uint64_t seed = 0; seed < 5000; ++seed)
    ASSERT_EQ(violations_of_backfill(seed), kNothing) << "seed " << seed;
}

TEST(Blocks, EachRunsOnce) {
  for (const std::uint32_t blocks : {2U, 8U, 12U, 24U, 48U}) {
    const std::vector<Job> jobs = {{0, k1C2V, 0, 10, blocks}, {1, k1C2V, 0, 10, blocks}};
    const Played played = play("24x(1C2V)", jobs);
    EXPECT_EQ(violations("24x(1C2V)", jobs, played), kNothing);
    EXPECT_EQ(played.end, 10U * ((2 * blocks + 23) / 24));
  }
  for (const std::uint32_t blocks : {4U, 16U, 24U, 48U, 96U}) {
    const std::vector<Job> jobs = {{0, kVectorTask, 0, 10, blocks}};
    const Played played = play("24x(1C2V)", jobs);
    EXPECT_EQ(violations("24x(1C2V)", jobs, played), kNothing);
    EXPECT_EQ(played.end, 10U * ((blocks + 47) / 48));
  }
}

TEST(Gang, StartsAsOneWhenTheLastGroupIsFree) {
  std::vector<Job> jobs = {{0, kVectorTask, 0, 100}, {1, k1C2V, 1, 10, 24, true}};
  for (TaskId id = 2; id < 40; ++id) jobs.push_back({id, kMatrixTask, 2, 10});
  const Played played = play("24x(1C2V)", jobs);
  EXPECT_EQ(violations("24x(1C2V)", jobs, played), kNothing);
  EXPECT_EQ(played.start_of(1), 100U);
}

// The gang waits for groups 0, 3 and 4; the matrix lanes of 1 and 2 are idle.
TEST(Gang, OthersGoOnWhereItDoesNotWait) {
  const std::vector<Job> jobs = {{0, k2V, 0, 50},
                                 {1, k2V, 0, 100, 2},
                                 {2, k1C2V, 1, 10, 3, true},
                                 {3, kMatrixTask, 2, 60},
                                 {4, kMatrixTask, 3, 60},
                                 {5, k2V, 4, 10},          // has a group that the gang cannot use
                                 {6, kMatrixTask, 5, 10},  // finds no lane that is not reserved
                                 {7, k1C2V, 6, 10}};       // the same
  const Played played = play("5x(1C2V)+1x(2V)", jobs);
  EXPECT_EQ(violations("5x(1C2V)+1x(2V)", jobs, played), kNothing);
  EXPECT_EQ(played.start_of(2), 50U);
  EXPECT_EQ(played.start_of(3), 2U);
  EXPECT_EQ(played.start_of(4), 3U);
  EXPECT_EQ(played.start_of(5), 4U);
  EXPECT_EQ(played.start_of(6), 60U);
  EXPECT_EQ(played.start_of(7), 60U);
}

TEST(Gang, OfMoreBlocksThanPlacesIsRefused) {
  const auto machine = *Topology::parse("24x(1C2V)");
  study::VirtualMachine player(machine, {},
                               [](TaskId, std::uint32_t, GroupId, unsigned) { return 1U; });
  EXPECT_TRUE(player.submit({0, k1C2V, 24, true, 0}, 0));
  EXPECT_TRUE(player.submit({1, kVectorTask, 48, true, 0}, 0));
  const Status refused = player.submit({2, k1C2V, 25, true, 0}, 0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "task 2: 25 blocks are to start together, and the machine has places for 24");
  EXPECT_EQ(player.submit({3, {2, 0, false}, 1, false, 0}, 0).error().message,
            "task 3: no group has 2 matrix and 0 vector lanes at the same time");
  EXPECT_EQ(player.submit({4, kMatrixTask, 0, false, 0}, 0).error().message,
            "task 4: it has no blocks");
  EXPECT_EQ(player.run(), 0U);
}

// What was reserved for a mixed task is all that it needs.
TEST(Gang, TakesAtOnceWhatAMixedTaskGivesUp) {
  Dispatcher dispatcher(*Topology::parse("1x(2L)"), {});
  Dispatcher::Plan plan;
  dispatcher.add({1, kVectorTask, 1, false, 0, 0});
  dispatcher.plan(0, plan);
  dispatcher.add({2, kWholeGroup, 1, false, 0, 0});
  dispatcher.plan(0, plan);
  ASSERT_EQ(plan.placements.size(), 1U);
  plan.clear();
  dispatcher.add({3, kVectorTask, 2, true, 0, 0});
  dispatcher.finish(0, 0, 0);
  dispatcher.plan(0, plan);
  ASSERT_EQ(plan.placements.size(), 2U) << "no event would ask again";
  EXPECT_EQ(plan.placements[0].task, 3U);
}

// It waits for a group's vector lanes, the mixed task for the matrix lane of another, where one of
// two idle vector lanes is reserved for it; at 30 that one finds a place in a third group.
TEST(Gang, TakesAtOnceWhatIsNoLongerReservedForAMixedTask) {
  const std::vector<Job> jobs = {
      {0, kMatrixTask, 0, 100}, {1, k2V, 1, 19},          {2, kMatrixTask, 2, 28},
      {3, kVectorTask, 3, 27},  {4, kVectorTask, 4, 100}, {5, kMatrixTask, 5, 100},
      {6, kVectorTask, 6, 100}, {7, k2V, 7, 10, 2, true}, {8, k1C1V, 8, 10}};
  const Played played = play("4x(1C2V)", jobs);
  EXPECT_EQ(violations("4x(1C2V)", jobs, played), kNothing);
  EXPECT_EQ(played.start_of(8), 30U);
  EXPECT_EQ(played.start_of(7), 30U) << "no event would ask again before 40";
}

// A mixed task needs the whole machine and cannot start before the gang, which waits for the
// matrix lanes: the vector lanes that were reserved for it are of use to others until the gang has
// started, and then are reserved again.
TEST(Gang, LeavesToOthersWhatAMixedTaskCannotUseBeforeIt) {
  const std::vector<Job> jobs = {{0, kMatrixTask, 0, 20},    {1, kMatrixTask, 0, 30},
                                 {2, kVectorTask, 0, 5, 2},  {3, kWholeGroup, 1, 10},
                                 {4, kVectorTask, 6, 10, 4}, {5, kMatrixTask, 10, 10, 2, true},
                                 {6, kVectorTask, 25, 10},  // pending when the gang starts
                                 {7, kVectorTask, 31, 10}};
  const Played played = play("1x(2C2V)", jobs);
  EXPECT_EQ(violations("1x(2C2V)", jobs, played), kNothing);
  EXPECT_EQ(played.start_of(4), 10U);
  EXPECT_EQ(played.start_of(5), 30U);
  EXPECT_EQ(played.start_of(6), 30U);
  EXPECT_EQ(played.start_of(3), 40U);
  EXPECT_EQ(played.start_of(7), 50U);
}

TEST(Gang, OfOneBlockIsATaskLikeOthers) {
  const std::vector<Job> jobs = {{0, k1C2V, 0, 10}, {1, k1C2V, 0, 10, 1, true}};
  EXPECT_EQ(play("1x(1C2V)", jobs).order(), (std::vector<TaskId>{0, 1}));
}

// 18 mixed tasks of 4 blocks and two gangs of 6, in three waves.
TEST(Gang, IsNotStarvedByOrdinaryWork) {
  std::vector<Job> jobs;
  for (Ticks wave = 0; wave < 3; ++wave) {
    for (int i = 0; i < 6; ++i) jobs.push_back({jobs.size(), k1C2V, 10 * wave, 7, 4});
    if (wave < 2) jobs.push_back({jobs.size(), k1C2V, 10 * wave, 7, 6, true});
  }
  const Played played = play("8x(1C2V)", jobs);
  EXPECT_EQ(violations("8x(1C2V)", jobs, played), kNothing);
  EXPECT_EQ(played.spans.size(), 3U * (18 * 4 + 2 * 6));
  EXPECT_LE(played.start_of(6), 14U);
}

// The starvation bound counts rounds of the machine: five gangs that need all of it pass over a
// task of one lane without a gap.
TEST(Gang, OfTheWholeMachineIsOneRound) {
  std::vector<Job> jobs = {{0, k1C2V, 0, 20, 24, true}, {1, kVectorTask, 1, 1}};
  for (TaskId id = 2; id < 6; ++id) jobs.push_back({id, k1C2V, 1, 20, 24, true});
  const Played played = play("24x(1C2V)", jobs);
  EXPECT_EQ(violations("24x(1C2V)", jobs, played), kNothing);
  EXPECT_EQ(played.start_of(1), 100U);
  EXPECT_EQ(played.end, 101U);
}

// Gangs of both lanes, one after the other without end, and one task of another kind.
TEST(Gang, PassesOverOthersSoOftenAndNoMore) {
  DispatchOptions options;
  for (const bool pending_slots : {true, false}) {
    options.pending_slots = pending_slots;
    for (const TaskShape shape : {kWholeGroup, kVectorTask}) {
      std::vector<Job> jobs = {{0, kVectorTask, 0, 10, 2, true}, {1, shape, 1, 10}};
      for (TaskId id = 2; id < 40; ++id) jobs.push_back({id, kVectorTask, 2, 10, 2, true});
      const Played played = play("1x(2L)", jobs, options);
      EXPECT_EQ(violations("1x(2L)", jobs, played, options), kNothing);
      if (shape.is_mixed()) {
        EXPECT_EQ(played.start_of(1), 90U) << "after eight of those that came later";
      } else {
        EXPECT_LE(played.start_of(1), 90U) << "after eight rounds";
      }
      EXPECT_EQ(played.end, 400U);
    }
  }
}

TEST(Cpu, AnyLaneOrTheWholeGroupTogether) {
  const std::vector<Job> jobs = {{0, kMatrixTask, 0, 10},
                                 {1, kVectorTask, 0, 10},
                                 {2, kWholeGroup, 1, 5},
                                 {3, kMatrixTask, 2, 10}};
  const Played played = play("1x(4L)", jobs);
  EXPECT_EQ(violations("1x(4L)", jobs, played), kNothing);
  EXPECT_EQ(played.start_of(1), 0U);
  EXPECT_EQ(played.start_of(2), 10U);
  EXPECT_EQ(played.start_of(3), 15U);
}

// A lane that does both kinds of work takes the oldest task, whichever kind that is.
TEST(BothKinds, TheOldestGoesFirst) {
  for (const bool pending_slots : {true, false}) {
    DispatchOptions options;
    options.pending_slots = pending_slots;
    const std::vector<Job> jobs = {
        {0, kVectorTask, 0, 10}, {1, kVectorTask, 0, 5}, {2, kMatrixTask, 0, 5}};
    const Played played = play("1x(1L)", jobs, options);
    EXPECT_EQ(violations("1x(1L)", jobs, played, options), kNothing);
    EXPECT_EQ(played.order(), (std::vector<TaskId>{0, 1, 2}));
  }
}

// Each matrix task is followed by another one, without end; so many start before the vector task.
TEST(BothKinds, EndlessLoopsOfOneDoNotHoldUpTheOther) {
  constexpr TaskId kVectorOne = 4, kTasks = 800;
  for (const char* topology : {"1x(2L)", "1x(1C1L)"}) {
    TaskId next = 5;
    std::optional<study::VirtualMachine> machine;
    machine.emplace(
        *Topology::parse(topology), DispatchOptions{},
        [](TaskId task, std::uint32_t, GroupId, unsigned) { return 10 + task % 3; },
        [&](TaskId task, Ticks now) {
          if (task == kVectorOne || next == kTasks) return;
          EXPECT_TRUE(machine->submit({next++, kMatrixTask, 1, false, 0, 0}, now));
        });
    for (TaskId task = 0; task < 5; ++task) {
      const TaskShape shape = task == kVectorOne ? kVectorTask : kMatrixTask;
      ASSERT_TRUE(machine->submit({task, shape, 1, false, 0, 0}, 0));
    }
    EXPECT_EQ(machine->run(), 0U);
    std::size_t before = 0;
    Ticks start = 0;
    for (const Span& span : machine->spans()) start = span.task == kVectorOne ? span.start : start;
    for (const Span& span : machine->spans()) before += span.start < start ? 1 : 0;
    EXPECT_LE(before, 5U) << topology << ": the four that are older, and one on the other lane";
  }
}

// The vector lane of 1x(1V1L) is busy, so that the other one has to do both.
TEST(BothKinds, OfALaneBesideOneOfASingleKind) {
  const std::vector<Job> jobs = {{0, kVectorTask, 0, 100}, {1, kMatrixTask, 0, 10},
                                 {2, kVectorTask, 1, 10},  {3, kMatrixTask, 2, 10},
                                 {4, kVectorTask, 3, 10},  {5, kMatrixTask, 4, 10}};
  const Played played = play("1x(1V1L)", jobs);
  EXPECT_EQ(violations("1x(1V1L)", jobs, played), kNothing);
  EXPECT_EQ(played.order(), (std::vector<TaskId>{0, 1, 2, 3, 4, 5}));
}

// Mixed tasks without end: each time that it is the turn of a single lane, the oldest has it.
TEST(BothKinds, TurnsAreTheOldests) {
  for (const char* topology : {"1x(2L)", "1x(1V1L)"}) {
    std::vector<Job> jobs;
    for (TaskId id = 0; id < 60; ++id) jobs.push_back({id, kWholeGroup, 0, 10});
    for (TaskId id = 60; id < 66; ++id)
      jobs.push_back({id, id % 2 == 0 ? kMatrixTask : kVectorTask, 1 + id - 60, 10});
    const Played played = play(topology, jobs);
    EXPECT_EQ(violations(topology, jobs, played), kNothing);
    std::vector<TaskId> order = played.order();
    std::erase_if(order, [](TaskId id) { return id < 60; });
    EXPECT_TRUE(std::is_sorted(order.begin(), order.end())) << topology;
  }
}

// The same machines as those of cores that do both kinds of work, and some that mix them with
// others.
TEST(Histories, KeepTheLawsWhereKindsCompete) {
  for (const char* topology :
       {"1x(1L)", "1x(2L)", "1x(1C1L)", "1x(1V1L)", "2x(1C1V1L)", "1x(1C2V)+1x(2L)", "3x(1V2L)"}) {
    Load load;
    load.topology = topology;
    for (std::uint64_t seed = 0; seed < 600; ++seed) {
      const History history = random_history(seed, load);
      for (const AdmissionPolicy policy : kPolicies) {
        DispatchOptions options = history.options;
        options.policy = policy;
        const Played played = play(history.topology, history.jobs, options);
        ASSERT_EQ(violations(history.topology, history.jobs, played, options), kNothing)
            << topology << ", seed " << seed << ", policy " << static_cast<int>(policy);
      }
    }
  }
}

TEST(Histories, KeepTheLaws) {
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    const History history = random_history(seed);
    const Played played = play(history.topology, history.jobs, history.options);
    ASSERT_EQ(violations(history.topology, history.jobs, played, history.options), kNothing)
        << "seed " << seed;
    for (const AdmissionPolicy policy : {AdmissionPolicy::kUniform, AdmissionPolicy::kPerCore}) {
      DispatchOptions other = history.options;
      other.policy = policy;
      ASSERT_EQ(violations(history.topology, history.jobs,
                           play(history.topology, history.jobs, other), other),
                kNothing)
          << "seed " << seed;
    }
  }
}

// More tasks than lanes: of one lane and of several, in one block and in up to 24, gangs.
TEST(Histories, KeepTheLawsOnTwentyFourGroups) {
  const Load load = {"24x(1C2V)", 250, 25, 24};
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    const History history = random_history(seed, load);
    for (const AdmissionPolicy policy : kPolicies) {
      DispatchOptions options = history.options;
      options.policy = policy;
      const Played played = play(history.topology, history.jobs, options);
      ASSERT_EQ(violations(history.topology, history.jobs, played, options), kNothing)
          << "seed " << seed << ", policy " << static_cast<int>(policy);
    }
  }
}

// Several events may come before a plan; there is no further plan while all lanes are idle.
TEST(Histories, OnePlanGivesAllThatCanBeGiven) {
  static constexpr const char* kMachines[] = {"1x(2L)", "1x(1C2V)", "2x(1C2V)", "3x(1C1V)"};
  static constexpr TaskShape kShapes[] = {
      kVectorTask, kVectorTask, kMatrixTask, kWholeGroup, {1, 1, false}};
  for (std::uint32_t seed = 0; seed < 4000; ++seed) {
    std::mt19937 random(seed);
    const Topology topology = *Topology::parse(kMachines[random() % 4]);
    DispatchOptions options;
    options.pending_slots = random() % 2 == 0;
    options.starvation_bound = static_cast<std::uint32_t>(1 + random() % 4);
    Dispatcher dispatcher(topology, options);
    Dispatcher::Plan plan;
    TaskId next = 0;
    for (Ticks time = 0; time < 60; ++time) {
      for (auto events = 1 + random() % 4; events > 0; --events) {
        std::vector<std::pair<GroupId, unsigned>> running;
        for (GroupId group = 0; group < topology.groups().size(); ++group) {
          LaneMask lanes = dispatcher.tracker().state(group).running;
          for (; lanes != 0; lanes &= lanes - 1) {
            running.emplace_back(group, static_cast<unsigned>(std::countr_zero(lanes)));
          }
        }
        if (random() % 2 == 0 && time < 40) {
          ReadyTask task = {next, kShapes[random() % 5], 1, random() % 3 == 0, 0, 0};
          if (random() % 3 == 0) task.blocks = static_cast<std::uint32_t>(1 + random() % 3);
          if (!dispatcher.check(task)) continue;
          dispatcher.add(task);
          ++next;
        } else if (!running.empty()) {
          const auto [group, lane] = running[random() % running.size()];
          dispatcher.finish(group, lane, time);
        }
      }
      plan.clear();
      dispatcher.plan(time, plan);
      bool idle = true;
      for (GroupId group = 0; group < topology.groups().size(); ++group) {
        idle = idle && dispatcher.tracker().state(group).running == 0;
      }
      ASSERT_TRUE(!idle || dispatcher.waiting() == 0) << "seed " << seed << " at " << time;
    }
  }
}

TEST(Histories, AreTheSameEveryTime) {
  const History history = random_history(7);
  EXPECT_EQ(play(history.topology, history.jobs, history.options).spans,
            play(history.topology, history.jobs, history.options).spans);
}

TEST(Machines, OfAThousandGroups) {
  std::vector<Job> jobs;
  for (TaskId id = 0; id < 3000; ++id) {
    jobs.push_back({id, id % 2 == 0 ? k1C2V : kVectorTask, id / 100, 50 + id % 7});
  }
  const Played played = play("1000x(1C2V)", jobs);
  EXPECT_EQ(violations("1000x(1C2V)", jobs, played), kNothing);
  EXPECT_EQ(played.spans.size(), 1500U * 3 + 1500U);
}

}  // namespace
}  // namespace dovetail::cores
