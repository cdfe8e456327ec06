#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "schedule/scheduler.h"

namespace dovetail::laws {

// The same promises as schedule::Scheduler, kept in the slowest and most obvious way: plain lists,
// everything searched and counted anew, prefixes kept as whole token lists. Written from the
// contract, to be compared with the real one plan by plan. Block numbers are its own.
class ReferenceScheduler {
 public:
  struct Row {
    std::uint64_t sequence = 0;
    std::uint32_t slot = 0, first = 0, tokens = 0, drafts = 0;
    bool final_chunk = false, sampled = false;
    bool loads = false;                // a saved state
    std::vector<std::uint32_t> saves;  // positions of states
    bool operator==(const Row&) const = default;
  };
  struct Admitted {
    std::uint64_t sequence = 0;
    std::uint32_t slot = 0, cached = 0;
    bool resumed = false;
    bool operator==(const Admitted&) const = default;
  };
  struct Plan {
    std::vector<Row> prefill, decode;
    std::vector<Admitted> admitted;
    std::vector<std::uint64_t> preempted;
    bool operator==(const Plan&) const = default;
  };
  struct Result {
    std::vector<std::int32_t> tokens;
    bool finished = false;
    std::uint32_t next_drafts = 0;
  };

  ReferenceScheduler(const schedule::SchedulerOptions& options, const schedule::StepCost& cost);

  bool add(const schedule::SequenceSpec& spec);
  void cancel(std::uint64_t id);
  void withhold(std::uint32_t blocks) { withheld_ = blocks; }
  Plan plan();
  // Results of the sampled rows of the oldest plan in flight, by sequence.
  void commit(const std::map<std::uint64_t, Result>& results);

  std::uint32_t used_blocks() const;
  std::uint32_t cached_blocks() const;
  std::uint32_t used_states() const;
  std::uint32_t cached_states() const;

 private:
  using Key = std::pair<std::int64_t, std::uint64_t>;

  using Tokens = std::vector<std::int32_t>;
  static constexpr std::size_t kNone = ~std::size_t{0};

  // A block, or a saved state.
  struct Block {
    std::uint32_t owners = 0;
    Tokens prefix;  // all tokens up to its end; empty: it cannot be found
    std::uint64_t let_go = 0;
    std::size_t group = 0;
  };
  // What a sequence finds: blocks by place, with holes, and a state.
  struct Found {
    std::uint32_t edge = 0;  // in blocks of a group
    std::vector<std::size_t> blocks;
    std::size_t state = kNone;
  };
  struct Save {
    std::uint32_t positions = 0;
    std::size_t state = 0;
  };
  struct Sequence {
    std::uint64_t id = 0;
    Key key;
    std::uint32_t prompt = 0, final_length = 0, tenant = 0, batch_class = 0;
    std::int32_t priority = 0;
    std::vector<std::int32_t> tokens;
    bool running = false, ended = false, preempted = false;
    std::uint32_t slot = 0, prefill_end = 0, num_computed_tokens = 0, pending = 0, next_drafts = 0,
                  in_flight = 0;
    std::uint64_t preempted_in_plan = 0;
    bool computes_all = false;
    std::uint32_t computed_once = 0;  // positions
    std::vector<std::size_t> blocks;  // [block][group]; kNone: behind a window
    std::uint32_t filled = 0;         // blocks that groups with windows had so far
    std::uint32_t branch = 0;         // blocks that others had, whose state was not saved
    std::size_t loaded = kNone;       // state, until the commit of the next row
    std::vector<Save> saving;         // by rows in flight
    std::vector<Save> drafting;       // before the draft tokens of one

    std::uint32_t num_tokens() const { return static_cast<std::uint32_t>(tokens.size()); }
    bool decoding() const { return running && num_computed_tokens >= prefill_end; }
  };
  struct Class {
    std::uint64_t served = 0;
    std::uint32_t since_prefill = 0;
    std::optional<Key> rotation;  // the last one served when not all could be
  };
  struct Tenant {
    std::uint64_t served = 0;
    std::uint32_t alive = 0;
  };

  std::vector<Sequence*> running();  // that have not ended, by key
  Sequence* head(std::uint32_t batch_class);
  Tokens beginning_of(const Sequence& sequence, std::size_t count) const;
  std::size_t groups() const { return options_.groups.size(); }
  bool is_behind(std::size_t place, std::uint32_t next) const;
  std::optional<Found> found_at(const Sequence& sequence, std::uint32_t edge, bool states) const;
  std::uint32_t most_edge(const Sequence& sequence) const;
  Found found(const Sequence& sequence) const;
  std::uint32_t capacity(const Sequence& sequence) const;
  std::uint32_t reach(const Sequence& sequence) const;
  std::uint32_t lacks(const Sequence& sequence) const;
  void fill(Sequence& sequence, std::uint32_t end);
  bool can_take() const { return available() >= groups(); }
  void let_go(Block& block);
  std::size_t take(std::vector<Block>& from);
  std::vector<std::uint32_t> save_states(Sequence& sequence, const Row& row, bool prefill);
  std::uint32_t draft_places() const;
  void end_drafts(Sequence& sequence, std::uint32_t computed);
  void store_states(Sequence& sequence, std::uint32_t computed);
  std::uint32_t blocks_for(std::uint32_t tokens) const;
  std::uint32_t available() const;
  std::uint32_t taken_slots() const;
  std::uint32_t fresh_blocks(const Sequence& sequence) const;
  bool can_admit(Sequence* sequence);
  bool can_go_on(const Sequence& sequence) const;
  void take_blocks(Sequence& sequence);
  void release(Sequence& sequence);
  void preempt(Sequence& sequence, Plan& plan);
  void end(Sequence& sequence);
  std::optional<std::uint32_t> choose_class();
  bool build(std::uint32_t batch_class, bool ahead, Plan& plan);

  schedule::SchedulerOptions options_;
  schedule::StepCost cost_;
  std::vector<Block> blocks_, states_;
  std::uint32_t withheld_ = 0;
  std::uint64_t let_go_ = 0;
  std::vector<Sequence> sequences_;
  std::map<std::uint32_t, Class> classes_;
  std::map<std::uint32_t, Tenant> tenants_;
  std::uint64_t arrivals_ = 0, steps_ = 0, plans_ = 0;
  std::vector<Plan> in_flight_;
};

}  // namespace dovetail::laws
