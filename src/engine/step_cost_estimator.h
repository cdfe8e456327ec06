#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "schedule/step_cost.h"

namespace dovetail::engine {

// Fits the step times of this machine: the non-negative coefficients of schedule::StepCost with the
// least squared relative error.
//
// Three stages. Before the first step the cost is unknown. Then a cautious cost holds: every token,
// prefill or decode, costs what it did in the best step so far, its share of reading the weights
// included. A step of n decode rows is predicted to double with n tokens of prefill, which (the
// context aside) is their worst effect. The fit holds from
// kMinSteps steps on, kMinPrefillSteps of them with prefill. In it the cautious price
// weighs as one imagined step, because a few small chunks on a noisy machine predict a large one
// badly.
//
// Steps are kept by kind (without prefill by rows, with it by prefill tokens, in powers of two),
// the last kPerKind of each, so that hours of decoding do not replace the steps with chunks. A step
// weighs half after kHalfLife more, and less with its distance from the last fit, so that slow
// episodes of the machine have little effect. When most of the last kLast steps differ from their
// prediction by more than half, the machine has another speed: the kept steps are scaled to it.
// Deterministic. A call takes nanoseconds, every kRefit-th some 30 microseconds; nothing is
// allocated.
class StepCostEstimator {
 public:
  static constexpr std::uint32_t kMinSteps = 12;
  static constexpr std::uint32_t kMinPrefillSteps = 4;
  static constexpr std::uint32_t kPerKind = 32;
  static constexpr std::uint32_t kRefit = 8;
  static constexpr std::uint32_t kLast = 128;
  static constexpr double kHalfLife = 512;

  // Adds a step. An empty one, or a time that is no positive number, is ignored.
  void observe(const schedule::StepLoad& load, double microseconds);

  const schedule::StepCost& cost() const { return cost_; }
  // The third stage is reached.
  bool fitted() const { return fitted_; }

 private:
  static constexpr std::size_t kSizes = 16;

  struct Step {
    schedule::StepLoad load;
    double microseconds = 0;
    std::uint64_t number = 0;
  };
  struct Kind {
    std::array<Step, kPerKind> steps;
    std::uint64_t seen = 0;
  };

  static std::size_t kind_of(const schedule::StepLoad& load);
  double weight(const Step& step) const;
  void follow_speed();
  void fit();

  std::array<Kind, 2 * kSizes> kinds_;
  std::array<Step, kLast> last_;
  std::uint64_t speed_since_ = 0;  // last step before the present speed
  std::uint64_t steps_ = 0;
  std::uint64_t prefill_ = 0;  // steps with prefill
  double best_rate_ = 0;       // microseconds per token of the best step
  bool fitted_ = false;
  schedule::StepCost cost_;
};

}  // namespace dovetail::engine
