#include "cores/dispatcher.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <limits>
#include <utility>

#include "cores/mutation.h"

namespace dovetail::cores {
namespace {

constexpr bool mutated(DispatchMutant mutant) { return kDispatchMutant == mutant; }

bool is_cohort(const ReadyTask& task) { return task.together && task.blocks > 1; }

}  // namespace

Dispatcher::Dispatcher(const Topology& topology, const DispatchOptions& options)
    : options_(options), tracker_(topology) {
  std::size_t lanes = 0;
  for (const GroupSpec& spec : topology.groups()) {
    first_lane_.push_back(lanes);
    lanes += static_cast<std::size_t>(std::bit_width(spec.all()));
  }
  lanes_.resize(lanes);
}

Status Dispatcher::check(const ReadyTask& task) const {
  const TaskShape& shape = task.shape;
  if (task.blocks == 0 || (!shape.whole_group && shape.lanes() == 0)) {
    return fail(ErrorKind::kInvalid, "task {}: it has no {}", task.id,
                task.blocks == 0 ? "blocks" : "lanes");
  }
  std::size_t count = 0;
  for (GroupId group = 0; group < tracker_.groups(); ++group) {
    const std::size_t needed = task.together ? task.blocks : 1;
    count += places(shape, group, tracker_.spec(group).all(), needed - count);
    if (count >= needed) return {};
  }
  if (count == 0) {
    return fail(ErrorKind::kInvalid,
                "task {}: no group has {} matrix and {} vector lanes at the same time", task.id,
                shape.matrix, shape.vector);
  }
  return fail(ErrorKind::kInvalid,
              "task {}: {} blocks are to start together, and the machine has places for {}",
              task.id, task.blocks, count);
}

void Dispatcher::add(const ReadyTask& task) {
  assert(check(task));
  Queue& queue = queue_of(task);
  const Waiting waiting = {task, next_order_++, task.first_block};
  if (mutated(DispatchMutant::kYoungestFirst) && !task.shape.is_mixed())
    queue.push_front(waiting);
  else
    queue.push_back(waiting);
}

Dispatcher::Queue& Dispatcher::queue_of(const ReadyTask& task) {
  if (is_cohort(task)) return cohorts_;
  if (!task.shape.is_mixed()) return singles_[kind_of(task.shape)];
  for (ShapeQueue& of : mixed_) {
    if (of.shape == task.shape) return of.tasks;
  }
  return mixed_.emplace_back(ShapeQueue{task.shape, {}}).tasks;
}

// Which of mixed_ has the oldest task; nothing: there is none.
std::optional<std::size_t> Dispatcher::oldest_mixed(bool stuck_too) const {
  std::optional<std::size_t> oldest;
  for (std::size_t shape = 0; shape < mixed_.size(); ++shape) {
    const Queue& tasks = mixed_[shape].tasks;
    if (tasks.empty() || (mixed_[shape].stuck && !stuck_too)) continue;
    if (!oldest || tasks.front().order < mixed_[*oldest].tasks.front().order) oldest = shape;
  }
  return oldest;
}

void Dispatcher::occupy(GroupId group, LaneMask lanes) {
  tracker_.run(group, lanes);
  for_each_lane(lanes, [&](unsigned index) { lane(group, index).running = {}; });
}

std::size_t Dispatcher::waiting() const {
  std::size_t count = cohorts_.size() + singles_[kMatrix].size() + singles_[kVector].size();
  for (const ShapeQueue& of : mixed_) count += of.tasks.size();
  return count;
}

void Dispatcher::plan(Ticks now, Plan& plan) {
  serve_overdue(now, plan);
  std::size_t placed = 0;
  do {
    serve_cohorts(now, plan);
    if (mutated(DispatchMutant::kAllForACohort) && !cohorts_.empty()) return;
    placed = plan.placements.size();
    serve_mixed(now, plan);
    // Lanes that were kept for a mixed task which found others may be all that a cohort misses.
  } while (!cohorts_.empty() && plan.placements.size() > placed);
  serve_singles(now, plan);
  if (options_.parks) park_singles(now, plan);
}

std::optional<Dispatcher::Part> Dispatcher::finish(GroupId group, unsigned index, Ticks now) {
  Lane& ended = lane(group, index);
  if (!tracker_.finish(group, index)) return std::nullopt;
  if (!ended.parked.shape.is_mixed()) {
    bypassed_[kind_of(ended.parked.shape)] = 0;
    // What is parked elsewhere may be older.
    const auto oldest = oldest_parked(ended.parked.shape);
    if (oldest && oldest->work->order < ended.parked.order) {
      std::swap(ended.parked, *oldest->work);
    }
  }
  ended.running = std::exchange(ended.parked, {});
  ended.running.start = now;
  if (!ended.running.shape.is_mixed()) --parked_[kind_of(ended.running.shape)];
  return ended.running.part;
}

AdmissionPolicy Dispatcher::policy() const {
  return mutated(DispatchMutant::kAdmitsInParts) ? AdmissionPolicy::kPerCore : options_.policy;
}

// Gives the next block of a task to these lanes, which admit it: idle ones run it, busy ones have
// it parked.
void Dispatcher::place(Waiting& waiting, GroupId group, LaneMask lanes, Ticks now, Plan& plan) {
  const Admission how = admit(policy(), tracker_.state(group), lanes);
  assert(how != Admission::kRefused);
  const LaneMask running = how == Admission::kRun    ? lanes
                           : how == Admission::kPend ? 0
                                                     : lanes & tracker_.idle(group);
  const LaneMask parked = lanes & ~running;
  const ReadyTask& task = waiting.task;
  const Work work = {{task.id, waiting.next_block}, waiting.order, task.shape, task.cost, now};
  tracker_.run(group, running);
  tracker_.park(group, parked);
  for_each_lane(running, [&](unsigned index) { lane(group, index).running = work; });
  for_each_lane(parked, [&](unsigned index) { lane(group, index).parked = work; });
  plan.placements.push_back({task.id, waiting.next_block++, group, running, parked});
  if (task.shape.is_mixed() || is_cohort(task)) {
    count_bypass();
  } else if (parked != 0) {
    ++parked_[kind_of(task.shape)];
  }
}

void Dispatcher::count_bypass() {
  for (const Kind kind : {kMatrix, kVector}) {
    if (!singles_[kind].empty() || parked_[kind] > 0) ++bypassed_[kind];
  }
}

// Tasks of a single lane that others have passed over often enough: any idle lane will do, also one
// that is kept for somebody.
void Dispatcher::serve_overdue(Ticks now, Plan& plan) {
  if (mutated(DispatchMutant::kNoPatience)) return;
  for (const Kind kind : {kMatrix, kVector}) {
    const std::uint32_t patience =
        mutated(DispatchMutant::kHalfThePatience) ? (options_.patience + 1) / 2 : options_.patience;
    if (bypassed_[kind] < patience || !oldest_order(kind)) continue;
    if (serve_single(kind, now, plan)) continue;
    const auto give_kept = [&](const std::vector<Kept>& all) {
      for (const Kept& kept : all) {
        const LaneMask lanes = choose_lanes(tracker_.spec(kept.group), shape_of(kind),
                                            kept.lanes & tracker_.idle(kept.group));
        if (lanes == 0) continue;
        give(kind, kept.group, lanes, now, plan);
        return true;
      }
      return false;
    };
    if (!give_kept(kept_for_mixed_)) give_kept(kept_for_cohort_);
  }
}

void Dispatcher::serve_cohorts(Ticks now, Plan& plan) {
  while (!cohorts_.empty()) {
    if (mixed_overdue()) serve_overdue_mixed(now, plan);
    if (!start_cohort(cohorts_.front(), now, plan)) {
      if (!kept_for_cohort_.empty() || mixed_overdue()) return;
      keep_for_cohort(cohorts_.front());
      // Lanes that had been kept for a mixed task may be all that was missing.
      if (!start_cohort(cohorts_.front(), now, plan)) return;
    }
    const auto mixed = oldest_mixed();
    if (mixed && mixed_[*mixed].tasks.front().order < cohorts_.front().order) ++mixed_bypassed_;
    cohorts_.pop_front();
    serve_overdue(now, plan);
  }
}

// Whether cohorts have passed over the oldest mixed task often enough.
bool Dispatcher::mixed_overdue() const {
  return mixed_bypassed_ >= options_.patience && options_.policy == AdmissionPolicy::kStrict &&
         oldest_mixed() && !mutated(DispatchMutant::kCohortsForEver);
}

// All blocks, or none.
bool Dispatcher::start_cohort(Waiting& waiting, Ticks now, Plan& plan) {
  const TaskShape& shape = waiting.task.shape;
  std::vector<LaneMask> own(tracker_.groups(), 0);
  for (const Kept& kept : kept_for_cohort_) own[kept.group] |= kept.lanes;
  const auto usable = [&](GroupId group) {
    return tracker_.open(group) | (tracker_.idle(group) & own[group]);
  };
  std::size_t count = 0;
  for (GroupId group = 0; group < tracker_.groups() && count < waiting.task.blocks; ++group) {
    count += places(shape, group, usable(group), waiting.task.blocks - count);
  }
  if (count < waiting.task.blocks && !mutated(DispatchMutant::kCohortInParts)) return false;
  release(kept_for_cohort_);
  for (GroupId group = 0; group < tracker_.groups(); ++group) {
    while (waiting.next_block < waiting.task.blocks) {
      const LaneMask lanes = choose_lanes(tracker_.spec(group), shape, tracker_.open(group));
      if (lanes == 0) break;
      place(waiting, group, lanes, now, plan);
    }
  }
  return waiting.next_block == waiting.task.blocks;
}

// As many places as it needs are kept: those that come free first, as far as that is known, and of
// these those with the least to do before the others.
void Dispatcher::keep_for_cohort(const Waiting& waiting) {
  release(kept_for_mixed_);
  const Ticks start = start_of_cohort(waiting.task);
  std::vector<std::pair<int, GroupId>> groups;
  for (GroupId group = 0; group < tracker_.groups(); ++group) {
    const GroupState& state = tracker_.state(group);
    groups.emplace_back(std::popcount(state.running) + std::popcount(state.pending), group);
  }
  std::sort(groups.begin(), groups.end());
  std::size_t count = 0;
  for (const auto& [load, group] : groups) {
    LaneMask pool = free_by(group, start);
    while (count < waiting.task.blocks) {
      const LaneMask lanes = choose_lanes(tracker_.spec(group), waiting.task.shape, pool);
      if (lanes == 0) break;
      pool &= ~lanes;
      tracker_.keep(group, lanes);
      kept_for_cohort_.push_back({group, lanes});
      ++count;
    }
  }
}

// The next block of the oldest mixed task goes before the cohorts.
void Dispatcher::serve_overdue_mixed(Ticks now, Plan& plan) {
  release(kept_for_cohort_);
  Queue& queue = mixed_[*oldest_mixed()].tasks;
  Waiting& oldest = queue.front();
  if (!place_mixed(oldest, true, now, plan)) {
    if (kept_for_mixed_.empty()) keep_for_mixed(oldest);
    return;
  }
  if (oldest.next_block == oldest.task.blocks) queue.pop_front();
  serve_overdue(now, plan);
}

// The oldest first, but those that find no lanes hold up none of another shape.
void Dispatcher::serve_mixed(Ticks now, Plan& plan) {
  for (ShapeQueue& of : mixed_) of.stuck = false;
  bool none_stuck = true;  // those that are stuck are older than those that are not
  bool first_waits = false;
  while (const auto next = oldest_mixed(false)) {
    Queue& queue = mixed_[*next].tasks;
    Waiting& waiting = queue.front();
    const bool oldest = none_stuck;
    bool placed = true;
    while (placed && waiting.next_block < waiting.task.blocks) {
      placed = place_mixed(waiting, oldest, now, plan);
      if (placed) serve_overdue(now, plan);
    }
    if (placed) {
      if (oldest) release(kept_for_mixed_);
      queue.pop_front();
      continue;
    }
    if (mutated(DispatchMutant::kBackOfTheQueue) && oldest && !first_waits) {
      first_waits = true;
      waiting.order = next_order_++;
      std::rotate(queue.begin(), queue.begin() + 1, queue.end());
      continue;
    }
    if (oldest && !first_waits) {
      first_waits = true;
      if (mutated(DispatchMutant::kChoosesAgain)) release(kept_for_mixed_);
      if (kept_for_mixed_.empty()) keep_for_mixed(waiting);
    }
    if (options_.policy == AdmissionPolicy::kStrict && !tracker_.any_open()) return;
    mixed_[*next].stuck = true;
    none_stuck = false;
  }
}

bool Dispatcher::place_mixed(Waiting& waiting, bool oldest, Ticks now, Plan& plan) {
  const TaskShape& shape = waiting.task.shape;
  if (mutated(DispatchMutant::kForgets) && waiting.order + 1 < next_order_) return false;
  if (const auto open = tracker_.find_open(shape)) {
    if (oldest) release(kept_for_mixed_);
    if (oldest) mixed_bypassed_ = 0;
    place(waiting, open->group, open->lanes, now, plan);
    return true;
  }
  if (oldest && !kept_for_mixed_.empty()) {
    const Kept kept = kept_for_mixed_.front();
    const LaneMask usable = tracker_.open(kept.group) | (tracker_.idle(kept.group) & kept.lanes);
    if (const LaneMask lanes = choose_lanes(tracker_.spec(kept.group), shape, usable)) {
      release(kept_for_mixed_);
      mixed_bypassed_ = 0;
      place(waiting, kept.group, lanes, now, plan);
      return true;
    }
  }
  if (policy() == AdmissionPolicy::kStrict) return false;
  for (GroupId group = 0; group < tracker_.groups(); ++group) {
    const GroupState& state = tracker_.state(group);
    LaneMask pool = tracker_.parkable(group);
    if (policy() == AdmissionPolicy::kPerCore) pool |= tracker_.open(group);
    const LaneMask lanes = choose_lanes(tracker_.spec(group), shape, pool);
    if (admit(policy(), state, lanes) == Admission::kRefused) continue;
    place(waiting, group, lanes, now, plan);
    return true;
  }
  return false;
}

// Lanes that are kept for nobody, of the group where they come free first, or where that is not
// known of all groups, of the one with the least to do. Under the other policies nothing is kept:
// the parts go where they are admitted.
void Dispatcher::keep_for_mixed(const Waiting& waiting) {
  if (options_.policy != AdmissionPolicy::kStrict) return;
  if (mutated(DispatchMutant::kKeepsNothing)) return;
  Kept least, first;
  int least_load = std::numeric_limits<int>::max();
  Ticks first_at = kParkedUnknown;
  bool known = true;
  for (GroupId group = 0; group < tracker_.groups(); ++group) {
    const auto [lanes, at] = soonest(group, waiting.task.shape);
    if (lanes == 0) continue;
    const GroupState& state = tracker_.state(group);
    const int load = std::popcount(state.running & lanes) + std::popcount(state.pending & lanes);
    if (load < least_load) least = {group, lanes};
    if (at < first_at) first = {group, lanes};
    least_load = std::min(least_load, load);
    first_at = std::min(first_at, at);
    known &= at < kUnknown;
  }
  if (least.lanes == 0) return;
  const Kept& best = known ? first : least;
  tracker_.keep(best.group, best.lanes);
  kept_for_mixed_.push_back(best);
}

void Dispatcher::release(std::vector<Kept>& kept) {
  for (const Kept& one : kept) tracker_.release(one.group, one.lanes);
  kept.clear();
}

std::optional<Dispatcher::Parked> Dispatcher::oldest_parked(const TaskShape& shape) {
  std::optional<Parked> oldest;
  for (GroupId group = 0; group < tracker_.groups(); ++group) {
    for_each_lane(tracker_.state(group).pending, [&](unsigned index) {
      Work& work = lane(group, index).parked;
      if (work.shape != shape || (oldest && oldest->work->order < work.order)) return;
      oldest = Parked{group, index, &work};
    });
  }
  return oldest;
}

// When the oldest task of one lane that is not running became ready, as a number; nothing: there is
// none. What is parked came before what waits.
std::optional<std::uint64_t> Dispatcher::oldest_order(Kind kind) {
  if (parked_[kind] > 0 && !mutated(DispatchMutant::kStaysParked)) {
    return oldest_parked(shape_of(kind))->work->order;
  }
  if (singles_[kind].empty()) return std::nullopt;
  return singles_[kind].front().order;
}

// Gives an idle lane to the oldest task of its kind.
void Dispatcher::give(Kind kind, GroupId group, LaneMask lanes, Ticks now, Plan& plan) {
  bypassed_[kind] = 0;
  if (parked_[kind] == 0 || mutated(DispatchMutant::kStaysParked)) {
    Queue& queue = singles_[kind];
    Waiting& oldest = queue.front();
    place(oldest, group, lanes, now, plan);
    if (mutated(DispatchMutant::kLosesABlock) && oldest.task.blocks > 4) --oldest.task.blocks;
    if (oldest.next_block == oldest.task.blocks) queue.pop_front();
    return;
  }
  const Parked oldest = *oldest_parked(shape_of(kind));
  const auto index = static_cast<unsigned>(std::countr_zero(lanes));
  Work work = std::exchange(*oldest.work, {});
  work.start = now;
  tracker_.unpark(oldest.group, oldest.lane);
  tracker_.run(group, lanes);
  lane(group, index).running = work;
  --parked_[kind];
  plan.moves.push_back({work.part.task, work.part.block, oldest.group, group, oldest.lane, index});
}

void Dispatcher::serve_singles(Ticks now, Plan& plan) {
  std::array<bool, 2> stuck{};
  for (;;) {
    std::optional<Kind> next;
    std::uint64_t least = 0;
    for (const Kind kind : {kMatrix, kVector}) {
      const auto order = stuck[kind] ? std::nullopt : oldest_order(kind);
      if (!order || (next && *order > least)) continue;
      next = kind;
      least = *order;
    }
    if (!next) return;
    if (!serve_single(*next, now, plan) && !(options_.backfills && backfill(*next, now, plan))) {
      stuck[*next] = true;
    }
  }
}

bool Dispatcher::serve_single(Kind kind, Ticks now, Plan& plan) {
  const auto open = tracker_.find_open(shape_of(kind));
  if (open) give(kind, open->group, open->lanes, now, plan);
  return open.has_value();
}

bool Dispatcher::backfill(Kind kind, Ticks now, Plan& plan) {
  const bool is_parked = parked_[kind] > 0 && !mutated(DispatchMutant::kStaysParked);
  const Ticks cost =
      is_parked ? oldest_parked(shape_of(kind))->work->cost : singles_[kind].front().task.cost;
  if (cost == 0) return false;
  const Ticks end = now + cost;
  const bool careful = !mutated(DispatchMutant::kBackfillsLate);
  const auto give_kept = [&](const std::vector<Kept>& all, const auto& may_start) {
    for (const Kept& kept : all) {
      const LaneMask lanes = choose_lanes(tracker_.spec(kept.group), shape_of(kind),
                                          kept.lanes & tracker_.idle(kept.group));
      if (lanes == 0 || may_start(kept.group)) continue;
      give(kind, kept.group, lanes, now, plan);
      return true;
    }
    return false;
  };
  if (give_kept(kept_for_mixed_,
                [&](GroupId group) { return careful && mixed_may_start(group, end); })) {
    return true;
  }
  if (kept_for_cohort_.empty() || (careful && cohort_may_start(end))) return false;
  return give_kept(kept_for_cohort_, [](GroupId) { return false; });
}

// What found no idle lane waits behind what has run longest.
void Dispatcher::park_singles(Ticks now, Plan& plan) {
  for (const Kind kind : {kMatrix, kVector}) {
    Queue& queue = singles_[kind];
    while (!queue.empty()) {
      GroupId best = 0;
      unsigned best_lane = 0;
      const Work* longest = nullptr;
      for (GroupId group = 0; group < tracker_.groups(); ++group) {
        const GroupSpec& spec = tracker_.spec(group);
        const LaneMask lanes =
            tracker_.parkable(group) & (kind == kMatrix ? spec.matrix : spec.vector);
        for_each_lane(lanes, [&](unsigned index) {
          const Work& work = lane(group, index).running;
          if (longest != nullptr && longest->start <= work.start) return;
          longest = &work;
          best = group;
          best_lane = index;
        });
      }
      if (longest == nullptr) break;
      place(queue.front(), best, LaneMask{1} << best_lane, now, plan);
      if (queue.front().next_block == queue.front().task.blocks) queue.pop_front();
    }
  }
}

}  // namespace dovetail::cores
