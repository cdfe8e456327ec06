#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "schedule/step_cost.h"

namespace dovetail::engine {

// Learns how long this machine's steps take from those that it has made: the non-negative
// coefficients of schedule::StepCost with the least squared relative error.
//
// Three stages. Before the first step nothing is known. From then on a cautious cost holds: every
// token, prefill or decode, costs as much as it did in the best step so far, its share of the
// reading of the weights included; so a step of n decode rows is predicted to double with n tokens
// of prefill, which (the context aside) is the worst that they can do. The fit holds from
// kFewestSteps steps on, kFewestPrefill of them with prefill. In it the cautious price
// weighs as one imagined step, because a few small chunks on a noisy machine say little about a
// large one.
//
// Steps are remembered by kind (without prefill by rows, with it by prefill tokens, in powers of
// two), the last kPerKind of each, so that hours of mere decoding do not drive out what chunks
// cost. A step counts half after kHalfLife more, and less the further it lies from the last fit, so
// that episodes in which the machine is slow move little. When most of the last kLast steps took
// another time than predicted, by more than half, the machine has another speed: what is remembered
// is taken as if it had been made at that speed. Deterministic.
// A call takes nanoseconds, every kRefit-th some 30 microseconds; nothing is allocated.
class StepCostEstimator {
 public:
  static constexpr std::uint32_t kFewestSteps = 12;
  static constexpr std::uint32_t kFewestPrefill = 4;
  static constexpr std::uint32_t kPerKind = 32;
  static constexpr std::uint32_t kRefit = 8;
  static constexpr std::uint32_t kLast = 128;
  static constexpr double kHalfLife = 512;

  // A step was made. An empty one, or a time that is no positive number, is ignored.
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
  std::uint64_t speed_since_ = 0;  // step after which the machine has had its present speed
  std::uint64_t steps_ = 0;
  std::uint64_t prefill_ = 0;  // of them, those with prefill
  double best_rate_ = 0;       // microseconds per token of the best step
  bool fitted_ = false;
  schedule::StepCost cost_;
};

}  // namespace dovetail::engine
