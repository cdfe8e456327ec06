#include "laws/checker/history.h"

#include <fmt/core.h>
#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <iterator>
#include <map>
#include <optional>

#include "laws/checker/fake_model.h"
#include "laws/checker/law_checker.h"
#include "laws/checker/reference_scheduler.h"

namespace dovetail::laws {

using schedule::Row;
using schedule::StepPlan;
using schedule::StepResult;

namespace {

class Player {
 public:
  Player(const History& history, std::ostream* story, bool compare)
      : history_(history),
        options_(history.options),
        story_(story),
        log_(1 << 10),
        scheduler_(options_, &log_),
        checker_(options_, history.cost.known()),
        model_(options_) {
    scheduler_.set_cost(history.cost);
    if (compare) reference_.emplace(options_, history.cost);
    verdict_.tally.histories = 1;
  }

  Verdict play();

 private:
  template <class... Args>
  void tell(fmt::format_string<Args...> format, Args&&... args) {
    if (story_ != nullptr)
      fmt::print(*story_, "{}\n", fmt::format(format, std::forward<Args>(args)...));
  }
  void fault(std::string message) {
    tell("FAULT {}", message);
    verdict_.faults.push_back(std::move(message));
  }
  bool sound() const { return verdict_.faults.empty(); }

  void act(const Operation& operation);
  void add(const Operation& operation);
  void plan();
  void commit();
  void judge();
  void compare(const StepPlan& plan);
  FakeRequest& some(std::uint32_t choice) {
    return std::next(alive_.begin(), static_cast<std::ptrdiff_t>(choice % alive_.size()))->second;
  }

  const History& history_;
  const schedule::SchedulerOptions& options_;
  std::ostream* story_;
  observe::EventLog log_;
  schedule::Scheduler scheduler_;
  LawChecker checker_;
  FakeModel model_;
  std::optional<ReferenceScheduler> reference_;
  Verdict verdict_;
  std::uint64_t judged_ = 0;
  std::map<schedule::SequenceId, FakeRequest> alive_;
  std::deque<StepPlan> in_flight_;
  std::uint64_t bound_ = 64;
  schedule::SequenceId next_ = 1;
};

void Player::judge() {
  if (log_.oldest() > judged_) fault("the log is too short for what happened at once");
  for (; judged_ < log_.written(); ++judged_) checker_.see(log_.at(judged_));
  if (sound() && !checker_.violations().empty()) fault(checker_.violations().front());
}

void Player::add(const Operation& operation) {
  FakeRequest request;
  request.id = next_++;
  request.prompt = 1 + operation.a % options_.max_context;  // the longest: refused
  request.family = operation.c % 3;
  const std::uint32_t max_new = 1 + operation.b % options_.max_context;
  // Some share all of their prompt and go on alike.
  if (operation.c % 2 == 0)
    request.shared = operation.c / 2 % 4 == 0 ? options_.max_context
                                              : request.prompt * (operation.c / 2 % 4) / 4;
  request.drafts = operation.c / 8 % 5;
  request.right = operation.c / 40 % 4;
  std::vector<std::int32_t> prompt;
  for (std::uint32_t p = 0; p < request.prompt; ++p) prompt.push_back(request.token(p));
  schedule::SequenceSpec spec;
  spec.id = request.id;
  spec.prompt_tokens = request.prompt;
  spec.max_new_tokens = max_new;
  spec.priority = static_cast<std::int32_t>(operation.c / 3 % 5) - 2;
  spec.tenant = operation.c / 7 % 3;
  spec.batch_class = operation.c % 11 == 0 ? 1 : operation.c % 13 == 0 ? 2 : 0;
  spec.prompt = prompt;
  spec.computes_all = operation.c / 17 % 4 == 0;
  const Status added = scheduler_.add(spec);
  if (reference_ && reference_->add(spec) != added.has_value())
    fault(fmt::format("reference: it {} {}", added ? "refuses" : "accepts", spec.id));
  tell(
      "add {} prompt={} max={} family={} shared={} priority={} tenant={} class={} drafts={}/{} "
      "all={}{}",
      spec.id, spec.prompt_tokens, max_new, request.family, request.shared, spec.priority,
      spec.tenant, spec.batch_class, request.right, request.drafts, spec.computes_all,
      added ? "" : ": " + added.error().message);
  if (!added) {
    ++verdict_.tally.refused;
    return;
  }
  request.tokens = request.prompt;
  request.final_length = std::min(request.prompt + max_new, options_.max_context);
  bound_ += std::uint64_t{4} * options_.max_context * (options_.prefill_interval + 1);
  alive_.emplace(request.id, request);
}

void Player::plan() {
  const bool ahead = !in_flight_.empty();
  StepPlan plan;
  const Status status = scheduler_.plan(plan);
  if (story_ != nullptr) {
    tell("plan {}{}", plan.number, ahead ? " ahead" : "");
    for (const auto& id : plan.preempted) tell("  preempted {}", id);
    for (const auto& admission : plan.admitted)
      tell("  admitted {} to slot {}, cached {}", admission.sequence, admission.slot,
           admission.cached_tokens);
    for (const Row& row : plan.rows)
      tell("  {} {}+{}{}{} blocks {}", row.sequence, row.first_position, row.tokens,
           row.drafts > 0 ? fmt::format("~{}", row.drafts) : "", row.sampled ? "*" : "",
           row.blocks.size());
  }
  if (!status) fault("law 1: " + status.error().message);
  judge();
  if (reference_ && sound()) compare(plan);
  Tally& tally = verdict_.tally;
  tally.preempted += plan.preempted.size();
  for (const auto& admission : plan.admitted)
    tally.cached += admission.resumed ? 0 : admission.cached_tokens;
  if (plan.rows.empty()) return;
  tally.rows += plan.rows.size();
  tally.drafted += plan.drafts;
  tally.mixed += plan.prefill_rows > 0 && plan.decode_rows() > 0 ? 1 : 0;
  tally.turns += plan.decode_rows() > 0 && plan.tokens == options_.max_num_batched_tokens &&
                         scheduler_.running() > plan.rows.size()
                     ? 1
                     : 0;
  tally.ahead += ahead ? 1 : 0;
  in_flight_.push_back(std::move(plan));
}

void Player::commit() {
  const StepPlan plan = std::move(in_flight_.front());
  in_flight_.pop_front();
  ++verdict_.tally.steps;
  StepResult result;
  std::map<schedule::SequenceId, ReferenceScheduler::Result> results;
  for (const Row& row : plan.rows) {
    const auto found = alive_.find(row.sequence);
    if (found == alive_.end()) {
      if (row.sampled) result.rows.push_back({0, false, 0});
      continue;
    }
    FakeRequest& request = found->second;
    const auto saves = std::span(plan.saves).subspan(row.first_save, row.saves);
    if (std::string wrong = model_.compute(row, saves, request); !wrong.empty() && sound())
      fault(std::move(wrong));
    if (!row.sampled) continue;
    schedule::RowResult outcome;
    outcome.new_tokens =
        std::min(1 + std::min(row.drafts, request.right), request.final_length - request.tokens);
    if (request.finish_next) outcome.new_tokens = 1;
    verdict_.tally.accepted += outcome.new_tokens - 1;
    ReferenceScheduler::Result& same = results[row.sequence];
    for (std::uint32_t i = 0; i < outcome.new_tokens; ++i) {
      result.tokens.push_back(request.token(request.tokens++));
      same.tokens.push_back(result.tokens.back());
    }
    outcome.finished = request.finish_next || request.tokens == request.final_length;
    outcome.next_drafts = request.drafts;
    same.finished = outcome.finished;
    same.next_drafts = outcome.next_drafts;
    result.rows.push_back(outcome);
    if (outcome.finished) alive_.erase(found);
  }
  tell("commit {}", plan.number);
  if (!sound()) return;
  scheduler_.commit(plan, result);
  if (reference_) reference_->commit(results);
  judge();
}

void Player::compare(const StepPlan& plan) {
  ReferenceScheduler::Plan same;
  for (std::size_t i = 0; i < plan.rows.size(); ++i) {
    const Row& row = plan.rows[i];
    (i < plan.prefill_rows ? same.prefill : same.decode)
        .push_back({row.sequence,
                    row.slot,
                    row.first_position,
                    row.tokens,
                    row.drafts,
                    row.final_chunk,
                    row.sampled,
                    row.load != kv::kNoBlock,
                    {}});
    std::vector<std::uint32_t>& saves =
        (i < plan.prefill_rows ? same.prefill : same.decode).back().saves;
    for (std::uint32_t save = 0; save < row.saves; ++save)
      saves.push_back(plan.saves[row.first_save + save].positions);
  }
  for (const auto& admission : plan.admitted)
    same.admitted.push_back(
        {admission.sequence, admission.slot, admission.cached_tokens, admission.resumed});
  same.preempted = plan.preempted;
  const ReferenceScheduler::Plan expected = reference_->plan();
  if (!(same == expected)) {
    for (const auto* part : {&expected.prefill, &expected.decode}) {
      for (const auto& row : *part)
        tell("  reference: {} {}+{}~{}{}", row.sequence, row.first, row.tokens, row.drafts,
             row.sampled ? "*" : "");
    }
    for (const auto& one : expected.admitted)
      tell("  reference: admitted {} to slot {}, cached {}", one.sequence, one.slot, one.cached);
    for (const auto id : expected.preempted) tell("  reference: preempted {}", id);
    return fault(fmt::format("reference: it would plan step {} otherwise", plan.number));
  }
  if (reference_->used_blocks() != scheduler_.pool().used() ||
      reference_->cached_blocks() != scheduler_.pool().cached())
    fault(fmt::format("reference: {} blocks used and {} cached, it has {} and {}",
                      scheduler_.pool().used(), scheduler_.pool().cached(),
                      reference_->used_blocks(), reference_->cached_blocks()));
  const kv::BlockPool& states = scheduler_.kv().states();
  if (reference_->used_states() != states.used() || reference_->cached_states() != states.cached())
    fault(fmt::format("reference: {} states used and {} cached, it has {} and {}", states.used(),
                      states.cached(), reference_->used_states(), reference_->cached_states()));
}

void Player::act(const Operation& operation) {
  switch (operation.verb) {
    case Verb::kAdd:
      add(operation);
      break;
    case Verb::kAdvance:
      in_flight_.empty() ? plan() : commit();
      break;
    case Verb::kAhead:
      in_flight_.size() < 2 ? plan() : commit();
      break;
    case Verb::kCancel: {
      if (next_ == 1) break;
      const schedule::SequenceId id = 1 + operation.a % (next_ - 1);  // it may have ended
      tell("cancel {}", id);
      verdict_.tally.cancelled += alive_.erase(id);
      for (const StepPlan& plan : in_flight_) {
        for (const Row& row : plan.rows) verdict_.tally.in_flight += row.sequence == id ? 1 : 0;
      }
      scheduler_.cancel(id);
      if (reference_) reference_->cancel(id);
      break;
    }
    case Verb::kFinish:
      if (!alive_.empty()) some(operation.a).finish_next = true;
      break;
    case Verb::kDraft:
      if (!alive_.empty()) {
        FakeRequest& request = some(operation.a);
        request.drafts = operation.b % 6;
        request.right = operation.c % 6;
      }
      break;
    case Verb::kWithhold:
      tell("withhold {}", operation.a % (options_.kv_blocks + 1));
      scheduler_.withhold_blocks(operation.a % (options_.kv_blocks + 1));
      if (reference_) reference_->withhold(operation.a % (options_.kv_blocks + 1));
      break;
  }
  judge();
}

Verdict Player::play() {
  for (const Operation& operation : history_.operations) {
    if (!sound()) return verdict_;
    act(operation);
  }
  scheduler_.withhold_blocks(0);
  if (reference_) reference_->withhold(0);
  std::uint64_t steps = 0;
  while (sound() && !(scheduler_.idle() && in_flight_.empty())) {
    if (++steps > bound_ * std::max<std::size_t>(1, alive_.size())) {
      fault(fmt::format("law 4: {} sequences are alive after {} more steps", alive_.size(), steps));
    } else {
      in_flight_.empty() ? plan() : commit();
    }
  }
  if (sound()) {
    checker_.finish();
    judge();
  }
  if (sound() && scheduler_.pool().used() != 0) fault("law 2: blocks are missing at the end");
  return verdict_;
}

}  // namespace

void Tally::add(const Tally& other) {
  histories += other.histories;
  steps += other.steps;
  rows += other.rows;
  mixed += other.mixed;
  ahead += other.ahead;
  preempted += other.preempted;
  cached += other.cached;
  drafted += other.drafted;
  accepted += other.accepted;
  cancelled += other.cancelled;
  in_flight += other.in_flight;
  refused += other.refused;
  turns += other.turns;
}

Verdict play(const History& history, std::ostream* story, bool compare) {
  return Player(history, story, compare).play();
}

namespace {

std::vector<std::uint32_t> windows_of(const schedule::SchedulerOptions& options) {
  std::vector<std::uint32_t> windows;
  for (const kv::CacheGroup group : options.groups) windows.push_back(group.window);
  return windows;
}

}  // namespace

void describe(const History& history, std::ostream& out) {
  const schedule::SchedulerOptions& options = history.options;
  fmt::print(
      out,
      "\noptions seqs={} budget={} threshold={} block={} context={} blocks={} queue={} mixed={} "
      "prefix={} drafts={} alignment={} floor={} interval={} watermark={} policy={} ageing={} "
      "timed={} windows={} states={} interval={} tells-generated={}\n",
      options.max_num_seqs, options.max_num_batched_tokens, options.long_prefill_token_threshold,
      options.block_size, options.max_context, options.kv_blocks, options.max_waiting,
      options.mixed, options.prefix_cache, options.speculative_tokens, options.prefill_alignment,
      options.min_prefill_tokens, options.prefill_interval, options.watermark,
      static_cast<int>(options.policy), options.ageing_steps, history.cost.known(),
      fmt::join(windows_of(options), ","),
      options.has_states ? static_cast<int>(options.saved_states) : -1, options.state_interval,
      options.tells_generated);
  play(history, &out);
}

History read_history(const std::uint8_t* data, std::size_t size) {
  std::size_t at = 0;
  const auto byte = [&]() -> std::uint32_t { return at < size ? data[at++] : 0; };
  const auto between = [&](std::uint32_t least, std::uint32_t most) {
    return least + byte() % (most - least + 1);
  };
  // Every choice takes its bytes, whatever came out before: so a history shrinks well.
  History history;
  schedule::SchedulerOptions& options = history.options;
  options.max_num_seqs = between(1, 9);
  options.max_num_batched_tokens = between(1, 48);
  const std::uint32_t threshold = between(0, 24);
  options.long_prefill_token_threshold = threshold > 12 ? 0 : threshold;
  options.block_size = between(1, 6);
  options.max_context = between(2, 40);
  const std::uint32_t more_blocks = between(0, 14);
  options.max_waiting = between(1, 24);
  options.mixed = byte() % 4 != 3;
  options.prefix_cache = byte() % 3 != 0;
  const std::uint32_t drafts = between(0, 8);
  options.speculative_tokens = drafts > 4 ? 0 : drafts;
  options.prefill_alignment = between(0, 4);
  options.min_prefill_tokens = between(1, 9);
  options.prefill_interval = between(1, 3);
  options.watermark = between(0, 2);
  options.policy = static_cast<schedule::Policy>(between(0, 2));
  options.ageing_steps = between(0, 25);
  // Half of the histories have one group; of the others' groups, some have windows.
  const std::uint32_t groups = byte();
  options.groups.assign(groups % 2 == 0 ? 1 : 1 + groups / 2 % 3, {});
  for (kv::CacheGroup& group : options.groups) {
    const std::uint32_t window = byte();
    if (groups % 8 > 2 && window % 3 != 0) group.window = 1 + window / 3 % 24;
  }
  options.tells_generated = groups / 64 % 2 == 1;
  at += 3 - options.groups.size();
  const std::uint32_t states = byte();
  options.has_states = states % 4 == 3;
  options.saved_states = options.has_states ? states / 4 % 6 : 0;
  options.state_interval = 1 + states / 24 % 4;
  options.kv_blocks = static_cast<std::uint32_t>(
      kv::blocks_alone(options.groups, options.block_size, schedule::longest_chunk(options),
                       options.max_context) +
      more_blocks * options.groups.size() + states / 96);
  options.mixed_slowdown = 1.0 + byte() / 32.0;
  options.target_step_us = byte() % 4 == 3 ? 25.0 : 0.0;
  const bool timed = byte() % 3 == 2;
  const std::uint32_t free_tokens = between(0, 8);
  if (timed) history.cost = {10.0, 1.0, 1.0, 0.05, free_tokens};
  at = kHistoryHead;
  while (at < size) {
    constexpr Verb kVerbs[] = {Verb::kAdvance, Verb::kAdvance, Verb::kAdvance, Verb::kAdvance,
                               Verb::kAhead,   Verb::kAhead,   Verb::kAhead,   Verb::kAhead,
                               Verb::kAdd,     Verb::kAdd,     Verb::kAdd,     Verb::kAdd,
                               Verb::kCancel,  Verb::kFinish,  Verb::kDraft,   Verb::kWithhold};
    const std::uint32_t verb = byte();
    const std::uint32_t a = byte(), b = byte();
    // Rare: memory that is gone stops everything.
    if (kVerbs[verb % 16] == Verb::kWithhold && a % 4 != 0) continue;
    history.operations.push_back({kVerbs[verb % 16], a, b, verb / 16 + 16 * (a ^ (b << 3))});
  }
  return history;
}

}  // namespace dovetail::laws
