#include "schedule/driver.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace dovetail::schedule {

Driver::Driver(const SchedulerOptions& options) : scheduler_(options), history_{options, {}} {}

Status Driver::add(SequenceId id, std::uint32_t prompt, std::uint32_t max) {
  const Status status = scheduler_.add(id, prompt);
  if (status) {
    alive_[id] = Alive{prompt, max, false};
    generated_[id] = 0;
  }
  record(Added{id, prompt, status.has_value()});
  return status;
}

void Driver::cancel(SequenceId id) {
  scheduler_.cancel(id);
  alive_.erase(id);
  record(Cancelled{id});
}

void Driver::finish_next(SequenceId id) { alive_.at(id).finish_next = true; }

Status Driver::plan() {
  assert(!under_way_);
  Result<StepPlan> planned = scheduler_.plan();
  if (!planned) return fail(planned.error());
  plan_ = std::move(*planned);
  under_way_ = true;
  record(Planned{plan_});
  return {};
}

void Driver::commit() {
  assert(under_way_);
  under_way_ = false;
  finished_.clear();
  StepResult result;
  for (const Row& row : plan_.rows) {
    if (!row.sampled) continue;
    if (!alive_.contains(row.sequence)) {
      result.finished.push_back(true);  // cancelled since: what is said of it must not matter
      continue;
    }
    ++generated_.at(row.sequence);
    result.finished.push_back(ends(row.sequence));
    if (!result.finished.back()) continue;
    alive_.erase(row.sequence);
    finished_.push_back(row.sequence);
  }
  scheduler_.commit(plan_, result);
  record(Committed{result});
}

Status Driver::step() {
  if (const Status status = plan(); !status) return status;
  commit();
  return {};
}

Result<std::uint32_t> Driver::run_until_idle(std::uint32_t limit) {
  std::uint32_t steps = 0;
  while (!alive_.empty()) {
    if (steps == limit) {
      return fail(ErrorKind::kInternal, "{} sequences are alive after {} steps", alive_.size(),
                  limit);
    }
    if (const Status status = step(); !status) return fail(status.error());
    ++steps;
  }
  return steps;
}

std::vector<SequenceId> Driver::alive() const {
  std::vector<SequenceId> ids;
  for (const auto& [id, sequence] : alive_) ids.push_back(id);
  return ids;
}

const Row* Driver::row_of(SequenceId id) const {
  const auto row = std::find_if(plan_.rows.begin(), plan_.rows.end(),
                                [&](const Row& other) { return other.sequence == id; });
  return row == plan_.rows.end() ? nullptr : &*row;
}

void Driver::record(std::variant<Added, Cancelled, Planned, Committed> what) {
  history_.events.push_back({std::move(what), scheduler_.take_freed_blocks(),
                             scheduler_.pool().free(), scheduler_.running(), scheduler_.waiting()});
}

bool Driver::ends(SequenceId id) const {
  const Alive& sequence = alive_.at(id);
  const std::uint32_t generated = generated_.at(id);
  return sequence.finish_next || generated == sequence.max ||
         sequence.prompt + generated == history_.options.max_context;
}

}  // namespace dovetail::schedule
