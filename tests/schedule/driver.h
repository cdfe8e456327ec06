#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "schedule/history.h"

namespace dovetail::schedule {

// Plays engine and model for a scheduler, by lengths alone, and keeps the history. A sequence ends
// with its max-th new token, with the token that fills the context, or when finish_next() said so.
class Driver {
 public:
  explicit Driver(const SchedulerOptions& options);

  // max 0: until the context is full.
  Status add(SequenceId id, std::uint32_t prompt, std::uint32_t max = 0);
  void cancel(SequenceId id);
  void finish_next(SequenceId id);

  // plan() needs that none is under way, commit() that one is.
  Status plan();
  void commit();
  Status step();

  // Steps until nothing is alive, at most `limit` of them; how many it took.
  Result<std::uint32_t> run_until_idle(std::uint32_t limit);

  bool plan_under_way() const { return under_way_; }
  bool alive(SequenceId id) const { return alive_.contains(id); }
  std::vector<SequenceId> alive() const;
  const StepPlan& last_plan() const { return plan_; }
  const Row* row_of(SequenceId id) const;
  // Whom the last commit ended, in the order of its rows.
  const std::vector<SequenceId>& finished() const { return finished_; }
  // New tokens so far, also of one that has ended.
  std::uint32_t generated(SequenceId id) const { return generated_.at(id); }
  const Scheduler& scheduler() const { return scheduler_; }
  const History& history() const { return history_; }

 private:
  struct Alive {
    std::uint32_t prompt = 0;
    std::uint32_t max = 0;
    bool finish_next = false;
  };

  void record(std::variant<Added, Cancelled, Planned, Committed> what);
  bool ends(SequenceId id) const;

  Scheduler scheduler_;
  History history_;
  std::map<SequenceId, Alive> alive_;
  std::map<SequenceId, std::uint32_t> generated_;
  StepPlan plan_;
  bool under_way_ = false;
  std::vector<SequenceId> finished_;
};

}  // namespace dovetail::schedule
