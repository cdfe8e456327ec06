#include "pipeline/report/activity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace dovetail::pipeline {
namespace {

using Times = std::array<std::uint64_t, kSlotCauses>;

TEST(Activity, SumsOverTime) {
  Activity activity;
  activity.sample(0, 2, 4, SlotCause::kNothingReady);
  activity.sample(1500, 4, 4, SlotCause::kLimit);
  activity.end(2500);
  ASSERT_EQ(activity.buckets().size(), 3U);
  EXPECT_EQ(activity.buckets()[0].in_flight, 2000U);
  EXPECT_EQ(activity.buckets()[1].in_flight, 500U * 2 + 500U * 4);
  EXPECT_EQ(activity.buckets()[2].in_flight, 500U * 4);
  EXPECT_EQ(activity.buckets()[1].limit, 4000U);
  EXPECT_EQ(activity.total().by, (Times{0, 1000, 0, 0, 0, 1500, 0}));
  EXPECT_EQ(activity.free_slots(), (Times{0, 0, 0, 0, 0, 3000, 0}));
}

TEST(Activity, WhatIsUnknownCountsForNothing) {
  Activity activity;
  activity.sample(3000, 1, 1, SlotCause::kLimit);
  activity.end(4000);
  activity.sample(6000, 1, 1, SlotCause::kLimit);
  activity.end(6500);
  EXPECT_EQ(activity.total().covered(), 1500U);
  EXPECT_EQ(activity.buckets()[0].covered(), 0U);
  EXPECT_EQ(activity.buckets()[5].covered(), 0U);
  EXPECT_EQ(activity.last(), 6500U);
}

TEST(Activity, TimeDoesNotGoBack) {
  Activity activity;
  activity.sample(2000, 1, 2, SlotCause::kTaking);
  activity.sample(1000, 2, 2, SlotCause::kLimit);
  activity.end(3000);
  EXPECT_EQ(activity.total().by, (Times{0, 1000}));
}

TEST(Activity, CausesHaveNames) {
  EXPECT_EQ(name_of(SlotCause::kCoolDown), "cool_down");
  EXPECT_EQ(words_of(SlotCause::kWindow), "window full");
}

struct Seen {
  std::uint64_t time = 0;
  std::uint32_t in_flight = 0, limit = 0;
  SlotCause cause = SlotCause::kTaking;
};

std::vector<Seen> some_samples() {
  std::vector<Seen> samples;
  std::uint64_t time = 0;
  const auto count = *rc::gen::inRange(1, 60);
  for (int i = 0; i < count; ++i) {
    // From microseconds to hours.
    time += *rc::gen::inRange<std::uint64_t>(0, std::uint64_t{1} << *rc::gen::inRange(1, 34));
    samples.push_back({time, *rc::gen::inRange<std::uint32_t>(0, 200),
                       *rc::gen::inRange<std::uint32_t>(0, 100),
                       static_cast<SlotCause>(*rc::gen::inRange<int>(0, kSlotCauses))});
  }
  return samples;
}

Activity record(const std::vector<Seen>& samples, std::size_t most_buckets) {
  Activity activity(most_buckets);
  for (const Seen& s : samples) activity.sample(s.time, s.in_flight, s.limit, s.cause);
  activity.end(samples.back().time);
  return activity;
}

RC_GTEST_PROP(Activity, SumsAreThoseOfTheSamples, ()) {
  const std::vector<Seen> samples = some_samples();
  const auto most = *rc::gen::inRange<std::size_t>(2, 40);
  const Activity activity = record(samples, most);
  Activity::Bucket expected;
  Times free{};
  for (std::size_t i = 0; i + 1 < samples.size(); ++i) {
    const Seen& s = samples[i];
    const std::uint64_t time = samples[i + 1].time - s.time;
    const auto cause = static_cast<std::size_t>(s.cause);
    expected.in_flight += time * s.in_flight;
    expected.limit += time * s.limit;
    expected.by[cause] += time;
    if (s.limit > s.in_flight) free[cause] += time * (s.limit - s.in_flight);
  }
  RC_ASSERT(activity.total() == expected);
  RC_ASSERT(activity.free_slots() == free);
  RC_ASSERT(activity.buckets().size() <= most);
}

RC_GTEST_PROP(Activity, EveryBucketIsTheIntegralOverItsTime, ()) {
  const std::vector<Seen> samples = some_samples();
  const Activity activity = record(samples, *rc::gen::inRange<std::size_t>(2, 40));
  const std::uint64_t width = activity.bucket_width();
  for (std::size_t b = 0; b < activity.buckets().size(); ++b) {
    Activity::Bucket expected;
    for (std::size_t i = 0; i + 1 < samples.size(); ++i) {
      const std::uint64_t from = std::max(samples[i].time, b * width);
      const std::uint64_t to = std::min(samples[i + 1].time, (b + 1) * width);
      if (from >= to) continue;
      expected.in_flight += (to - from) * samples[i].in_flight;
      expected.limit += (to - from) * samples[i].limit;
      expected.by[static_cast<std::size_t>(samples[i].cause)] += to - from;
    }
    RC_ASSERT(activity.buckets()[b] == expected);
  }
}

RC_GTEST_PROP(Activity, GoesOnAfterBeingKept, ()) {
  const std::vector<Seen> samples = some_samples();
  const Activity whole = record(samples, 16);
  const auto cut = *rc::gen::inRange<std::size_t>(0, samples.size());
  Activity first(16);
  for (std::size_t i = 0; i <= cut; ++i) {
    const Seen& s = samples[i];
    first.sample(s.time, s.in_flight, s.limit, s.cause);
  }
  first.end(samples[cut].time);
  const auto text = first.to_json().dump();
  auto second = Activity::from_json(Json::parse(text));
  RC_ASSERT(second.has_value());
  for (std::size_t i = cut; i < samples.size(); ++i) {
    const Seen& s = samples[i];
    second->sample(s.time, s.in_flight, s.limit, s.cause);
  }
  second->end(samples.back().time);
  RC_ASSERT(second->total() == whole.total());
  RC_ASSERT(second->to_json() == whole.to_json());
}

// Kept by a program that knew seven causes.
TEST(Activity, OfFewerCausesIsRead) {
  const auto read = Activity::from_json(Json::parse(
      R"({"most_buckets":8,"width_us":1000,"last_us":900,"free_slots":[0,0,0,0,0,5,0],
          "buckets":[[1,2,0,900,0,0,0,0,0]]})"));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->total().covered(), 900U);
  EXPECT_EQ(read->free_slots()[5], 5U);
  EXPECT_EQ(read->total().by[static_cast<std::size_t>(SlotCause::kMaxParallel)], 0U);
}

class DamagedActivity : public testing::TestWithParam<const char*> {};

TEST_P(DamagedActivity, IsRefused) {
  const auto read = Activity::from_json(Json::parse(GetParam()));
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().kind, ErrorKind::kInvalid);
  EXPECT_THAT(read.error().message, testing::HasSubstr("is not what a run has written"));
}

INSTANTIATE_TEST_SUITE_P(
    Texts, DamagedActivity,
    testing::Values(
        "[]", "{}", R"({"most_buckets":1})", R"({"most_buckets":99999999})",
        R"({"most_buckets":8,"width_us":0})", R"({"most_buckets":8,"width_us":1000})",
        R"({"most_buckets":8,"width_us":1000,"free_slots":[0,0,0,0,0,0,0]})",
        R"({"most_buckets":8,"width_us":1000,"free_slots":[0,0,0,0,0,0,-1],"buckets":[]})",
        R"({"most_buckets":8,"width_us":1000,"free_slots":[0,0,0,0,0,0,0],"buckets":[[1]]})",
        R"({"most_buckets":2,"width_us":1000,"free_slots":[0,0,0,0,0,0,0],"buckets":[[],[],[]]})"));

}  // namespace
}  // namespace dovetail::pipeline
