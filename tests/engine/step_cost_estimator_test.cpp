#include "engine/step_cost_estimator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

namespace dovetail::engine {
namespace {

using schedule::context_read;
using schedule::StepCost;
using schedule::StepLoad;

constexpr StepCost kLinear{4000, 90, 300, 0.02, 0};
constexpr StepCost kStreaming{9000, 60, 5, 0.01, 32};  // of weights: the first 32 tokens are free

StepLoad decodes(std::uint32_t rows, std::uint32_t context) {
  return {0, rows, static_cast<double>(rows) * context};
}

StepLoad chunk(std::uint32_t tokens, std::uint32_t first, StepLoad beside = {}) {
  beside.prefill_tokens += tokens;
  beside.context_tokens += context_read(first, tokens);
  return beside;
}

// An engine's steps: requests come in, are read in chunks and decode for a while.
class Workload {
 public:
  explicit Workload(unsigned seed) : random_(seed) {}

  StepLoad next() {
    if (unread_ == 0 && rows_ < 64 && draw(0, 19) == 0) unread_ = draw(5, 1500);
    if (draw(0, 399) < rows_) --rows_;
    context_ = std::clamp<std::uint32_t>(context_ + draw(0, 10) - 5, 20, 3000);
    StepLoad load = decodes(rows_, context_);
    if (unread_ > 0) {
      const std::uint32_t tokens = std::min(unread_, draw(1, 256));
      load = chunk(tokens, read_, load);
      read_ += tokens;
      unread_ -= tokens;
      if (unread_ == 0) {
        read_ = 0;
        ++rows_;
      }
    }
    return load;
  }

  double noise(double deviation) {
    return std::exp(std::normal_distribution<double>(0, deviation)(random_));
  }
  std::uint32_t draw(std::uint32_t least, std::uint32_t most) {
    return std::uniform_int_distribution<std::uint32_t>(least, most)(random_);
  }

 private:
  std::mt19937 random_;
  std::uint32_t rows_ = 0, unread_ = 0, read_ = 0, context_ = 200;
};

// The largest relative error over loads as an engine meets them.
double worst_error(const StepCost& learned, const StepCost& truth) {
  double worst = 0;
  for (const StepLoad& load :
       {decodes(1, 100), decodes(8, 300), decodes(16, 500), chunk(16, 0, decodes(8, 300)),
        chunk(64, 1000, decodes(8, 300)), chunk(256, 0), chunk(256, 1200),
        chunk(200, 700, decodes(16, 500))}) {
    worst = std::max(worst, std::abs(learned.predict(load) / truth.predict(load) - 1));
  }
  return worst;
}

void make_steps(StepCostEstimator& estimator, Workload& workload, int steps,
                const std::function<double(const StepLoad&)>& microseconds) {
  for (int i = 0; i < steps; ++i) {
    const StepLoad load = workload.next();
    estimator.observe(load, microseconds(load));
  }
}

TEST(StepCostEstimator, LearnsALinearMachine) {
  StepCostEstimator estimator;
  Workload workload(1);
  make_steps(estimator, workload, 3000, [](const StepLoad& load) { return kLinear.predict(load); });
  EXPECT_LT(worst_error(estimator.cost(), kLinear), 0.03);
  EXPECT_EQ(estimator.cost().free_tokens, 0U);
}

TEST(StepCostEstimator, LearnsWhatIsFree) {
  for (unsigned seed = 1; seed <= 5; ++seed) {
    StepCostEstimator estimator;
    Workload workload(seed);
    make_steps(estimator, workload, 3000, [&](const StepLoad& load) {
      return kStreaming.predict(load) * workload.noise(0.05);
    });
    EXPECT_GE(estimator.cost().free_tokens, 16U) << seed;
    EXPECT_LE(estimator.cost().free_tokens, 32U) << seed;
    EXPECT_LT(worst_error(estimator.cost(), kStreaming), 0.2) << seed;
  }
}

TEST(StepCostEstimator, ANoisyMachineChangesLittle) {
  for (unsigned seed = 1; seed <= 5; ++seed) {
    StepCostEstimator estimator;
    Workload workload(seed);
    int slow = 0;
    double worst = 0;
    for (int i = 0; i < 60; ++i) {
      make_steps(estimator, workload, 50, [&](const StepLoad& load) {
        // A tenth of the time the machine is three times slower, ten steps on end.
        if (slow > 0) --slow;
        if (slow == 0 && workload.draw(0, 99) == 0) slow = 10;
        return kLinear.predict(load) * workload.noise(0.1) * (slow > 0 ? 3.0 : 1.0);
      });
      if (i >= 20) worst = std::max(worst, worst_error(estimator.cost(), kLinear));
    }
    EXPECT_LT(worst, 0.35) << seed;
    EXPECT_LT(worst_error(estimator.cost(), kLinear), 0.2) << seed;
  }
}

TEST(StepCostEstimator, FollowsALastingChangeOfSpeed) {
  for (const double factor : {0.4, 2.5}) {
    StepCostEstimator estimator;
    Workload workload(3);
    make_steps(estimator, workload, 2000,
               [&](const StepLoad& load) { return kLinear.predict(load) * workload.noise(0.05); });
    const StepCost after{kLinear.step * factor, kLinear.prefill_token * factor,
                         kLinear.decode_row * factor, kLinear.context_token * factor, 0};
    make_steps(estimator, workload, 2000,
               [&](const StepLoad& load) { return after.predict(load) * workload.noise(0.05); });
    EXPECT_LT(worst_error(estimator.cost(), after), 0.15) << factor;
  }
}

TEST(StepCostEstimator, HoursOfDecodingDoNotDriveOutWhatChunksCost) {
  StepCostEstimator estimator;
  Workload workload(4);
  make_steps(estimator, workload, 1000,
             [&](const StepLoad& load) { return kLinear.predict(load) * workload.noise(0.05); });
  for (int i = 0; i < 50000; ++i) {
    const StepLoad load = decodes(8, 200 + static_cast<std::uint32_t>(i) % 800);
    estimator.observe(load, kLinear.predict(load) * workload.noise(0.05));
  }
  EXPECT_LT(worst_error(estimator.cost(), kLinear), 0.15);
}

TEST(StepCostEstimator, IsCautiousBeforeItKnows) {
  StepCostEstimator estimator;
  EXPECT_FALSE(estimator.cost().known());
  estimator.observe(chunk(40, 0), kLinear.predict(chunk(40, 0)));
  EXPECT_TRUE(estimator.cost().known());
  const StepLoad eight = decodes(8, 100);
  // As much prefill as there are decode rows is the most that can at worst double a step.
  const double step = estimator.cost().predict(eight);
  EXPECT_EQ(estimator.cost().affordable_chunk(eight, 0, 512, 2.0 * step), 8U);
  for (std::uint32_t i = 0; i < StepCostEstimator::kMinSteps - StepCostEstimator::kMinPrefillSteps;
       ++i)
    estimator.observe(eight, kLinear.predict(eight));
  EXPECT_FALSE(estimator.fitted());
  for (std::uint32_t i = 1; i < StepCostEstimator::kMinPrefillSteps; ++i) {
    const StepLoad mixed = chunk(8, 8 * i, eight);
    EXPECT_FALSE(estimator.fitted());
    estimator.observe(mixed, kLinear.predict(mixed));
  }
  EXPECT_TRUE(estimator.fitted());
}

// The loop as it is closed: the estimate bounds the chunks whose times it learns from. Eight
// sequences decode when a long prompt comes in; the machine is noisy from the start.
TEST(StepCostEstimator, BoundsTheFirstLongPrompt) {
  constexpr double kSlowdown = 2.0;
  for (const StepCost& truth : {kLinear, kStreaming, StepCost{200, 150, 160, 0.05, 0}}) {
    for (unsigned seed = 1; seed <= 20; ++seed) {
      StepCostEstimator estimator;
      Workload workload(seed);
      const auto make = [&](const StepLoad& load) {
        estimator.observe(load, truth.predict(load) * workload.noise(0.1));
      };
      make(chunk(8 * 12, 0));
      for (std::uint32_t i = 0; i < 50; ++i) make(decodes(8, 12 + i));
      std::uint32_t read = 0, steps = 0;
      for (; read < 4096; ++steps) {
        const StepLoad beside = decodes(8, 62 + steps);
        const StepCost& cost = estimator.cost();
        const std::uint32_t tokens =
            std::max(8U, cost.affordable_chunk(beside, read, std::min(4096 - read, 504U),
                                               kSlowdown * cost.predict(beside)));
        const StepLoad load = chunk(tokens, read, beside);
        EXPECT_LT(truth.predict(load), 1.4 * kSlowdown * truth.predict(beside))
            << "seed " << seed << ", step " << steps << ", " << tokens << " tokens";
        make(load);
        read += tokens;
      }
      // In the end it dares what is allowed.
      const StepLoad beside = decodes(8, 62 + steps);
      const std::uint32_t ideal =
          truth.affordable_chunk(beside, 2048, 4096, kSlowdown * truth.predict(beside));
      const std::uint32_t found = estimator.cost().affordable_chunk(
          beside, 2048, 4096, kSlowdown * estimator.cost().predict(beside));
      EXPECT_GT(found, ideal / 2) << "seed " << seed << " of " << ideal;
    }
  }
}

// Prompts never cease, so no step shows what the decode rows alone take.
TEST(StepCostEstimator, BoundsStepsUnderALoadWithoutEnd) {
  constexpr double kSlowdown = 2.0;
  for (const StepCost& truth : {kLinear, kStreaming, StepCost{200, 150, 160, 0.05, 0}}) {
    for (unsigned seed = 1; seed <= 20; ++seed) {
      StepCostEstimator estimator;
      Workload workload(seed);
      const auto make = [&](const StepLoad& load) {
        estimator.observe(load, truth.predict(load) * workload.noise(0.1));
      };
      for (int i = 0; i < 3; ++i) make(chunk(workload.draw(100, 512), 0));
      std::uint32_t rows = 20;
      double all = 0;
      double ideals = 0;
      double worst = 0;
      for (int step = 0; step < 2000; ++step) {
        rows = std::clamp(rows + workload.draw(0, 4) - 2, 8U, 64U);
        const StepLoad beside = decodes(rows, workload.draw(80, 120));
        const auto most = [&](const StepCost& cost) {
          return cost.affordable_chunk(beside, 0, 448, kSlowdown * cost.predict(beside));
        };
        const std::uint32_t tokens =
            std::max(16U, std::min(most(estimator.cost()), workload.draw(1, 448)));
        const StepLoad load = chunk(tokens, 0, beside);
        worst = std::max(worst, truth.predict(load) / truth.predict(beside));
        all += most(estimator.cost());
        ideals += most(truth);
        make(load);
      }
      EXPECT_LT(worst, 2 * kSlowdown) << seed;
      EXPECT_GT(all, 0.75 * ideals) << seed;
    }
  }
}

TEST(StepCostEstimator, IsNeverNegativeOrInfinite) {
  StepCostEstimator estimator;
  Workload workload(9);
  for (int i = 0; i < 5000; ++i) {
    // Times that have nothing to do with the load, over many orders of magnitude.
    const StepLoad load =
        chunk(workload.draw(0, 2) == 0 ? 0 : workload.draw(1, 5000), workload.draw(0, 100000),
              decodes(workload.draw(0, 4000), workload.draw(0, 100000)));
    estimator.observe(load, workload.noise(7));
    const StepCost& cost = estimator.cost();
    for (const double term : {cost.step, cost.prefill_token, cost.decode_row, cost.context_token}) {
      ASSERT_TRUE(std::isfinite(term));
      ASSERT_GE(term, 0.0);
    }
  }
  EXPECT_TRUE(estimator.cost().known());
}

TEST(StepCostEstimator, IgnoresWhatIsNoMeasurement) {
  StepCostEstimator estimator;
  estimator.observe({}, 10);
  for (const double time : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(),
                            std::numeric_limits<double>::infinity()})
    estimator.observe(decodes(3, 3), time);
  EXPECT_FALSE(estimator.cost().known());
}

}  // namespace
}  // namespace dovetail::engine
