#include "pipeline/report/axis.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "pipeline/report/slot_cause.h"

namespace dovetail::pipeline {
namespace {

std::string labels(const std::vector<Tick>& ticks) {
  std::string out;
  for (const Tick& tick : ticks) out += (out.empty() ? "" : "|") + tick.label;
  return out;
}

TEST(Axis, LabelsHaveUnits) {
  EXPECT_EQ(label_of(0, Unit::kMicros), "0");
  EXPECT_EQ(label_of(250, Unit::kMicros), "250 µs");
  EXPECT_EQ(label_of(1500, Unit::kMicros), "1.5 ms");
  EXPECT_EQ(label_of(12e6, Unit::kMicros), "12 s");
  EXPECT_EQ(label_of(90e6, Unit::kMicros), "1.5 min");
  EXPECT_EQ(label_of(73.2e6, Unit::kMicros), "73.2 s");
  EXPECT_EQ(label_of(3 * 3600e6, Unit::kMicros), "3 h");
  EXPECT_EQ(label_of(96 * 3600e6, Unit::kMicros), "4 d");
  EXPECT_EQ(label_of(1200, Unit::kCount), "1,200");
  EXPECT_EQ(label_of(12'300, Unit::kCount), "12.3k");
  EXPECT_EQ(label_of(-0.25, Unit::kNumber), "-0.25");
  EXPECT_EQ(label_of(0.1 + 0.2, Unit::kNumber), "0.3");
}

TEST(Axis, LinearMarksAreRound) {
  EXPECT_EQ(labels(linear_ticks(0, 100, Unit::kCount, 5)), "0|20|40|60|80|100");
  EXPECT_EQ(labels(linear_ticks(3, 17, Unit::kNumber, 5)), "5|10|15");
  EXPECT_EQ(labels(linear_ticks(-1, 1, Unit::kNumber, 4)), "-1|-0.5|0|0.5|1");
  EXPECT_EQ(labels(linear_ticks(0, 312e6, Unit::kMicros, 6)), "0|1 min|2 min|3 min|4 min|5 min");
  EXPECT_EQ(labels(linear_ticks(0, 2, Unit::kCount, 5)), "0|1|2");
  EXPECT_EQ(labels(linear_ticks(7, 7, Unit::kNumber, 5)), "7");
}

TEST(Axis, LogarithmicMarks) {
  EXPECT_EQ(labels(log_ticks(100, 10'000, Unit::kMicros)),
            "100 µs|200 µs|500 µs|1 ms|2 ms|5 ms|10 ms");
  EXPECT_EQ(labels(log_ticks(1e3, 1e8, Unit::kMicros)), "1 ms|10 ms|100 ms|1 s|10 s|100 s");
  const auto ticks = log_ticks(100, 10'000, Unit::kMicros);
  EXPECT_DOUBLE_EQ(ticks[3].place, 0.5);
}

RC_GTEST_PROP(Axis, MarksAreOnTheAxisAndApart, ()) {
  const double from = *rc::gen::inRange(-1000, 1000) * std::pow(10.0, *rc::gen::inRange(-3, 6));
  const double to = from + *rc::gen::inRange(1, 1000) * std::pow(10.0, *rc::gen::inRange(-3, 6));
  const auto ticks = linear_ticks(from, to, Unit::kNumber, 5);
  RC_ASSERT(ticks.size() >= 2U);
  for (std::size_t i = 0; i < ticks.size(); ++i) {
    RC_ASSERT(ticks[i].place > -1e-6);
    RC_ASSERT(ticks[i].place < 1 + 1e-6);
    if (i > 0) RC_ASSERT(ticks[i].place - ticks[i - 1].place >= 0.15);
  }
}

RC_GTEST_PROP(Axis, EndsAreEvenAndNotFarAbove, ()) {
  const auto greatest = *rc::gen::inRange<std::uint64_t>(0, 2'000'000'000);
  const std::uint64_t end = axis_end(greatest);
  RC_ASSERT(end >= greatest);
  RC_ASSERT(end % 2 == 0U);
  RC_ASSERT(end <= greatest * 2 + 2);
}

TEST(SlotCause, JoinsWhatTheEndpointAndTheRunKnow) {
  EXPECT_EQ(slot_cause(IdleCause::kNone, true, true), SlotCause::kTaking);
  EXPECT_EQ(slot_cause(IdleCause::kNone, false, false), SlotCause::kNothingReady);
  EXPECT_EQ(slot_cause(IdleCause::kNone, false, true), SlotCause::kWindow);
  EXPECT_EQ(slot_cause(IdleCause::kLimit, false, true), SlotCause::kLimit);
  EXPECT_EQ(slot_cause(IdleCause::kCoolDown, true, false), SlotCause::kCoolDown);
  EXPECT_EQ(slot_cause(IdleCause::kBudget, true, false), SlotCause::kBudget);
  EXPECT_EQ(slot_cause(IdleCause::kBroken, true, false), SlotCause::kBroken);
}

}  // namespace
}  // namespace dovetail::pipeline
