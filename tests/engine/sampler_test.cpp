#include "engine/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <vector>

namespace dovetail::engine {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();
const float kNan = std::numeric_limits<float>::quiet_NaN();

struct Setting {
  SamplingParams params;
  TokenCounts counts;
  std::vector<TokenId> forbidden;
  std::vector<std::uint64_t> allowed;
};

std::optional<TokenId> draw(const std::vector<float>& logits, const Setting& setting,
                            std::uint64_t seed = 1, std::uint32_t position = 0,
                            std::uint32_t choice = 0) {
  SamplingContext context;
  context.params = &setting.params;
  context.seed = seed;
  context.choice = choice;
  context.position = position;
  context.counts = &setting.counts;
  context.forbidden = setting.forbidden;
  context.allowed = setting.allowed;
  return sample(logits, context);
}

std::map<TokenId, int> histogram(const std::vector<float>& logits, const Setting& setting,
                                 int draws = 20000) {
  std::map<TokenId, int> counts;
  for (int i = 0; i < draws; ++i)
    ++counts[*draw(logits, setting, 42, static_cast<std::uint32_t>(i))];
  return counts;
}

Setting greedy() {
  Setting setting;
  setting.params.temperature = 0.0F;
  return setting;
}

TEST(Greedy, TakesTheHighestAndTheLowestIdAmongEquals) {
  EXPECT_EQ(draw({1, 3, 2}, greedy()), 1);
  EXPECT_EQ(draw({2, 3, 3, 1}, greedy()), 1);
  EXPECT_EQ(draw({5, 5, 5}, greedy()), 0);
  EXPECT_EQ(draw({kNan, 1, kNan, 2}, greedy()), 3);
  EXPECT_EQ(draw({kNever, kNever, -7}, greedy()), 2);
}

TEST(Greedy, FindsNothingWhereNothingIsANumber) {
  EXPECT_EQ(draw({kNan, kNan}, greedy()), std::nullopt);
  EXPECT_EQ(draw({kNever, kNan}, greedy()), std::nullopt);
  EXPECT_EQ(draw({kNan, kNan}, Setting{}), std::nullopt);
}

TEST(Masks, KeepTheAllowedAndNothingElse) {
  std::vector<float> logits(200);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    logits[i] = static_cast<float>((i * 37) % 101) / 40.0F - 1.0F;
  }
  // Words that are full, empty and mixed, and one that ends with the logits.
  const std::vector<std::vector<std::uint64_t>> masks = {
      {~0ULL, 0, 0xF0F0F0F0F0F0F0F0ULL, 0x81},
      {0, 0, 0, 1ULL << 7},
      {1, 0, 0, 0},
      {~0ULL, ~0ULL, ~0ULL, ~0ULL},
  };
  for (const auto& mask : masks) {
    // As if what is not allowed had never been possible.
    std::vector<float> taken_out = logits;
    for (std::size_t i = 0; i < logits.size(); ++i) {
      if (((mask[i / 64] >> (i % 64)) & 1U) == 0) taken_out[i] = kNever;
    }
    std::vector<Setting> settings(4);
    settings[0] = greedy();
    settings[2].params.top_k = 3;
    settings[3].params.top_p = 0.8F;
    settings[3].params.logit_bias = {{3, 2.0F}, {130, 1.0F}};
    for (const Setting& setting : settings) {
      Setting masked = setting;
      masked.allowed = mask;
      for (std::uint32_t i = 0; i < 200; ++i) {
        EXPECT_EQ(draw(logits, masked, 7, i), draw(taken_out, setting, 7, i));
      }
    }
  }
  Setting none;
  none.allowed = {0, 0, 0, 0};
  EXPECT_EQ(draw(logits, none), std::nullopt);
}

TEST(Adjustments, ApplyBeforeTheChoice) {
  struct Case {
    const char* name;
    std::vector<float> logits;
    void (*set)(Setting&);
    TokenId expected;
  };
  const Case cases[] = {
      {"bias up",
       {1, 3, 2},
       [](Setting& s) {
         s.params.logit_bias = {{0, 5.0F}};
       },
       0},
      {"bias down",
       {1, 3, 2},
       [](Setting& s) {
         s.params.logit_bias = {{1, -100.0F}};
       },
       2},
      {"bias of a token that is not there",
       {1, 3, 2},
       [](Setting& s) {
         s.params.logit_bias = {{9, 100.0F}, {-1, 100.0F}};
       },
       1},
      {"repetition, positive, prompt",
       {1, 3, 2},
       [](Setting& s) { s.params.repetition_penalty = 2.0F, s.counts.prompt[1] = 1; },
       2},
      {"repetition, negative, output",
       {-3, -1, -1.5F},
       [](Setting& s) { s.params.repetition_penalty = 2.0F, s.counts.output[1] = 4; },
       2},
      {"repetition counts once",
       {1, 3, 2},
       [](Setting& s) {
         s.params.repetition_penalty = 1.4F, s.counts.prompt[1] = 3, s.counts.output[1] = 3;
       },
       1},
      {"presence, output only",
       {1, 3, 2},
       [](Setting& s) { s.params.presence_penalty = 1.5F, s.counts.prompt[1] = 1; },
       1},
      {"presence",
       {1, 3, 2},
       [](Setting& s) { s.params.presence_penalty = 1.5F, s.counts.output[1] = 9; },
       2},
      {"frequency, twice",
       {1, 3, 2},
       [](Setting& s) { s.params.frequency_penalty = 0.6F, s.counts.output[1] = 2; },
       2},
      {"frequency, once",
       {1, 3, 2},
       [](Setting& s) { s.params.frequency_penalty = 0.6F, s.counts.output[1] = 1; },
       1},
      {"forbidden",
       {1, 3, 2},
       [](Setting& s) {
         s.forbidden = {1, 2};
       },
       0},
  };
  for (const Case& c : cases) {
    Setting setting = greedy();
    c.set(setting);
    EXPECT_EQ(draw(c.logits, setting), c.expected) << c.name;
  }
}

TEST(Drawing, FollowsTheProbabilities) {
  const std::vector<float> logits = {std::log(0.5F), std::log(0.3F), std::log(0.2F)};
  auto counts = histogram(logits, Setting{});
  EXPECT_NEAR(counts[0], 10000, 300);
  EXPECT_NEAR(counts[1], 6000, 300);
  EXPECT_NEAR(counts[2], 4000, 300);

  Setting hot;
  hot.params.temperature = 2.0F;  // square roots of the probabilities
  counts = histogram(logits, hot);
  const double total = std::sqrt(0.5) + std::sqrt(0.3) + std::sqrt(0.2);
  EXPECT_NEAR(counts[2], 20000 * std::sqrt(0.2) / total, 300);
}

TEST(Drawing, KeepsWhatTheFiltersLeave) {
  const std::vector<float> logits = {std::log(0.1F), std::log(0.4F), std::log(0.3F),
                                     std::log(0.2F)};
  struct Case {
    const char* name;
    std::int32_t top_k;
    float top_p, min_p;
    std::set<TokenId> kept;
  };
  const Case cases[] = {
      {"none", 0, 1.0F, 0.0F, {0, 1, 2, 3}},
      {"top-k 1", 1, 1.0F, 0.0F, {1}},
      {"top-k 2", 2, 1.0F, 0.0F, {1, 2}},
      {"top-k above all", 9, 1.0F, 0.0F, {0, 1, 2, 3}},
      {"top-p below the best", 0, 0.3F, 0.0F, {1}},
      {"top-p 0.6", 0, 0.6F, 0.0F, {1, 2}},
      {"top-p 0.85", 0, 0.85F, 0.0F, {1, 2, 3}},
      {"min-p 0.6", 0, 1.0F, 0.6F, {1, 2}},
      {"min-p 1", 0, 1.0F, 1.0F, {1}},
      {"top-p of what top-k leaves", 3, 0.7F, 0.0F, {1, 2}},
  };
  for (const Case& c : cases) {
    Setting setting;
    setting.params.top_k = c.top_k;
    setting.params.top_p = c.top_p;
    setting.params.min_p = c.min_p;
    std::set<TokenId> seen;
    for (const auto& [id, count] : histogram(logits, setting, 3000)) seen.insert(id);
    EXPECT_EQ(seen, c.kept) << c.name;
  }
}

TEST(Drawing, OfManyTokensKeepsTopP) {
  // More candidates than are sorted at first: 4000 equal ones, of which half the mass is kept, the
  // lowest ids.
  Setting setting;
  setting.params.top_p = 0.5F;
  const std::vector<float> logits(4000, 1.0F);
  TokenId highest = 0;
  for (const auto& [id, count] : histogram(logits, setting, 5000)) highest = std::max(highest, id);
  EXPECT_LT(highest, 2000);
  EXPECT_GT(highest, 1900);
}

TEST(Drawing, TopKWithTiesTakesTheLowestIds) {
  Setting setting;
  setting.params.top_k = 2;
  std::set<TokenId> seen;
  for (const auto& [id, count] : histogram({1, 2, 2, 2}, setting, 1000)) seen.insert(id);
  EXPECT_EQ(seen, (std::set<TokenId>{1, 2}));
}

TEST(Drawing, IsAFunctionOfSeedChoiceAndPosition) {
  const std::vector<float> logits(1000, 0.0F);
  const Setting setting;
  EXPECT_EQ(draw(logits, setting, 5, 3, 1), draw(logits, setting, 5, 3, 1));
  std::set<TokenId> different;
  for (std::uint32_t i = 0; i < 10; ++i) {
    different.insert(*draw(logits, setting, 5 + i, 3, 1));
    different.insert(*draw(logits, setting, 5, 100 + i, 1));
    different.insert(*draw(logits, setting, 5, 3, 100 + i));
  }
  EXPECT_GT(different.size(), 25U);
}

TEST(Uniform, IsEvenlySpread) {
  std::vector<int> buckets(16, 0);
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    for (std::uint64_t position = 0; position < 400; ++position) {
      const double value = uniform(seed, seed % 3, position);
      ASSERT_GE(value, 0.0);
      ASSERT_LT(value, 1.0);
      ++buckets[static_cast<std::size_t>(value * 16)];
    }
  }
  for (const int bucket : buckets) EXPECT_NEAR(bucket, 1000, 150);
}

TEST(Describe, GivesLogprobsOfTheUnmodifiedDistribution) {
  const std::vector<float> logits = {1.0F, 3.0F, 2.0F};
  const double log_sum = std::log(std::exp(1.0) + std::exp(3.0) + std::exp(2.0));
  const OutputToken token = describe(logits, 2, 2);
  EXPECT_EQ(token.id, 2);
  EXPECT_NEAR(token.logprob, 2.0 - log_sum, 1e-6);
  ASSERT_EQ(token.top.size(), 2U);
  EXPECT_EQ(token.top[0].id, 1);
  EXPECT_NEAR(token.top[0].logprob, 3.0 - log_sum, 1e-6);
  EXPECT_EQ(token.top[1].id, 2);
  EXPECT_EQ(describe(logits, 0, 0).top.size(), 0U);
  EXPECT_EQ(describe(logits, 0, 20).top.size(), 3U);
}

}  // namespace
}  // namespace dovetail::engine
