#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "schedule/history.h"

namespace dovetail::schedule {

// Judges a history by what the contract in src/schedule/README.md promises to an outsider. It keeps
// its own books from the events alone and shares nothing with the scheduler but the plan's types.
class LawChecker {
 public:
  explicit LawChecker(const SchedulerOptions& options);

  // Takes the next event. What follows the first violation is not judged: the books are off then.
  void see(const Event& event);

  const std::vector<std::string>& violations() const { return violations_; }
  bool all_ended() const { return alive_.empty(); }

 private:
  using Arrival = std::uint64_t;

  struct Sequence {
    SequenceId id = 0;
    std::uint32_t known = 0;     // prompt and generated tokens
    std::uint32_t computed = 0;  // positions [0, computed) are in the cache
    bool running = false;
    bool decoding = false;  // it sampled since it was let in
    std::uint32_t slot = 0;
    std::uint32_t held = 0;           // blocks
    std::vector<kv::BlockId> blocks;  // those that a plan has shown
  };

  template <class... Args>
  void violate(fmt::format_string<Args...> format, Args&&... args) {
    violations_.push_back(
        fmt::format("event {}: {}", seen_, fmt::format(format, std::forward<Args>(args)...)));
  }

  void judge(const Added& added);
  void judge(const Cancelled& cancelled);
  void judge(const Planned& planned);
  void judge(const Committed& committed);

  void judge_preemptions(const StepPlan& plan);
  void judge_decodes(const StepPlan& plan, std::uint32_t victims);
  void judge_admissions(const StepPlan& plan);
  void judge_prefills(const StepPlan& plan);
  void judge_row(const StepPlan& plan, const Row& row);
  void judge_totals(const StepPlan& plan);
  void judge_freed(const Event& event);

  Sequence* find(SequenceId id);
  void release(Sequence& sequence);
  std::uint32_t blocks_for(std::uint32_t tokens) const;
  std::uint32_t running() const;

  SchedulerOptions options_;
  std::vector<std::string> violations_;
  std::size_t seen_ = 0;

  Arrival next_arrival_ = 0;
  std::map<SequenceId, Arrival> arrivals_;
  std::map<Arrival, Sequence> alive_;
  std::map<kv::BlockId, SequenceId> owners_;
  std::set<std::uint32_t> slots_;
  std::uint32_t free_ = 0;

  // Of the event at hand.
  std::set<kv::BlockId> must_be_freed_;
  std::uint32_t freed_count_ = 0;
  std::uint32_t kept_but_for_oldest_victim_ = 0;
  bool oldest_victim_needed_a_block_ = false;

  StepPlan plan_;
};

// The violations of a whole history; that something is still alive at its end is one.
std::vector<std::string> violations(const History& history);

}  // namespace dovetail::schedule
