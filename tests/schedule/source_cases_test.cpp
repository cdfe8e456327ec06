// Workloads whose course is known to the step, with a fake model that never ends by itself.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "schedule/driver.h"
#include "schedule/law_checker.h"

namespace dovetail::schedule {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Memory for all at once: what the case is about is slots and budget.
SchedulerOptions roomy(std::uint32_t slots, std::uint32_t budget, std::uint32_t threshold,
                       std::uint32_t context) {
  SchedulerOptions options;
  options.max_num_seqs = slots;
  options.max_num_batched_tokens = budget;
  options.long_prefill_token_threshold = threshold;
  options.max_context = context;
  options.kv_blocks = slots * kv::blocks_for(context, options.block_size);
  return options;
}

struct Admission {
  std::uint32_t step;
  SequenceId request;
  std::uint32_t slot;
  bool operator==(const Admission&) const = default;
};

void PrintTo(const Admission& a, std::ostream* out) {
  *out << a.step << ": " << a.request << " -> " << a.slot;
}

struct Recycling {
  std::vector<Admission> admissions;
  std::map<SequenceId, std::uint32_t> left;  // the step with its last token
  std::uint32_t steps = 0;
  std::uint32_t tokens = 0;
  std::uint32_t mid_stream = 0;  // admitted while others decode
};

Recycling recycle(std::uint32_t slots, std::uint32_t requests, std::uint32_t max_cap) {
  Driver driver(roomy(slots, 256, 0, 128));
  std::map<SequenceId, std::uint32_t> caps;
  for (std::uint32_t i = 0; i < requests; ++i) {
    caps[i] = std::min(max_cap, 12 + (11 * i) % 28);
    EXPECT_TRUE(driver.add(i, std::min(46U, 20 + (13 * i) % 26), caps[i]));
  }
  Recycling seen;
  while (!driver.scheduler().idle() && seen.steps < 64 * requests + 64) {
    EXPECT_TRUE(driver.step());
    const StepPlan& plan = driver.last_plan();
    for (const SequenceId id : plan.admitted) {
      seen.admissions.push_back({seen.steps, id, driver.row_of(id)->slot});
      seen.mid_stream += plan.rows.size() > plan.prefill_rows ? 1 : 0;
    }
    for (const SequenceId id : driver.finished()) seen.left[id] = seen.steps;
    ++seen.steps;
  }
  for (const auto& [id, cap] : caps) {
    EXPECT_EQ(driver.generated(id), cap) << id;
    seen.tokens += driver.generated(id);
  }
  EXPECT_EQ(driver.scheduler().preemptions(), 0U);
  EXPECT_THAT(violations(driver.history()), IsEmpty());
  return seen;
}

// A request leaves in the commit of the step before the one in which its slot has a new owner.
TEST(SlotRecycling, ThreeSlotsSixRequests) {
  const Recycling seen = recycle(3, 6, 14);
  EXPECT_THAT(seen.admissions,
              ElementsAre(Admission{0, 0, 0}, Admission{0, 1, 1}, Admission{0, 2, 2},
                          Admission{12, 3, 0}, Admission{14, 4, 1}, Admission{14, 5, 2}));
  EXPECT_EQ(seen.left.at(0), 11U);
  EXPECT_EQ(seen.left.at(1), 13U);
  EXPECT_EQ(seen.left.at(2), 13U);
  EXPECT_EQ(seen.tokens, 82U);
  EXPECT_EQ(seen.mid_stream, 3U);
  EXPECT_EQ(seen.steps, 28U);
}

TEST(SlotRecycling, FourSlotsEightRequests) {
  const Recycling seen = recycle(4, 8, 48);
  EXPECT_THAT(seen.admissions,
              ElementsAre(Admission{0, 0, 0}, Admission{0, 1, 1}, Admission{0, 2, 2},
                          Admission{0, 3, 3}, Admission{12, 4, 0}, Admission{17, 5, 3},
                          Admission{23, 6, 1}, Admission{34, 7, 2}));
  EXPECT_EQ(seen.tokens, 208U);
  EXPECT_EQ(seen.mid_stream, 4U);
  EXPECT_EQ(seen.steps, 67U);
}

struct Mix {
  std::uint32_t prefill = 0, mixed = 0, decode = 0;
  bool operator==(const Mix&) const = default;
};

void PrintTo(const Mix& mix, std::ostream* out) {
  *out << 'P' << mix.prefill << " M" << mix.mixed << " D" << mix.decode;
}

struct Shape {
  std::vector<std::uint32_t> chunks;
  std::size_t decodes = 0;
  bool operator==(const Shape&) const = default;
};

void PrintTo(const Shape& shape, std::ostream* out) {
  for (const std::uint32_t chunk : shape.chunks) *out << chunk << ' ';
  *out << "| " << shape.decodes;
}

Shape shape_of(const StepPlan& plan) {
  Shape shape;
  for (std::uint32_t i = 0; i < plan.prefill_rows; ++i) shape.chunks.push_back(plan.rows[i].tokens);
  shape.decodes = plan.rows.size() - plan.prefill_rows;
  return shape;
}

// 256 requests of 4096 + 500 tokens, all there at the start. Every step from the first decode to
// the last prompt is mixed. That prompt's own step gives the first of its 500 tokens, and so 499
// steps of decodes alone follow.
std::vector<Shape> long_prompts(std::uint32_t budget, std::uint32_t threshold) {
  Driver driver(roomy(256, budget, threshold, 4608));
  for (SequenceId id = 0; id < 256; ++id) EXPECT_TRUE(driver.add(id, 4096, 500));
  std::vector<Shape> shapes;
  while (!driver.scheduler().idle() && shapes.size() < 5000) {
    EXPECT_TRUE(driver.step());
    shapes.push_back(shape_of(driver.last_plan()));
  }
  EXPECT_THAT(violations(driver.history()), IsEmpty());
  return shapes;
}

Mix mix_of(const std::vector<Shape>& shapes) {
  Mix mix;
  for (const Shape& shape : shapes) {
    ++(shape.decodes == 0 ? mix.prefill : shape.chunks.empty() ? mix.decode : mix.mixed);
  }
  return mix;
}

TEST(MixedSteps, FormAsSoonAsSomethingDecodes) {
  const std::vector<Shape> shapes = long_prompts(2048, 1792);
  ASSERT_GE(shapes.size(), 8U);
  EXPECT_THAT((std::vector<Shape>(shapes.begin(), shapes.begin() + 8)),
              ElementsAre(Shape{{1792, 256}, 0}, Shape{{1792, 256}, 0}, Shape{{512, 1536}, 0},
                          Shape{{1792, 255}, 1}, Shape{{256, 1791}, 1}, Shape{{1792, 254}, 2},
                          Shape{{258, 1788}, 2}, Shape{{1792, 253}, 3}));
  const auto full = std::find_if(shapes.begin(), shapes.end(),
                                 [](const Shape& shape) { return shape.decodes == 114; });
  ASSERT_NE(full, shapes.end());
  EXPECT_EQ(*full, (Shape{{1792, 142}, 114}));
  EXPECT_EQ(mix_of(shapes), (Mix{3, 544, 499}));
}

TEST(MixedSteps, FormUnderAnyBudgetAndThreshold) {
  EXPECT_EQ(mix_of(long_prompts(2112, 1792)), (Mix{3, 527, 499}));
  EXPECT_EQ(mix_of(long_prompts(2048, 0)), (Mix{2, 545, 499}));
}

// 40 equal requests of 64 + 100 tokens, blocks of 16: 11 blocks each at their full length.
struct Crowd {
  std::uint64_t preemptions = 0;
  std::vector<SequenceId> ended;
  std::uint64_t read = 0;  // prompt tokens and those that were read again
};

Crowd crowd(std::uint32_t slots, std::uint32_t blocks) {
  SchedulerOptions options;
  options.max_num_seqs = slots;
  options.max_num_batched_tokens = 512;
  options.kv_blocks = blocks;
  options.max_context = 176;
  Driver driver(options);
  for (SequenceId id = 0; id < 40; ++id) EXPECT_TRUE(driver.add(id, 64, 100));
  Crowd seen;
  for (int step = 0; !driver.scheduler().idle() && step < 40 * 164; ++step) {
    EXPECT_TRUE(driver.step());
    const StepPlan& plan = driver.last_plan();
    for (std::uint32_t i = 0; i < plan.prefill_rows; ++i) seen.read += plan.rows[i].tokens;
    seen.ended.insert(seen.ended.end(), driver.finished().begin(), driver.finished().end());
  }
  for (SequenceId id = 0; id < 40; ++id) EXPECT_EQ(driver.generated(id), 100U) << id;
  EXPECT_EQ(seen.ended.size(), 40U);
  EXPECT_TRUE(std::is_sorted(seen.ended.begin(), seen.ended.end())) << "equal ones end by arrival";
  EXPECT_THAT(violations(driver.history()), IsEmpty());
  seen.preemptions = driver.scheduler().preemptions();
  return seen;
}

TEST(Fairness, RoomForSixteen) {
  const Crowd seen = crowd(16, 176);
  EXPECT_EQ(seen.preemptions, 0U);
  EXPECT_EQ(seen.read, 40U * 64);
}

TEST(Fairness, MemoryGrowsShort) {
  const Crowd seen = crowd(40, 120);
  EXPECT_GT(seen.preemptions, 0U);
  EXPECT_LE(seen.read, 40U * 64 + 40U * 164 / 2) << "recomputation costs more than half the work";
}

TEST(Fairness, RoomForOne) { EXPECT_GE(crowd(4, 11).ended.size(), 40U); }

}  // namespace
}  // namespace dovetail::schedule
