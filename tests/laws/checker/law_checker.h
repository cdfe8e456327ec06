#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "observe/event_log.h"
#include "schedule/scheduler.h"

namespace dovetail::laws {

// Judges a run of a scheduler by its events alone. It knows the options and what the contract in
// src/schedule/README.md promises, and keeps its own books; it has never seen the scheduler. A
// violation names the law:
//
//   law 1  live frontier   what is ready now is considered now: no step stays empty, no slot and
//                          budget stay unused while the oldest that waits could be admitted
//   law 2  whole resource  a sequence runs with a slot and all its blocks; a block has one writer,
//                          and what is free, cached and owned is always all there is
//   law 3  in flight first every decoding sequence has its row, but for turns within the prefill
//                          floor; both gaps, of decodes and of prefill, are bounded
//   law 4  oldest first    order of admission, the last of the order is preempted, nothing is lost,
//          nothing lost    no sequence starves
//   law 5  same answer     every position is computed once per admission, in order, up to all
//                          tokens that are known; nothing unknown is read
//
// The executor of the plans judges the bits of law 5 (FakeModel, and the exactness tests with real
// models).
class LawChecker {
 public:
  // `timed`: the scheduler was told what steps cost, so that unused budget proves nothing.
  LawChecker(const schedule::SchedulerOptions& options, bool timed);

  // Takes the next event. What follows the first violation is not judged: the books are off then.
  void see(const observe::Event& event);

  // No more events come, and everything should have ended.
  void finish();

  const std::vector<std::string>& violations() const { return violations_; }

 private:
  using Id = std::uint64_t;
  using Key = std::pair<std::int64_t, std::uint64_t>;
  enum class State : std::uint8_t { kWaiting, kRunning, kLeaving };

  static constexpr std::uint32_t kNone = kv::kNoBlock;

  struct Saving {
    std::uint32_t state = 0, positions = 0;
  };

  struct InFlightRow {
    std::uint64_t step = 0;
    std::uint32_t first = 0, tokens = 0, drafts = 0;
    std::uint16_t flags = 0;
  };

  struct Sequence {
    Id id = 0;
    State state = State::kWaiting;
    Key key;
    std::uint32_t prompt = 0, num_tokens = 0, final_length = 0;
    std::uint32_t tenant = 0, batch_class = 0;
    std::int32_t priority = 0;
    bool preempted = false;
    bool computes_all = false;
    std::uint32_t computed_once = 0;  // positions
    std::uint32_t slot = 0;
    std::uint32_t prefill_end = 0;  // its prefill ends there
    std::uint32_t num_computed_tokens =
        0;                      // positions that are computed when all plans in flight are
    std::uint32_t pending = 0;  // tokens that those are sure to bring
    std::uint32_t cached_blocks = 0;
    // [block][group]; kNone: behind a window.
    std::vector<std::uint32_t> blocks;
    std::optional<std::uint32_t> loaded;  // state, until the commit of the next row
    bool needs_state = false;             // its own has taken wrong draft tokens
    std::deque<Saving> saving;            // by rows in flight
    std::deque<Saving> drafting;          // before draft tokens
    std::deque<InFlightRow> in_flight;
    std::uint64_t row_in_plan = 0;        // the last plan, counted from 1, with a row of it
    std::uint64_t preempted_in_plan = 0;  // the last plan, counted from 1, that preempted it
    std::uint64_t last_row = 0;           // the step of it, or of the admission
    std::uint32_t turns_missed = 0;
  };

  struct Block {
    std::uint32_t owners = 0;
    bool indexed = false;
    std::uint64_t let_go = 0;  // when the last owner went
  };

  struct Tenant {
    std::uint64_t served = 0;
    std::uint32_t alive = 0;
  };

  template <class... Args>
  void violate(fmt::format_string<Args...> format, Args&&... args) {
    violations_.push_back(
        fmt::format("event {}: {}", seen_, fmt::format(format, std::forward<Args>(args)...)));
  }

  void arrive(const observe::Event& event);
  void prioritise(const observe::Event& event);
  void admit(const observe::Event& event);
  void preempt(const observe::Event& event);
  void end(const observe::Event& event, bool cancelled);
  void take(const observe::Event& event);
  void share(const observe::Event& event);
  void release(const observe::Event& event);
  void index(const observe::Event& event);
  void drop(const observe::Event& event);
  void load_state(const observe::Event& event);
  void save_state(const observe::Event& event);
  void index_state(const observe::Event& event);
  void release_state(const observe::Event& event);
  void drop_state(const observe::Event& event);
  void begin_plan(const observe::Event& event);
  void row(const observe::Event& event);
  void end_plan(const observe::Event& event);
  void accept(const observe::Event& event);
  void end_commit(const observe::Event& event);

  void judge_decodes(std::uint32_t batch_class);
  void judge_prefill(std::uint32_t batch_class);
  void judge_idle_capacity(std::uint32_t batch_class);
  void judge_waits();
  void judge_windows();
  std::uint32_t lacks(const Sequence& sequence) const;
  bool behind_window(const Sequence& sequence, std::size_t place) const;
  void judge_tenant(const Sequence& next) const;

  Sequence* find(Id id, const char* what);
  void settle(Sequence& sequence);
  bool decoding(const Sequence& sequence) const {
    return sequence.num_computed_tokens >= sequence.prefill_end;
  }
  bool can_go_on(const Sequence& sequence) const;
  std::uint32_t blocks_for(std::uint32_t tokens) const {
    return (tokens + options_.block_size - 1) / options_.block_size;
  }
  static std::size_t held(const Sequence& sequence) {
    const auto& blocks = sequence.blocks;
    return blocks.size() -
           static_cast<std::size_t>(std::count(blocks.begin(), blocks.end(), kNone));
  }
  std::uint32_t groups() const { return static_cast<std::uint32_t>(options_.groups.size()); }
  std::uint32_t capacity(const Sequence& sequence) const {
    const auto places = static_cast<std::uint32_t>(sequence.blocks.size());
    return (places + groups() - 1) / groups() * options_.block_size;
  }
  std::uint32_t available() const { return unowned_ > withheld_ ? unowned_ - withheld_ : 0; }
  std::uint32_t floor() const;
  std::uint32_t alignment() const;
  std::uint32_t may_grow() const;
  std::uint32_t fresh_blocks(const Sequence& sequence) const;

  schedule::SchedulerOptions options_;
  bool timed_;
  mutable std::vector<std::string> violations_;
  std::size_t seen_ = 0;

  std::map<Id, Sequence> sequences_;  // alive, or leaving
  std::set<Id> ended_;
  std::vector<Block> blocks_;
  std::vector<Block> states_;                                 // that are saved
  std::set<std::pair<std::uint64_t, std::uint32_t>> cached_;  // unowned and findable, by let_go
  std::uint32_t unowned_ = 0;
  std::uint32_t withheld_ = 0;
  std::uint64_t let_go_ = 0;
  std::set<std::uint32_t> slots_;
  std::map<std::uint32_t, Tenant> tenants_;
  struct BatchClass {
    std::uint64_t served = 0;  // its last step; at first the one it came in
    std::uint32_t steps_since_prefill = 0;
  };
  std::map<std::uint32_t, BatchClass> classes_;  // that live
  std::uint64_t arrivals_ = 0;
  std::uint64_t steps_ = 0;  // plans with rows
  std::uint64_t plans_ = 0;  // also empty ones
  std::uint64_t commits_ = 0;
  std::size_t max_classes_ = 1;

  // Of the plan that is being made.
  bool planning_ = false;
  bool ahead_ = false;
  std::optional<std::uint32_t> plan_class_;
  std::uint32_t rows_ = 0, decode_rows_ = 0, tokens_ = 0, prefill_tokens_ = 0;
  std::uint32_t unaligned_ = 0, drafts_ = 0;
  std::optional<Key> last_key_;
  std::deque<std::uint32_t> drafts_in_flight_;  // of plans that are not committed
};

}  // namespace dovetail::laws
