#include "schedule/driver.h"

#include <algorithm>
#include <cassert>

namespace dovetail::schedule {

Driver::Driver(const SchedulerOptions& options, std::size_t log_capacity)
    : log_(log_capacity), scheduler_(options, &log_) {}

Status Driver::add(const SequenceSpec& spec) {
  const Status status = scheduler_.add(spec);
  if (!status) return status;
  const std::uint32_t capacity = scheduler_.options().max_context - spec.prompt_tokens;
  const std::uint32_t most = spec.max_new_tokens == 0 ? capacity : spec.max_new_tokens;
  alive_[spec.id] = Alive{std::min(capacity, most), false, 0, 0};
  generated_[spec.id] = 0;
  return status;
}

void Driver::cancel(SequenceId id) {
  scheduler_.cancel(id);
  alive_.erase(id);
}

void Driver::finish_next(SequenceId id) { alive_.at(id).finish_next = true; }

void Driver::drafts(SequenceId id, std::uint32_t count, std::uint32_t right) {
  alive_.at(id).drafts = count;
  alive_.at(id).right = right;
}

Status Driver::plan_any() {
  const Status status = scheduler_.plan(last_);
  if (status && !last_.rows.empty()) under_way_.push_back(last_);
  return status;
}
Status Driver::plan() {
  assert(under_way_.empty());
  return plan_any();
}
Status Driver::plan_ahead() {
  assert(under_way_.size() == 1);
  return plan_any();
}

void Driver::commit() {
  finished_.clear();
  if (under_way_.empty()) return;  // an empty plan needs no commit
  const StepPlan plan = std::move(under_way_.front());
  under_way_.pop_front();
  StepResult result;
  for (const Row& row : plan.rows) {
    if (!row.sampled) continue;
    const auto found = alive_.find(row.sequence);
    if (found == alive_.end()) {
      result.rows.push_back({1, true, 0});
      result.tokens.push_back(-1);
      continue;
    }
    Alive& its = found->second;
    RowResult outcome;
    outcome.new_tokens = std::min({1 + std::min(row.drafts, its.right), its.left});
    if (its.finish_next) outcome.new_tokens = 1;
    its.left -= outcome.new_tokens;
    outcome.finished = its.left == 0 || its.finish_next;
    outcome.next_drafts = its.drafts;
    for (std::uint32_t i = 0; i < outcome.new_tokens; ++i) {
      result.tokens.push_back(token(row.sequence, generated_.at(row.sequence)++));
    }
    result.rows.push_back(outcome);
    if (!outcome.finished) continue;
    alive_.erase(found);
    finished_.push_back(row.sequence);
  }
  scheduler_.commit(plan, result);
}

Status Driver::step() {
  if (const Status status = plan(); !status) return status;
  commit();
  return {};
}

Result<std::uint32_t> Driver::run_until_idle(std::uint32_t limit) {
  std::uint32_t steps = 0;
  while (!scheduler_.idle()) {
    if (steps == limit) {
      return fail(ErrorKind::kInternal, "{} sequences are alive after {} steps", alive_.size(),
                  limit);
    }
    if (const Status status = step(); !status) return fail(status.error());
    ++steps;
  }
  return steps;
}

const Row* Driver::row_of(SequenceId id) const {
  const auto row = std::find_if(last_.rows.begin(), last_.rows.end(),
                                [&](const Row& other) { return other.sequence == id; });
  return row == last_.rows.end() ? nullptr : &*row;
}

}  // namespace dovetail::schedule
