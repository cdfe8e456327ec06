#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "laws/checker/law_checker.h"
#include "schedule/driver.h"

namespace dovetail::schedule {

// `slots` sequences of full length have room: what a case is about is slots and budget.
SchedulerOptions roomy(std::uint32_t slots, std::uint32_t budget, std::uint32_t threshold,
                       std::uint32_t context);
SequenceSpec request(SequenceId id, std::uint32_t prompt, std::uint32_t max);

// When things happened to a sequence: steps count from 0, times are of the virtual clock.
struct Course {
  std::uint32_t prompt = 0;
  std::uint64_t arrived = 0;
  std::optional<std::uint64_t> admitted, first_token, finished;
  double arrived_at = 0, first_token_at = 0, finished_at = 0;
  std::optional<std::uint64_t> last_row;
  std::uint64_t longest_gap = 0;  // steps from one sampled row to the next
  std::uint32_t admissions = 0, preemptions = 0;
  std::uint32_t cached = 0;  // of its first admission

  double latency() const { return finished_at - arrived_at; }
};

// A driver on a virtual clock that looks at every step: budget and rows are kept, no sequence has
// two rows, rows are in order of arrival, a prompt is sampled with its last chunk alone, positions
// are computed in order, and every position that a row reads was written by that sequence (or,
// shared, with the same token at the same position). The law checker judges the events. Faults are
// failures of the test; a broken law ends it, by an exception, as nothing that follows means
// anything.
class Play {
 public:
  enum class Look : std::uint8_t { kEverything, kNotAtTheCache };

  // `cost`: what the scheduler is told of steps.
  explicit Play(const SchedulerOptions& options, Look look = Look::kEverything,
                const StepCost& cost = {});

  Status add(const SequenceSpec& spec);
  Status add(SequenceId id, std::uint32_t prompt, std::uint32_t max) {
    return add(request(id, prompt, max));
  }
  void cancel(SequenceId id);
  void plan();
  void plan_ahead();
  void commit();
  void step() {
    plan();
    commit();
  }
  // Until nothing is alive; a failure after `limit` steps.
  void run(std::uint64_t limit);

  // The clock: microseconds of the step itself, of a prefill token, of a decode row's token.
  double step_us = 100, prefill_us = 1, decode_us = 10;

  Driver& driver() { return driver_; }
  const Scheduler& scheduler() const { return driver_.scheduler(); }
  const StepPlan& last() const { return driver_.last_plan(); }
  const Course& course(SequenceId id) const { return courses_.at(id); }
  const std::map<SequenceId, Course>& courses() const { return courses_; }
  std::uint64_t steps() const { return steps_; }
  double now() const { return now_; }
  std::uint64_t prefill_tokens() const { return prefill_tokens_; }
  std::uint64_t decode_tokens() const { return decode_tokens_; }
  const std::vector<SequenceId>& finished() const { return finished_; }  // in order

  // Every block is back and nothing is alive.
  void expect_all_returned() const;

 private:
  struct Sequence {
    std::uint32_t prompt = 0;
    std::vector<std::int32_t> tokens;  // of the prompt, where the cache knows them
    std::uint64_t arrival = 0;
    std::uint32_t next = 0;    // position
    std::uint32_t target = 0;  // of its prefill
    bool running = false;
  };
  struct Cell {
    std::int64_t token = -1;
    std::uint32_t position = 0;
    bool operator==(const Cell&) const = default;
  };

  void plan_any(bool ahead);
  void see(const StepPlan& plan);
  void see_row(const StepPlan& plan, const Row& row, bool prefill);
  void see_cache(const Row& row);
  Cell cell_of(SequenceId id, std::uint32_t position) const;
  void judge();

  Look look_;
  Driver driver_;
  laws::LawChecker laws_;
  std::uint64_t judged_ = 0;
  std::map<SequenceId, Sequence> sequences_;
  std::map<SequenceId, Course> courses_;
  std::vector<Cell> cells_;
  std::vector<std::vector<std::pair<SequenceId, std::uint32_t>>> drafted_;  // in flight
  std::vector<double> step_times_;                                          // of plans in flight
  std::vector<std::vector<SequenceId>> sampled_;                            // likewise
  std::vector<SequenceId> finished_;
  std::uint64_t arrivals_ = 0, steps_ = 0;
  std::uint64_t prefill_tokens_ = 0, decode_tokens_ = 0;
  double now_ = 0;
};

}  // namespace dovetail::schedule
