// Mixed prefill and decode, case by case (CASES.md: M1 to M15, MA to MD).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "schedule/case_play.h"

namespace dovetail::schedule {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

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
  shape.decodes = plan.decode_rows();
  return shape;
}

struct Mix {
  std::uint32_t prefill = 0, mixed = 0, decode = 0;
  bool operator==(const Mix&) const = default;
};

void PrintTo(const Mix& mix, std::ostream* out) {
  *out << 'P' << mix.prefill << " M" << mix.mixed << " D" << mix.decode;
}

Mix mix_of(const std::vector<Shape>& shapes) {
  Mix mix;
  for (const Shape& shape : shapes) {
    ++(shape.decodes == 0 ? mix.prefill : shape.chunks.empty() ? mix.decode : mix.mixed);
  }
  return mix;
}

// The small set-up of the cases: "A decodes" is a prompt of four that has been read.
SchedulerOptions small() {
  SchedulerOptions options;
  options.block_size = 4;
  options.kv_blocks = 20;
  options.max_num_seqs = 4;
  options.max_num_batched_tokens = 256;
  options.max_context = 64;
  return options;
}

std::vector<std::uint32_t> tokens_of(const StepPlan& plan) {
  std::vector<std::uint32_t> tokens;
  for (const Row& row : plan.rows) tokens.push_back(row.tokens);
  return tokens;
}
std::vector<SequenceId> ids_of(const StepPlan& plan) {
  std::vector<SequenceId> ids;
  for (const Row& row : plan.rows) ids.push_back(row.sequence);
  return ids;
}

// Plays arrivals at random steps; `see` after every plan.
template <class See>
void random_trace(std::uint32_t seed, const SchedulerOptions& options, std::uint32_t requests,
                  See&& see) {
  std::mt19937 random(seed);
  const auto in = [&](std::uint32_t low, std::uint32_t high) {
    return std::uniform_int_distribution<std::uint32_t>(low, high)(random);
  };
  Play play(options);
  std::map<SequenceId, std::uint32_t> wanted;
  for (SequenceId next = 0; next < requests || !play.scheduler().idle();) {
    while (next < requests && in(0, 2) == 0) {
      const std::uint32_t prompt = in(1, options.max_context / 2);
      wanted[next] = in(1, options.max_context / 3);
      ASSERT_TRUE(play.add(next, prompt, wanted[next]));
      ++next;
    }
    play.plan();
    see(play);
    play.commit();
    ASSERT_FALSE(testing::Test::HasFailure()) << "seed " << seed;
    ASSERT_LT(play.steps(), 20000U);
  }
  for (const auto& [id, count] : wanted) EXPECT_EQ(play.driver().generated(id), count) << id;
  play.expect_all_returned();
}

TEST(MixedCases, M1_WithoutMixingAStepIsOneOrTheOther) {
  SchedulerOptions options = small();
  options.mixed = false;
  Play play(options);
  ASSERT_TRUE(play.add(0, 4, 9));
  play.step();
  ASSERT_TRUE(play.add(1, 4, 9));
  // A prompt's turn comes after prefill_interval steps of decodes.
  play.step();
  EXPECT_EQ(shape_of(play.last()), (Shape{{}, 1}));
  play.step();
  EXPECT_EQ(shape_of(play.last()), (Shape{{4}, 0}));
  for (std::uint32_t seed = 0; seed < 50; ++seed) {
    bool prefill = false, decode = false;
    random_trace(seed, options, 30, [&](const Play& now) {
      const Shape shape = shape_of(now.last());
      EXPECT_TRUE(shape.chunks.empty() || shape.decodes == 0);
      prefill |= !shape.chunks.empty();
      decode |= shape.decodes > 0;
    });
    EXPECT_TRUE(prefill && decode);
  }
}

TEST(MixedCases, M2_ANewPromptAndADecodeShareAStep) {
  Play play(small());
  ASSERT_TRUE(play.add(0, 4, 9));
  play.step();
  ASSERT_TRUE(play.add(1, 4, 9));
  play.step();
  EXPECT_EQ(play.last().prefill_rows, 1U);
  EXPECT_EQ(play.last().decode_rows(), 1U);
  EXPECT_THAT(tokens_of(play.last()), ElementsAre(4, 1));
  EXPECT_THAT(ids_of(play.last()), ElementsAre(1, 0));
}

TEST(MixedCases, M3_OneKindAloneIsNotMixed) {
  Play play(small());
  ASSERT_TRUE(play.add(0, 4, 9));
  play.step();
  EXPECT_EQ(shape_of(play.last()), (Shape{{4}, 0}));
  play.step();
  EXPECT_EQ(shape_of(play.last()), (Shape{{}, 1}));
}

TEST(MixedCases, M4_TheDecodesTokenIsReservedBeforeThePrompt) {
  SchedulerOptions options = small();
  options.max_num_batched_tokens = 8;
  Play play(options);
  ASSERT_TRUE(play.add(0, 4, 9));
  play.step();
  ASSERT_TRUE(play.add(1, 8, 9));
  play.step();
  EXPECT_EQ(shape_of(play.last()), (Shape{{7}, 1})) << "raw: the step had no prefill yet";
}

// What 114 decodes leave of 2048 tokens to one long prompt, without alignment.
std::uint32_t prefill_beside_114_decodes(std::uint32_t drafts) {
  SchedulerOptions options = roomy(256, 2048, 0, 4096);
  options.prefill_alignment = 1;
  options.speculative_tokens = drafts;
  Play play(options);
  for (SequenceId id = 0; id < 114; ++id) {
    EXPECT_TRUE(play.add(id, 8, 100));
    play.driver().drafts(id, drafts, 0);
  }
  play.step();
  EXPECT_TRUE(play.add(114, 4000, 1));
  play.step();
  EXPECT_EQ(play.last().decode_rows(), 114U);
  EXPECT_EQ(play.last().drafts, 114 * drafts);
  return play.last().prefill_tokens;
}

TEST(MixedCases, M5_TheReserveCountsDrafts) {
  EXPECT_EQ(prefill_beside_114_decodes(0), 1934U);
  EXPECT_EQ(prefill_beside_114_decodes(3), 1592U);
}

// Requests of 4096 + 500 tokens, all there at the start.
std::vector<Shape> long_prompts(std::uint32_t requests, std::uint32_t budget,
                                std::uint32_t threshold, std::uint32_t alignment,
                                bool mixed = true) {
  SchedulerOptions options = roomy(256, budget, threshold, 4608);
  options.prefill_alignment = alignment;
  options.mixed = mixed;
  Play play(options, Play::Look::kNotAtTheCache);
  for (SequenceId id = 0; id < requests; ++id) EXPECT_TRUE(play.add(id, 4096, 500));
  std::vector<Shape> shapes;
  while (!play.scheduler().idle() && shapes.size() < 9000) {
    play.step();
    shapes.push_back(shape_of(play.last()));
  }
  EXPECT_EQ(play.finished().size(), requests);
  EXPECT_EQ(play.scheduler().preemptions(), 0U);
  return shapes;
}

std::vector<Shape> first(const std::vector<Shape>& shapes, std::size_t count) {
  return {shapes.begin(), shapes.begin() + static_cast<std::ptrdiff_t>(count)};
}

Shape with_decodes(const std::vector<Shape>& shapes, std::size_t decodes) {
  const auto found = std::find_if(shapes.begin(), shapes.end(),
                                  [&](const Shape& shape) { return shape.decodes == decodes; });
  return found == shapes.end() ? Shape{} : *found;
}

TEST(MixedCases, M6_TheStepsOf256LongPrompts) {
  const std::vector<Shape> shapes = long_prompts(256, 2048, 1792, 1);
  ASSERT_GE(shapes.size(), 8U);
  EXPECT_THAT(first(shapes, 8),
              ElementsAre(Shape{{1792, 256}, 0}, Shape{{1792, 256}, 0}, Shape{{512, 1536}, 0},
                          Shape{{1792, 255}, 1}, Shape{{256, 1791}, 1}, Shape{{1792, 254}, 2},
                          Shape{{258, 1788}, 2}, Shape{{1792, 253}, 3}));
  EXPECT_EQ(with_decodes(shapes, 114), (Shape{{1792, 142}, 114}));
}

TEST(MixedCases, M6_TheStepsOf256LongPromptsAligned) {
  const std::vector<Shape> shapes = long_prompts(256, 2048, 1792, 0);
  ASSERT_GE(shapes.size(), 4U);
  EXPECT_EQ(shapes[3], (Shape{{1792, 192}, 1}));
  EXPECT_EQ(with_decodes(shapes, 114), (Shape{{1792, 128}, 114}));
}

// Every step from the first decode to the last prompt is mixed. The last prompt's own step gives
// the first of its 500 tokens, and so 499 steps of decodes alone follow (500 where that step is
// counted, as the figures that these are compared with do).
TEST(MixedCases, M7_TheStepMix) {
  EXPECT_EQ(mix_of(long_prompts(256, 2048, 1792, 1)), (Mix{3, 544, 499}));
  EXPECT_EQ(mix_of(long_prompts(256, 2112, 1792, 1)), (Mix{3, 527, 499}));
  EXPECT_EQ(mix_of(long_prompts(256, 2048, 1792, 0)), (Mix{3, 553, 499}));
}

TEST(MixedCases, M7_TheStepMixOf512) {
  EXPECT_EQ(mix_of(long_prompts(512, 2048, 1792, 0)), (Mix{3, 1138, 499}));
}

// The threshold is a cap on a chunk, not what makes steps mix.
TEST(MixedCases, M8_MixingDoesNotDependOnTheThreshold) {
  EXPECT_EQ(mix_of(long_prompts(256, 2048, 0, 1)), (Mix{2, 545, 499}));
  for (const std::uint32_t alignment : {1U, 0U}) {
    for (const std::uint32_t threshold : {0U, 512U, 1792U}) {
      const std::vector<Shape> shapes = long_prompts(256, 2048, threshold, alignment);
      const auto decode = std::find_if(shapes.begin(), shapes.end(),
                                       [](const Shape& shape) { return shape.decodes > 0; });
      EXPECT_EQ(mix_of({decode, shapes.end()}).prefill, 0U) << "once something decodes";
      const Mix mix = mix_of(shapes);
      // Nothing can decode before the first prompt is read, which takes 4096 / 512 steps at least.
      if (threshold != 512) {
        EXPECT_GT(100 * mix.mixed, 99 * (mix.mixed + mix.prefill)) << threshold;
      }
    }
  }
}

TEST(MixedCases, M9_AMiddleChunkBesideADecodeIsNotSampled) {
  SchedulerOptions options = small();
  options.max_num_batched_tokens = 8;
  Play play(options);
  ASSERT_TRUE(play.add(0, 4, 9));
  play.step();
  ASSERT_TRUE(play.add(1, 20, 9));
  play.plan();
  ASSERT_EQ(shape_of(play.last()), (Shape{{7}, 1}));
  EXPECT_FALSE(play.last().rows[0].sampled);
  EXPECT_EQ(play.last().rows[0].logit_rows(), 0U);
  EXPECT_TRUE(play.last().rows[1].sampled);
  play.commit();
  EXPECT_EQ(play.driver().generated(0), 2U);
  EXPECT_EQ(play.driver().generated(1), 0U);
}

// Play sees to it that rows are in the order of arrival and positions in theirs.
TEST(MixedCases, M10_NoSequenceIsOvertakenLostOrDoubled) {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    SchedulerOptions options = small();
    options.max_num_batched_tokens = 4 + seed % 29;
    options.kv_blocks = 16 + seed % 24;
    options.prefill_alignment = seed % 3;
    SequenceId newest = 0;
    random_trace(seed, options, 40, [&](const Play& now) {
      for (const Admission& admission : now.last().admitted) {
        if (admission.resumed) continue;
        EXPECT_EQ(admission.sequence, newest++) << "admitted out of order, seed " << seed;
      }
    });
  }
}

TEST(MixedCases, M11_DecodesThatFillTheStepLeavePrefillItsFloor) {
  SchedulerOptions options = roomy(65, 64, 0, 2048);
  options.min_prefill_tokens = 16;
  Play play(options);
  for (SequenceId id = 0; id < 64; ++id) ASSERT_TRUE(play.add(id, 1, 0));
  play.step();
  ASSERT_EQ(play.last().rows.size(), 64U);
  play.step();
  ASSERT_EQ(play.last().decode_rows(), 64U);
  ASSERT_TRUE(play.add(64, 100, 1));
  const std::uint64_t came = play.steps();
  while (!play.course(64).finished && play.steps() < came + 50) {
    play.step();
    const bool last_chunk = play.last().prefill_rows > 0 && play.last().rows[0].final_chunk;
    if (!last_chunk) {
      EXPECT_EQ(play.last().tokens, 64U) << "a token is unused";
    }
  }
  ASSERT_TRUE(play.course(64).finished) << "never read";
  EXPECT_EQ(*play.course(64).admitted, came);
  EXPECT_EQ(*play.course(64).finished, came + 6) << "16 tokens a step";
  // 48 of 64 rows a step: none waits for a third step.
  for (SequenceId id = 0; id < 64; ++id) EXPECT_LE(play.course(id).longest_gap, 2U) << id;
}

TEST(MixedCases, M11_TheFloorIsOwedInEveryIntervalthStep) {
  SchedulerOptions options = roomy(65, 64, 0, 2048);
  options.min_prefill_tokens = 16;
  options.prefill_interval = 5;
  Play play(options);
  for (SequenceId id = 0; id < 64; ++id) ASSERT_TRUE(play.add(id, 1, 0));
  for (int i = 0; i < 9; ++i) play.step();
  ASSERT_TRUE(play.add(64, 100, 1));
  std::uint64_t before = play.steps();
  while (!play.course(64).finished && play.steps() < 100) {
    play.step();
    if (play.last().prefill_rows == 0) continue;
    EXPECT_LE(play.steps() - before, 5U);
    before = play.steps();
  }
  EXPECT_TRUE(play.course(64).finished);
}

TEST(MixedCases, M12_NothingToDoIsAnEmptyPlan) {
  Play play(small());
  play.plan();
  EXPECT_THAT(play.last().rows, IsEmpty());
  EXPECT_EQ(play.last().tokens, 0U);
}

TEST(MixedCases, M13_LogitsRowsAreLastTokensOfFinalChunksAndDecodes) {
  Play play(small());
  ASSERT_TRUE(play.add(0, 4, 9));
  ASSERT_TRUE(play.add(1, 4, 9));
  play.step();
  ASSERT_TRUE(play.add(2, 3, 9));
  ASSERT_TRUE(play.add(3, 2, 9));
  play.plan();
  ASSERT_THAT(tokens_of(play.last()), ElementsAre(3, 2, 1, 1));
  std::vector<std::uint32_t> gathered;
  std::uint32_t end = 0;
  for (const Row& row : play.last().rows) {
    end += row.tokens;
    for (std::uint32_t i = row.logit_rows(); i > 0; --i) gathered.push_back(end - i);
  }
  EXPECT_THAT(gathered, ElementsAre(2, 4, 5, 6));
  play.commit();
}

// It decodes, idles while others have the step, and goes on at its next position.
TEST(MixedCases, M14_ADecodeThatIdledGoesOnWhereItWas) {
  SchedulerOptions options = roomy(8, 8, 0, 256);
  options.min_prefill_tokens = 4;
  Play play(options);
  for (SequenceId id = 0; id < 7; ++id) ASSERT_TRUE(play.add(id, 1, 0));
  for (int i = 0; i < 3; ++i) play.step();
  ASSERT_TRUE(play.add(7, 100, 1));
  std::map<SequenceId, std::uint32_t> next;
  std::uint32_t idled = 0;
  while (!play.course(7).finished && play.steps() < 100) {
    play.plan();
    for (SequenceId id = 0; id < 7; ++id) {
      const Row* row = play.driver().row_of(id);
      if (row == nullptr) {
        ++idled;
        continue;
      }
      if (next.contains(id)) {
        EXPECT_EQ(row->first_position, next[id]) << id;
      }
      next[id] = row->first_position + 1;
    }
    play.commit();
  }
  EXPECT_GT(idled, 50U);
}

TEST(MixedCases, M15_EveryRowHasItsOwnBlockTable) {
  Play play(small());
  ASSERT_TRUE(play.add(0, 6, 9));
  play.step();
  ASSERT_TRUE(play.add(1, 6, 9));
  play.plan();
  ASSERT_EQ(play.last().rows.size(), 2U);
  EXPECT_THAT(play.last().rows[0].blocks, ElementsAre(2, 3));
  EXPECT_THAT(play.last().rows[1].blocks, ElementsAre(0, 1));
  play.commit();
}

// Every request counts upward in its own range of the cache: a gap would be lost cache, another's
// range foreign cache. With hundreds of preemptions, also with plans ahead, where a row may be
// in flight while its sequence is short of memory.
TEST(MixedCases, M24_NoPositionIsLostUnderPressure) {
  for (const bool ahead : {false, true}) {
    SchedulerOptions options = small();
    options.max_num_seqs = 8;
    options.max_num_batched_tokens = 24;
    options.watermark = 0;
    options.max_context = 80;
    Play play(options);
    for (SequenceId id = 0; id < 64; ++id) {
      ASSERT_TRUE(play.add(id, 3 + static_cast<std::uint32_t>(id) % 17, 40));
    }
    while (!play.scheduler().idle() && play.steps() < 20000) {
      if (play.driver().plans_under_way() == 0) play.plan();
      if (ahead && play.driver().plans_under_way() == 1) play.plan_ahead();
      play.commit();
      ASSERT_FALSE(HasFailure());
    }
    for (SequenceId id = 0; id < 64; ++id) EXPECT_EQ(play.driver().generated(id), 40U) << id;
    EXPECT_GE(play.scheduler().preemptions(), 100U);
    play.expect_all_returned();
  }
}

// A partly read prompt loses its place: no token of it is lost, it starts again.
TEST(MixedCases, M24_APartlyReadPromptIsReadAgainWhole) {
  SchedulerOptions options = small();
  options.max_num_seqs = 2;
  options.max_num_batched_tokens = 4;
  options.kv_blocks = 5;
  options.max_context = 20;
  options.watermark = 0;
  Play play(options);
  ASSERT_TRUE(play.add(0, 4, 9));
  play.step();
  ASSERT_TRUE(play.add(1, 11, 2));
  play.run(30);
  EXPECT_EQ(play.course(1).preemptions, 1U);
  EXPECT_EQ(play.course(1).admissions, 2U);
  EXPECT_EQ(play.driver().generated(1), 2U);
}

// Three blocks in all; a decode with a full first block and a prompt of two blocks in one step.
TEST(MixedCases, MA_NoPlannedRowIsPreempted) {
  SchedulerOptions options = small();
  options.kv_blocks = 3;
  options.max_context = 12;
  options.watermark = 0;
  Play play(options);
  ASSERT_TRUE(play.add(0, 4, 3));
  play.step();
  ASSERT_TRUE(play.add(1, 8, 1));
  while (!play.scheduler().idle() && play.steps() < 10) {
    play.plan();
    for (const SequenceId id : play.last().preempted) {
      EXPECT_EQ(play.driver().row_of(id), nullptr) << "a row without memory";
    }
    play.commit();
  }
  EXPECT_EQ(play.finished().size(), 2U);
  EXPECT_EQ(play.scheduler().preemptions(), 0U);
}

TEST(MixedCases, MB_AfterAPreemptionAllTokensAreReadAgain) {
  SchedulerOptions options = small();
  options.kv_blocks = 54;
  options.max_context = 216;
  options.max_num_batched_tokens = 64;
  Play play(options);
  ASSERT_TRUE(play.add(0, 9, 200));
  ASSERT_TRUE(play.add(1, 8, 150));
  while (play.course(1).preemptions == 0 && play.steps() < 200) play.step();
  ASSERT_EQ(play.driver().generated(1), 100U);
  play.driver().finish_next(0);
  play.step();
  play.step();
  ASSERT_EQ(shape_of(play.last()), (Shape{{64}, 0}));
  EXPECT_FALSE(play.last().rows[0].final_chunk) << "64 of 108 are not all, though the prompt was 8";
  play.step();
  ASSERT_EQ(shape_of(play.last()), (Shape{{44}, 0}));
  EXPECT_TRUE(play.last().rows[0].final_chunk);
  play.run(100);
  EXPECT_EQ(play.driver().generated(1), 150U);
}

TEST(MixedCases, MC_APrefillOnlyStepSaysWhichChunksAreFinal) {
  SchedulerOptions options = small();
  options.max_num_batched_tokens = 8;
  options.prefill_alignment = 1;
  Play play(options);
  ASSERT_TRUE(play.add(0, 4, 9));
  ASSERT_TRUE(play.add(1, 20, 9));
  play.step();
  ASSERT_EQ(shape_of(play.last()), (Shape{{4, 4}, 0}));
  EXPECT_TRUE(play.last().rows[0].final_chunk && play.last().rows[0].sampled);
  EXPECT_FALSE(play.last().rows[1].final_chunk || play.last().rows[1].sampled);
}

// Decodes that have no row in this step, being of another class, reserve nothing of it.
TEST(MixedCases, MD_TheReserveCountsOnlyRowsOfTheStep) {
  SchedulerOptions options = small();
  options.max_num_batched_tokens = 8;
  options.prefill_alignment = 1;
  Play play(options);
  for (SequenceId id = 0; id < 3; ++id) {
    SequenceSpec spec = request(id, 2, 50);
    spec.batch_class = 1;
    ASSERT_TRUE(play.add(spec));
  }
  play.step();
  ASSERT_TRUE(play.add(3, 20, 1));
  while (play.driver().row_of(3) == nullptr && play.steps() < 10) play.step();
  EXPECT_EQ(shape_of(play.last()), (Shape{{8}, 0}));
}

}  // namespace
}  // namespace dovetail::schedule
