#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "schedule/scheduler.h"

namespace dovetail::schedule {

// Plays engine and model for a scheduler, by lengths alone. A sequence ends with its max-th new
// token, with the token that fills the context, or when finish_next() said so.
class Driver {
 public:
  explicit Driver(const SchedulerOptions& options, std::size_t log_capacity = 4096);

  Status add(const SequenceSpec& spec);
  void cancel(SequenceId id);
  void finish_next(SequenceId id);
  // From the next commit on the sequence has `count` draft tokens for each step, of which the first
  // `right` turn out right.
  void drafts(SequenceId id, std::uint32_t count, std::uint32_t right);
  void withhold(std::uint32_t blocks) { scheduler_.withhold_blocks(blocks); }

  Status plan();        // needs that none is in flight
  Status plan_ahead();  // needs that one is
  void commit();        // the oldest plan in flight
  Status step();

  // Steps until nothing is alive, at most `limit` of them; how many it took.
  Result<std::uint32_t> run_until_idle(std::uint32_t limit);

  std::size_t plans_under_way() const { return under_way_.size(); }
  bool alive(SequenceId id) const { return alive_.contains(id); }
  const StepPlan& last_plan() const { return last_; }
  const Row* row_of(SequenceId id) const;
  // Sequences that the last commit ended, in the order of its rows.
  const std::vector<SequenceId>& finished() const { return finished_; }
  std::uint32_t generated(SequenceId id) const { return generated_.at(id); }
  // The k-th new token of a sequence.
  static std::int32_t token(SequenceId id, std::uint32_t k) {
    return static_cast<std::int32_t>(id * 100000 + k);
  }
  Scheduler& scheduler() { return scheduler_; }
  const Scheduler& scheduler() const { return scheduler_; }
  const observe::EventLog& log() const { return log_; }

 private:
  struct Alive {
    std::uint32_t left = 0;
    bool finish_next = false;
    std::uint32_t drafts = 0;
    std::uint32_t right = 0;
  };
  Status plan_any();

  observe::EventLog log_;
  Scheduler scheduler_;
  std::map<SequenceId, Alive> alive_;
  std::map<SequenceId, std::uint32_t> generated_;
  StepPlan last_;
  std::deque<StepPlan> under_way_;
  std::vector<SequenceId> finished_;
};

}  // namespace dovetail::schedule
