#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "schedule/step_cost.h"

namespace dovetail::engine {

// How many tokens are worth drafting by a model's own layer: as many as give the most tokens for
// the time, by how often they were right, what drafting took, and what steps are predicted to take.
// A draft token that turns out wrong costs a row; where rows are many that is dear, and none are
// drafted. Then every kProbe-th time one is, to see whether that is still right. The first kKnown
// times all are, so that there is something to choose by. Deterministic; changes no answer, since
// drafts are checked.
class DraftChoice {
 public:
  static constexpr std::uint32_t kProbe = 64;
  static constexpr std::uint32_t kKnown = 8;

  // For each of so many sequences, at most `most`.
  std::uint32_t choose(std::uint32_t sequences, std::uint32_t most, const schedule::StepCost& cost);

  // Of a row's draft tokens, the first `accepted` were right.
  void observe(std::uint32_t drafted, std::uint32_t accepted);
  // `passes` tokens for each of so many sequences took so long. A time that is no positive number
  // is ignored.
  void observe_time(std::uint32_t sequences, std::uint32_t passes, double microseconds);

  // Of a draft token behind right ones, so far.
  double right() const { return right_ / tried_; }

 private:
  // Of the last kTimes, of which a minority may be off: a thread that had to wait for its core
  // says nothing about drafting.
  static constexpr std::size_t kTimes = 16;

  struct PassTime {
    double sequences = 0, microseconds = 0;
  };

  double pass_time(std::uint32_t sequences) const;

  // Recent ones count more; at first some are made up.
  double tried_ = 4.0, right_ = 3.0;
  std::array<PassTime, kTimes> times_;
  std::size_t seen_ = 0;
  std::uint32_t since_probe_ = 0;
};

}  // namespace dovetail::engine
