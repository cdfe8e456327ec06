#pragma once

#include <cstdint>
#include <optional>

#include "cores/executor_combiner.h"

namespace dovetail::cores {

// What the threads of an executor do: they take blocks for their lanes without the lock, execute
// them, report what has ended, and become the combiner where that is due.
class LaneThreads : public Combiner {
 public:
  using Combiner::Combiner;

  void serve(Thread& self, const Until* until);
  bool is_due(const Until* until, int spins) const;
  enum class Did { kNothing, kTaken, kAssigned };
  Did step(Thread& self, Lane& lane);
  std::optional<ReadyRing::Claim> take(const Lane& lane);
  void run_taken(Thread& self, Lane& lane, const ReadyRing::Claim& claim);
  void call(Thread& self, Lane& lane, const Part& part, Ticks arrived = 0);
  void run_assigned(Thread& self, Lane& lane);
  std::optional<ReadyRing::Claim> end_blocks(Thread& self, Lane& lane, TaskNumber task,
                                             std::uint32_t blocks);
  std::optional<ReadyRing::Claim> go_on(Thread& self, Lane& lane, TaskNumber task);
  bool runs_on(const Lane& lane, TaskNumber task) const;
  static bool fits(const Lane& lane, const TaskSpec& spec);
  void report(Thread& self, std::uint64_t what);
  static Kinds takers(const Thread& self);
  void start_searching(Thread& self);
  static void sleep(Thread& self, std::uint32_t seen);
  bool help_schedule(Thread& self, const Until* until, bool gives_up);
};

}  // namespace dovetail::cores
