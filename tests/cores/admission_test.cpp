#include "cores/admission.h"

#include <gtest/gtest.h>

#include <string>

#include "cores/group_tracker.h"

namespace dovetail::cores {
namespace {

// Of one lane each, in the order of the lanes: I idle; R running, the pending slot free; P the
// pending slot taken, too; p the pending slot taken though nothing runs yet.
GroupState states(const std::string& letters) {
  GroupState state;
  for (std::size_t lane = 0; lane < letters.size(); ++lane) {
    const LaneMask bit = LaneMask{1} << lane;
    if (letters[lane] == 'R' || letters[lane] == 'P') state.running |= bit;
    if (letters[lane] == 'P' || letters[lane] == 'p') state.pending |= bit;
  }
  return state;
}

struct Case {
  const char* lanes;  // matrix, vector, vector
  LaneMask mask;
  Admission strict, uniform, per_core;
};

constexpr auto kNo = Admission::kRefused;
constexpr auto kRun = Admission::kRun;
constexpr auto kPend = Admission::kPend;
constexpr auto kSplit = Admission::kSplit;

class Admit : public testing::TestWithParam<Case> {};

TEST_P(Admit, ByPolicy) {
  const Case& given = GetParam();
  const GroupState state = states(given.lanes);
  EXPECT_EQ(admit(AdmissionPolicy::kStrict, state, given.mask), given.strict);
  EXPECT_EQ(admit(AdmissionPolicy::kUniform, state, given.mask), given.uniform);
  EXPECT_EQ(admit(AdmissionPolicy::kPerCore, state, given.mask), given.per_core);
}

INSTANTIATE_TEST_SUITE_P(
    Table, Admit,
    testing::Values(Case{"III", 7, kRun, kRun, kRun},     // all idle
                    Case{"IRI", 7, kNo, kNo, kSplit},     // one of its lanes does foreign work
                    Case{"IIR", 3, kRun, kRun, kRun},     // a lane that it does not use is busy
                    Case{"RRR", 7, kNo, kPend, kPend},    // all busy
                    Case{"RRI", 3, kNo, kPend, kPend},    // both that it uses are
                    Case{"RRP", 3, kNo, kPend, kPend},    // what is pending on the third is nothing
                    Case{"RPR", 7, kNo, kNo, kNo},        // one pending slot is taken
                    Case{"IpI", 3, kNo, kNo, kNo},        // given away, not begun yet
                    Case{"III", 0, kNo, kNo, kNo},        // no lanes
                    Case{"PRR", 7, kNo, kNo, kNo},        // fully busy
                    Case{"RII", 6, kRun, kRun, kRun},     // two vector lanes beside a matrix task
                    Case{"III", 1, kRun, kRun, kRun},     // a single lane
                    Case{"RII", 1, kPend, kPend, kPend},  // ... behind its own work
                    Case{"PII", 1, kNo, kNo, kNo}));

class ChooseLanes : public testing::Test {
 protected:
  static constexpr GroupSpec kCluster = {0b001, 0b110};
  static constexpr GroupSpec kCpu = {0b1111, 0b1111};
  static constexpr GroupSpec kBoth = {0b0110, 0b1100};  // CLV behind an unused lane
};

TEST_F(ChooseLanes, TakesTheLowest) {
  EXPECT_EQ(choose_lanes(kCluster, kMatrixTask, 7), 1U);
  EXPECT_EQ(choose_lanes(kCluster, kVectorTask, 7), 2U);
  EXPECT_EQ(choose_lanes(kCluster, {1, 1, false}, 7), 3U);
  EXPECT_EQ(choose_lanes(kCluster, {1, 1, false}, 0b101), 5U);
  EXPECT_EQ(choose_lanes(kCluster, {1, 2, false}, 7), 7U);
  EXPECT_EQ(choose_lanes(kCluster, {0, 2, false}, 7), 6U);
  EXPECT_EQ(choose_lanes(kCpu, {1, 2, false}, 0b1011), 0b1011U);
}

TEST_F(ChooseLanes, FailsWholly) {
  EXPECT_EQ(choose_lanes(kCluster, kMatrixTask, 6), 0U);
  EXPECT_EQ(choose_lanes(kCluster, {1, 2, false}, 3), 0U);
  EXPECT_EQ(choose_lanes(kCluster, {2, 0, false}, 7), 0U);
  EXPECT_EQ(choose_lanes(kCpu, {1, 2, false}, 0b11), 0U);
}

TEST_F(ChooseLanes, WholeGroupMeansAll) {
  EXPECT_EQ(choose_lanes(kCpu, kWholeGroup, 0b1111), 0b1111U);
  EXPECT_EQ(choose_lanes(kCpu, kWholeGroup, 0b0111), 0U);
}

TEST_F(ChooseLanes, LanesForOneKindComeFirst) {
  EXPECT_EQ(choose_lanes(kBoth, kMatrixTask, 0b1110), 0b0010U);
  EXPECT_EQ(choose_lanes(kBoth, kVectorTask, 0b1110), 0b1000U);
  EXPECT_EQ(choose_lanes(kBoth, {2, 1, false}, 0b1110), 0b1110U);
  EXPECT_EQ(choose_lanes(kBoth, {1, 2, false}, 0b1110), 0b1110U);
}

Topology clusters(const std::string& count) { return *Topology::parse(count + "x(1C2V)"); }

TEST(GroupTracker, CountsWhatFits) {
  GroupTracker tracker(clusters("2"));
  tracker.run(0, 0b010);
  tracker.run(1, 0b010);  // of six lanes numbers 1 and 4 are busy
  const auto capacity = [&](TaskShape shape, AdmissionPolicy policy, bool pending) {
    return tracker.capacity(shape, policy, pending);
  };
  EXPECT_EQ(capacity(kVectorTask, AdmissionPolicy::kStrict, false), 2U);
  EXPECT_EQ(capacity(kVectorTask, AdmissionPolicy::kStrict, true), 4U);
  tracker.pend(1, 0b010);
  EXPECT_EQ(capacity(kVectorTask, AdmissionPolicy::kStrict, true), 3U);
  // A group counts as long as no lane that the shape uses has both slots taken.
  EXPECT_EQ(capacity({1, 2, false}, AdmissionPolicy::kPerCore, true), 1U);
  EXPECT_EQ(capacity({1, 2, false}, AdmissionPolicy::kUniform, true), 0U);
  EXPECT_EQ(capacity(kMatrixTask, AdmissionPolicy::kPerCore, true), 2U);
  tracker.finish(1, 1);
  tracker.finish(0, 1);
  EXPECT_EQ(capacity({1, 2, false}, AdmissionPolicy::kStrict, false), 1U);
  EXPECT_EQ(capacity({1, 2, false}, AdmissionPolicy::kPerCore, true), 2U);
  EXPECT_EQ(capacity({1, 2, false}, AdmissionPolicy::kUniform, true), 1U);
}

TEST(GroupTracker, AConflictInBothGroupsLeavesTheSmallerShape) {
  GroupTracker tracker(clusters("2"));
  tracker.run(0, 0b100);
  tracker.run(1, 0b100);
  EXPECT_EQ(tracker.capacity({1, 1, false}, AdmissionPolicy::kStrict, false), 2U);
  EXPECT_EQ(tracker.capacity({1, 2, false}, AdmissionPolicy::kStrict, false), 0U);
}

TEST(GroupTracker, SkipsAGroupWithAConflict) {
  GroupTracker tracker(clusters("2"));
  tracker.run(0, 0b010);
  const auto place = tracker.find_open({1, 2, false});
  ASSERT_TRUE(place);
  EXPECT_EQ(place->group, 1U);
  EXPECT_EQ(place->lanes, 0b111U);
}

TEST(GroupTracker, SingleLanesFillGroupsThatAreInUse) {
  GroupTracker tracker(clusters("3"));
  tracker.run(1, 0b010);
  const auto place = tracker.find_open(kVectorTask);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->group, 1U);
  EXPECT_EQ(place->lanes, 0b100U);
  tracker.run(1, 0b100);
  EXPECT_EQ(tracker.find_open(kVectorTask)->group, 0U);
}

TEST(GroupTracker, ALaneIsTakenFromTheMomentItIsGivenAway) {
  GroupTracker tracker(clusters("1"));
  tracker.run(0, 0b010);
  EXPECT_FALSE(tracker.find_open({1, 2, false}));
  EXPECT_TRUE(tracker.find_open({1, 1, false}));
  EXPECT_FALSE(tracker.finish(0, 1));
  EXPECT_EQ(tracker.find_open({1, 2, false})->lanes, 7U);
}

TEST(GroupTracker, WhatIsPendingRunsWhenTheLaneIsFree) {
  GroupTracker tracker(clusters("1"));
  tracker.run(0, 0b001);
  tracker.pend(0, 0b001);
  EXPECT_TRUE(tracker.finish(0, 0));
  EXPECT_EQ(tracker.state(0).running, 1U);
  EXPECT_EQ(tracker.state(0).pending, 0U);
  EXPECT_FALSE(tracker.finish(0, 0));
  EXPECT_EQ(tracker.idle(0), 7U);
}

TEST(GroupTracker, ReservedLanesAreNotOpen) {
  GroupTracker tracker(clusters("2"));
  tracker.reserve(0, 0b011);
  EXPECT_EQ(tracker.find_open(kMatrixTask)->group, 1U);
  EXPECT_EQ(tracker.find_open(kVectorTask)->lanes, 0b100U);
  EXPECT_EQ(tracker.idle(0), 0b111U);
  tracker.release(0, 0b011);
  EXPECT_EQ(tracker.find_open(kMatrixTask)->group, 0U);
}

TEST(GroupTracker, FindsTheOneGroupOfAThousand) {
  GroupTracker tracker(clusters("1000"));
  for (GroupId group = 0; group < 1000; ++group) {
    if (group != 777) tracker.run(group, 0b100);
  }
  EXPECT_EQ(tracker.find_open({1, 2, false})->group, 777U);
}

}  // namespace
}  // namespace dovetail::cores
