#include "model/cpu/experts.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace dovetail::model {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<Choice> choose(std::vector<float> logits, std::size_t used, bool normalized) {
  std::vector<Choice> choices(used);
  choose_experts(logits, {.normalized = normalized}, choices);
  return choices;
}

TEST(ChooseExperts, TakesTheLargest) {
  struct Case {
    std::vector<float> logits;
    std::vector<std::uint32_t> wanted;  // in the order of their numbers
  };
  for (const Case& one : {
           Case{{3}, {0}},
           Case{{1, 2, 3, 4}, {3}},
           Case{{4, 3, 2, 1}, {0, 1}},
           Case{{1, 4, 2, 3}, {1, 3}},
           Case{{1, 4, 2, 3}, {1, 2, 3}},
           Case{{1, 4, 2, 3}, {0, 1, 2, 3}},
           Case{{-1, -4, -2, -3}, {0, 2}},
           Case{{5, 5, 5, 5}, {0, 1}},  // the lower number among equals
           Case{{1, 5, 7, 5, 5}, {1, 2}},
           Case{{0, -kInfinity, 0, -kInfinity}, {0, 2}},
           Case{{0, -kInfinity, 0, kInfinity}, {0, 3}},
       }) {
    for (const bool normalized : {false, true}) {
      std::vector<std::uint32_t> got;
      for (const Choice& choice : choose(one.logits, one.wanted.size(), normalized))
        got.push_back(choice.expert);
      EXPECT_EQ(got, one.wanted) << testing::PrintToString(one.logits);
    }
  }
}

// An expert's weight is multiplied by its own number, however it came about.
TEST(ChooseExperts, ScalesEachByItsNumber) {
  const std::vector<float> logits = {0.5F, -2.0F, 3.25F, 1.0F};
  const std::vector<float> scales = {3.0F, 5.0F, -0.5F, 0.25F};
  for (const load::ExpertGate gate : {load::ExpertGate::kSoftmax, load::ExpertGate::kSigmoid}) {
    std::vector<Choice> plain(2), scaled(2);
    choose_experts(logits, {.gate = gate, .normalized = true}, plain);
    choose_experts(logits, {.gate = gate, .normalized = true, .scales = scales}, scaled);
    for (std::size_t i = 0; i < plain.size(); ++i) {
      EXPECT_EQ(scaled[i].expert, plain[i].expert);
      EXPECT_EQ(scaled[i].weight, plain[i].weight * scales[plain[i].expert]);
    }
  }
}

TEST(ChooseExperts, WeighsByTheSoftmax) {
  const std::vector<float> logits = {0.5F, -2.0F, 3.25F, 1.0F, 2.0F, -90.0F};
  double all = 0;
  for (const float logit : logits) all += std::exp(double{logit});
  const double chosen = std::exp(3.25) + std::exp(2.0) + std::exp(1.0);
  for (const bool normalized : {false, true}) {
    for (const Choice& choice : choose(logits, 3, normalized)) {
      const double share = std::exp(double{logits[choice.expert]}) / (normalized ? chosen : all);
      EXPECT_NEAR(choice.weight, share, 1e-6);
    }
  }
  // Without an overflow on the way.
  for (const Choice& choice : choose({3e38F, 3e38F, -3e38F}, 2, false))
    EXPECT_EQ(choice.weight, 0.5F);
}

TEST(ChooseExperts, WeighsBySigmoids) {
  const std::vector<float> logits = {0.5F, -2.0F, 3.25F, 1.0F, 2.0F, -90.0F};
  const std::vector<float> bias = {0.0F, 0.9F, 0.0F, 0.0F, -1.0F, 0.0F};
  const auto sigmoid = [&](std::uint32_t expert) {
    return 1.0 / (1.0 + std::exp(-double{logits[expert]}));
  };
  for (const bool biased : {false, true}) {
    // What is added to the second lifts it above all, and the fifth falls behind.
    const std::vector<std::uint32_t> wanted =
        biased ? std::vector<std::uint32_t>{1, 2, 3} : std::vector<std::uint32_t>{2, 3, 4};
    double sum = 0;
    for (const std::uint32_t expert : wanted) sum += sigmoid(expert);
    for (const bool normalized : {false, true}) {
      std::vector<Choice> choices(3);
      choose_experts(logits,
                     {load::ExpertGate::kSigmoid, normalized,
                      biased ? std::span(bias) : std::span<const float>()},
                     choices);
      for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(choices[i].expert, wanted[i]);
        EXPECT_NEAR(choices[i].weight, sigmoid(wanted[i]) / (normalized ? sum : 1.0), 1e-6);
      }
    }
  }
  // Nothing is divided by nothing.
  std::vector<Choice> choices(2);
  Gating gating = {load::ExpertGate::kSigmoid, true};
  gating.least_sum = 1e-6F;
  choose_experts(std::vector<float>{-300, -300, -300}, gating, choices);
  for (const Choice& choice : choices) EXPECT_EQ(choice.weight, 0.0F);
}

TEST(ChooseExperts, ChoosesByBiasedSharesOfTheSoftmax) {
  // Biases are for shares: the second's lifts it above the third, whose logit is larger, and one of
  // logits would have to be larger than 1 for that. Weights are shares without them.
  const std::vector<float> logits = {0.5F, 1.0F, 2.0F, 3.0F};
  const std::vector<float> bias = {0.0F, 0.25F, 0.0F, -0.5F};
  double all = 0;
  for (const float logit : logits) all += std::exp(double{logit});
  for (const bool normalized : {false, true}) {
    Gating gating;
    gating.normalized = normalized;
    gating.bias = bias;
    std::vector<Choice> choices(2);
    choose_experts(logits, gating, choices);
    const double sum = normalized ? std::exp(1.0) + std::exp(2.0) : all;
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(choices[i].expert, i + 1);
      EXPECT_NEAR(choices[i].weight, std::exp(double{logits[i + 1]}) / sum, 1e-6);
    }
    choices.resize(1);
    choose_experts(logits, gating, choices);
    EXPECT_EQ(choices[0].expert, 1U);
  }
}

TEST(ChooseExperts, ChoosesGroupsFirst) {
  // Groups of three: the first has the largest, the last the largest two, the third the rest.
  const std::vector<float> logits = {4, -9, -8, 0, 1, -7, 2, 2.5F, -6, 3, 3.5F, -5};
  struct Row {
    std::uint32_t used;
    bool by_two;
    std::vector<std::uint32_t> wanted;
  };
  const Row rows[] = {{1, false, {0, 1, 2}},
                      {1, true, {9, 10, 11}},
                      {2, false, {0, 9, 10}},
                      {2, true, {7, 9, 10}},
                      {4, false, {0, 9, 10}}};
  for (const Row& row : rows) {
    Gating gating;
    gating.scale = 2.5F;
    gating.normalized = true;
    gating.groups = 4;
    gating.groups_used = row.used;
    gating.groups_by_two = row.by_two;
    std::vector<Choice> choices(3);
    choose_experts(logits, gating, choices);
    float sum = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(choices[i].expert, row.wanted[i]) << row.used << row.by_two;
      sum += choices[i].weight;
    }
    EXPECT_NEAR(sum, 2.5F, 1e-6);
  }
  // Equal groups, and numbers that are none: the lower ones, and none twice.
  for (const float value : {1.0F, kNan}) {
    Gating gating;
    gating.groups = 4;
    gating.groups_used = 2;
    std::vector<Choice> choices(5);
    choose_experts(std::vector<float>(12, value), gating, choices);
    for (std::uint32_t i = 0; i < 5; ++i) EXPECT_EQ(choices[i].expert, i);
  }
}

// Weights of a broken file may give anything: still every choice is an expert, and none is twice.
TEST(ChooseExperts, TakesAnything) {
  for (const std::vector<float>& logits :
       {std::vector<float>{kNan, kNan, kNan, kNan}, std::vector<float>{kNan, 1, 2, 3},
        std::vector<float>{1, 2, kNan, 3}, std::vector<float>{kInfinity, kInfinity, 0, kNan}}) {
    for (std::size_t used = 1; used <= logits.size(); ++used) {
      const std::vector<Choice> choices = choose(logits, used, used % 2 == 0);
      for (std::size_t i = 0; i < used; ++i) {
        EXPECT_LT(choices[i].expert, logits.size());
        if (i > 0) {
          EXPECT_LT(choices[i - 1].expert, choices[i].expert);
        }
      }
    }
  }
}

}  // namespace
}  // namespace dovetail::model
