#pragma once

#include <span>
#include <vector>

#include "cores/executor_combiner.h"
#include "cores/stall.h"

namespace dovetail::cores {

// Reads off an executor why nothing goes on. Changes nothing. Every function requires the lock.
class StallProbe {
 public:
  // What the watchdog saw of a lane: Lane::runs, and since when.
  struct Watched {
    std::uint64_t runs = 0;
    Ticks since = 0;
  };

  explicit StallProbe(const Combiner& run) : run_(run) {}

  bool nothing_left() const;
  // Whether the caller has submitted something and does not wait for it.
  bool submitter_is_late() const;
  // As much as it takes to tell which kind of stall it is, and to say what to look at.
  StallFacts facts(Ticks time, Ticks last_change, std::span<const Watched> lanes) const;

 private:
  void see_running(Ticks time, std::span<const Watched> lanes, StallFacts& known) const;
  void see_ready(StallFacts& known) const;
  void see_waiting(StallFacts& known) const;
  std::size_t add_waiting_for_lanes(std::vector<TaskNumber>& tasks) const;

  const Combiner& run_;
};

}  // namespace dovetail::cores
