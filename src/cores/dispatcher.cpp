#include "cores/dispatcher.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <limits>
#include <utility>

#include "cores/mutation.h"

namespace dovetail::cores {
namespace {

bool is_gang(const ReadyTask& task) { return task.together && task.blocks > 1; }

}  // namespace

Dispatcher::Dispatcher(const Topology& topology, const DispatchOptions& options)
    : options_(options), tracker_(topology) {
  std::size_t lanes = 0;
  one_kind_ = !mutated(DispatchMutant::kKindsApart);
  for (const GroupSpec& spec : topology.groups()) {
    first_lane_.push_back(lanes);
    lanes += static_cast<std::size_t>(std::bit_width(spec.all()));
    one_kind_ &= spec.matrix == spec.vector;
    lane_count_[kMatrix] += static_cast<std::uint64_t>(std::popcount(spec.matrix));
    lane_count_[kVector] += static_cast<std::uint64_t>(std::popcount(spec.vector));
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

void Dispatcher::add(const ReadyTask& task, std::uint64_t order) {
  assert(check(task));
  Queue& queue = queue_of(task);
  const Waiting waiting = {task, order, task.first_block};
  next_order_ = std::max(next_order_, order + 1);
  if (mutated(DispatchMutant::kYoungestFirst) && !task.shape.is_mixed())
    queue.push_front(waiting);
  else
    queue.push_back(waiting);
}

Dispatcher::Queue& Dispatcher::queue_of(const ReadyTask& task) {
  if (is_gang(task)) return gangs_;
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
  std::size_t count = gangs_.size() + singles_[kMatrix].size() + singles_[kVector].size();
  for (const ShapeQueue& of : mixed_) count += of.tasks.size();
  return count;
}

void Dispatcher::plan(Ticks now, Plan& plan) {
  serve_overdue(now, plan);
  std::size_t placed = 0;
  do {
    serve_gangs(now, plan);
    if (mutated(DispatchMutant::kAllForAGang) && !gangs_.empty()) return;
    placed = plan.placements.size();
    serve_mixed(now, plan);
    // Lanes that were reserved for a mixed task which found others may be all that a gang misses.
  } while (!gangs_.empty() && plan.placements.size() > placed);
  serve_singles(now, plan);
  if (options_.pending_slots) pend_singles(now, plan);
}

std::optional<Dispatcher::Part> Dispatcher::finish(GroupId group, unsigned index, Ticks now) {
  Lane& ended = lane(group, index);
  if (!tracker_.finish(group, index)) return std::nullopt;
  if (!ended.pending.shape.is_mixed()) {
    const Kind kind = kind_of(ended.pending.shape);
    bypassed_[kind] = 0;
    // What is pending elsewhere may be older.
    const auto oldest = oldest_pending(kind);
    if (oldest && oldest->work->order < ended.pending.order) {
      std::swap(ended.pending, *oldest->work);
    }
  }
  ended.running = std::exchange(ended.pending, {});
  ended.running.start = now;
  if (!ended.running.shape.is_mixed()) --pending_[kind_of(ended.running.shape)];
  if (ended.running.staged) open_staged(group, index, now);
  return ended.running.part;
}

AdmissionPolicy Dispatcher::policy() const {
  return mutated(DispatchMutant::kAdmitsInParts) ? AdmissionPolicy::kPerCore : options_.policy;
}

// Gives the next block of a task to these lanes, which admit it: idle ones run it, busy ones have
// it pending.
void Dispatcher::place(Waiting& waiting, GroupId group, LaneMask lanes, Ticks now, Plan& plan) {
  const bool stages = options_.may_stage() && waiting.task.shape.is_mixed();
  const Admission how =
      admit(stages ? AdmissionPolicy::kPerCore : policy(), tracker_.state(group), lanes);
  assert(how != Admission::kRefused);
  const LaneMask running = how == Admission::kRun    ? lanes
                           : how == Admission::kPend ? 0
                                                     : lanes & tracker_.idle(group);
  const LaneMask pending = lanes & ~running;
  const ReadyTask& task = waiting.task;
  const Work work = {{task.id, waiting.next_block}, waiting.order, task.shape, task.cost, now,
                     stages && pending != 0};
  tracker_.run(group, running);
  tracker_.pend(group, pending);
  for_each_lane(running, [&](unsigned index) { lane(group, index).running = work; });
  for_each_lane(pending, [&](unsigned index) { lane(group, index).pending = work; });
  plan.placements.push_back({task.id, waiting.next_block++, group, running, pending});
  if (task.shape.is_mixed() || is_gang(task)) {
    count_bypass(group, lanes);
  } else if (pending != 0) {
    ++pending_[kind_of(task.shape)];
  }
}

LaneMask Dispatcher::lanes_for(Kind kind, GroupId group) const {
  const GroupSpec& spec = tracker_.spec(group);
  return kind == kMatrix ? spec.matrix : spec.vector;
}

// A part that takes a lane passes over those that could have used it.
void Dispatcher::count_bypass(GroupId group, LaneMask lanes) {
  for (const Kind kind : {kMatrix, kVector}) {
    if (singles_[kind].empty() && pending_[kind] == 0) continue;
    bypassed_[kind] += static_cast<std::uint64_t>(std::popcount(lanes & lanes_for(kind, group)));
  }
}

// Once so many parts have passed over the oldest task of a single lane, it is its turn.
std::uint64_t Dispatcher::turn_after(Kind kind) const {
  const std::uint64_t parts = options_.starvation_bound * lane_count_[kind];
  return mutated(DispatchMutant::kHalfTheBound) ? (parts + 1) / 2 : parts;
}

// An idle lane for the kind, at worst one that is reserved for a mixed task or a gang.
std::optional<GroupTracker::Place> Dispatcher::idle_place(Kind kind) const {
  if (const auto open = tracker_.find_open(shape_of(kind))) return open;
  for (const auto* all : {&reserved_for_mixed_, &reserved_for_gang_}) {
    for (const Reservation& reserved : *all) {
      const LaneMask lanes = choose_lanes(tracker_.spec(reserved.group), shape_of(kind),
                                          reserved.lanes & tracker_.idle(reserved.group));
      if (lanes != 0) return GroupTracker::Place{reserved.group, lanes};
    }
  }
  return std::nullopt;
}

// The kind whose oldest task is to have the lane, where it is the turn of this one.
Dispatcher::Kind Dispatcher::oldest_for(Kind kind, const GroupTracker::Place& place) {
  const Kind other = kind == kMatrix ? kVector : kMatrix;
  if ((lanes_for(other, place.group) & place.lanes) == 0) return kind;
  if (mutated(DispatchMutant::kKindsApart)) return kind;
  const auto order = oldest_order(other);
  return order && *order < *oldest_order(kind) ? other : kind;
}

// Tasks of a single lane that others have passed over often enough: any idle lane will do, also one
// that is reserved. Where that does both kinds of work, the oldest of both has the turn.
void Dispatcher::serve_overdue(Ticks now, Plan& plan) {
  if (mutated(DispatchMutant::kNoStarvationBound)) return;
  for (const Kind kind : {kMatrix, kVector}) {
    if (bypassed_[kind] < turn_after(kind) || !oldest_order(kind)) continue;
    const auto place = idle_place(kind);
    if (!place) continue;
    give(oldest_for(kind, *place), place->group, place->lanes, now, plan);
    bypassed_[kind] = 0;
  }
}

void Dispatcher::serve_gangs(Ticks now, Plan& plan) {
  while (!gangs_.empty()) {
    if (mixed_overdue()) serve_overdue_mixed(now, plan);
    if (!start_gang(gangs_.front(), now, plan)) {
      if (!reserved_for_gang_.empty() || mixed_overdue()) return;
      reserve_for_gang(gangs_.front());
      // Lanes that had been reserved for a mixed task may be all that was missing.
      if (!start_gang(gangs_.front(), now, plan)) return;
    }
    const auto mixed = oldest_mixed();
    if (mixed && mixed_[*mixed].tasks.front().order < gangs_.front().order) ++mixed_bypassed_;
    gangs_.pop_front();
    serve_overdue(now, plan);
  }
}

// Whether gangs have passed over the oldest mixed task often enough.
bool Dispatcher::mixed_overdue() const {
  return mixed_bypassed_ >= options_.starvation_bound &&
         options_.policy == AdmissionPolicy::kStrict && oldest_mixed() &&
         !mutated(DispatchMutant::kGangsForEver);
}

// All blocks, or none.
bool Dispatcher::start_gang(Waiting& waiting, Ticks now, Plan& plan) {
  const TaskShape& shape = waiting.task.shape;
  std::vector<LaneMask> own(tracker_.groups(), 0);
  for (const Reservation& reserved : reserved_for_gang_) own[reserved.group] |= reserved.lanes;
  const auto usable = [&](GroupId group) {
    return tracker_.open(group) | (tracker_.idle(group) & own[group]);
  };
  std::size_t count = 0;
  for (GroupId group = 0; group < tracker_.groups() && count < waiting.task.blocks; ++group) {
    count += places(shape, group, usable(group), waiting.task.blocks - count);
  }
  if (count < waiting.task.blocks && !mutated(DispatchMutant::kGangInParts)) return false;
  release(reserved_for_gang_);
  for (GroupId group = 0; group < tracker_.groups(); ++group) {
    while (waiting.next_block < waiting.task.blocks) {
      const LaneMask lanes = choose_lanes(tracker_.spec(group), shape, tracker_.open(group));
      if (lanes == 0) break;
      place(waiting, group, lanes, now, plan);
    }
  }
  return waiting.next_block == waiting.task.blocks;
}

// As many places as it needs are reserved: those that come free first, as far as that is known, and
// of these those with the least to do before the others.
void Dispatcher::reserve_for_gang(const Waiting& waiting) {
  release(reserved_for_mixed_);
  const Ticks start = start_of_gang(waiting.task);
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
      tracker_.reserve(group, lanes);
      reserved_for_gang_.push_back({group, lanes});
      ++count;
    }
  }
}

// The next block of the oldest mixed task goes before the gangs.
void Dispatcher::serve_overdue_mixed(Ticks now, Plan& plan) {
  release(reserved_for_gang_);
  Queue& queue = mixed_[*oldest_mixed()].tasks;
  Waiting& oldest = queue.front();
  if (!place_mixed(oldest, true, now, plan)) {
    if (reserved_for_mixed_.empty()) reserve_for_mixed(oldest);
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
      if (oldest) release(reserved_for_mixed_);
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
      if (mutated(DispatchMutant::kChoosesAgain)) release(reserved_for_mixed_);
      if (reserved_for_mixed_.empty()) reserve_for_mixed(waiting);
    }
    const bool needs_open = options_.policy == AdmissionPolicy::kStrict && !options_.stages;
    if (needs_open && !tracker_.any_open()) return;
    mixed_[*next].stuck = true;
    none_stuck = false;
  }
}

bool Dispatcher::place_mixed(Waiting& waiting, bool oldest, Ticks now, Plan& plan) {
  const TaskShape& shape = waiting.task.shape;
  if (mutated(DispatchMutant::kForgets) && waiting.order + 1 < next_order_) return false;
  if (const auto open = tracker_.find_open(shape)) {
    if (oldest) release(reserved_for_mixed_);
    if (oldest) mixed_bypassed_ = 0;
    place(waiting, open->group, open->lanes, now, plan);
    return true;
  }
  if (oldest && !reserved_for_mixed_.empty()) {
    const Reservation reserved = reserved_for_mixed_.front();
    const LaneMask usable =
        tracker_.open(reserved.group) | (tracker_.idle(reserved.group) & reserved.lanes);
    if (const LaneMask lanes = choose_lanes(tracker_.spec(reserved.group), shape, usable)) {
      release(reserved_for_mixed_);
      mixed_bypassed_ = 0;
      place(waiting, reserved.group, lanes, now, plan);
      return true;
    }
  }
  if (options_.may_stage()) return stage(waiting, oldest, now, plan);
  if (policy() == AdmissionPolicy::kStrict) return false;
  for (GroupId group = 0; group < tracker_.groups(); ++group) {
    const GroupState& state = tracker_.state(group);
    LaneMask pool = tracker_.open_pending(group);
    if (policy() == AdmissionPolicy::kPerCore) pool |= tracker_.open(group);
    const LaneMask lanes = choose_lanes(tracker_.spec(group), shape, pool);
    if (admit(policy(), state, lanes) == Admission::kRefused) continue;
    place(waiting, group, lanes, now, plan);
    return true;
  }
  return false;
}

// Chooses among lanes that are not reserved: those of the group where they come free first or,
// where that time is not known of all groups, of the group with the least to do. The other policies
// reserve no lanes: the parts go where they are admitted.
void Dispatcher::reserve_for_mixed(const Waiting& waiting) {
  if (options_.policy != AdmissionPolicy::kStrict) return;
  if (mutated(DispatchMutant::kReservesNothing)) return;
  Reservation least, first;
  int least_load = std::numeric_limits<int>::max();
  Ticks first_at = kPendingUnknown;
  bool known = true;
  for (GroupId group = 0; group < tracker_.groups(); ++group) {
    const LaneMask free = tracker_.spec(group).all() & ~tracker_.reserved(group);
    const auto [lanes, at] = soonest(group, waiting.task.shape, free);
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
  const Reservation& best = known ? first : least;
  tracker_.reserve(best.group, best.lanes);
  reserved_for_mixed_.push_back(best);
}

void Dispatcher::release(std::vector<Reservation>& reserved) {
  for (const Reservation& one : reserved) tracker_.release(one.group, one.lanes);
  reserved.clear();
}

std::optional<Dispatcher::Pending> Dispatcher::oldest_pending(Kind kind) {
  std::optional<Pending> oldest;
  for (GroupId group = 0; group < tracker_.groups(); ++group) {
    for_each_lane(tracker_.state(group).pending, [&](unsigned index) {
      Work& work = lane(group, index).pending;
      if (work.shape.is_mixed() || kind_of(work.shape) != kind) return;
      if (oldest && oldest->work->order < work.order) return;
      oldest = Pending{group, index, &work};
    });
  }
  return oldest;
}

// When the oldest task of one lane that is not running became ready, as a number; nothing: there is
// none. What is pending came before what waits.
std::optional<std::uint64_t> Dispatcher::oldest_order(Kind kind) {
  if (pending_[kind] > 0 && !mutated(DispatchMutant::kStaysPending)) {
    return oldest_pending(kind)->work->order;
  }
  if (singles_[kind].empty()) return std::nullopt;
  return singles_[kind].front().order;
}

// Gives an idle lane to the oldest task of its kind.
void Dispatcher::give(Kind kind, GroupId group, LaneMask lanes, Ticks now, Plan& plan) {
  bypassed_[kind] = 0;
  if (pending_[kind] == 0 || mutated(DispatchMutant::kStaysPending)) {
    Queue& queue = singles_[kind];
    Waiting& oldest = queue.front();
    place(oldest, group, lanes, now, plan);
    if (mutated(DispatchMutant::kLosesABlock) && oldest.task.blocks > 4) --oldest.task.blocks;
    if (oldest.next_block == oldest.task.blocks) queue.pop_front();
    return;
  }
  const Pending oldest = *oldest_pending(kind);
  const auto index = static_cast<unsigned>(std::countr_zero(lanes));
  Work work = std::exchange(*oldest.work, {});
  work.start = now;
  tracker_.unpend(oldest.group, oldest.lane);
  tracker_.run(group, lanes);
  lane(group, index).running = work;
  --pending_[kind];
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
  const bool is_pending = pending_[kind] > 0 && !mutated(DispatchMutant::kStaysPending);
  const Ticks cost =
      is_pending ? oldest_pending(kind)->work->cost : singles_[kind].front().task.cost;
  if (cost == 0) return false;
  const Ticks end = now + cost;
  const bool careful = !mutated(DispatchMutant::kBackfillsLate);
  const auto give_reserved = [&](const std::vector<Reservation>& all, const auto& may_start) {
    for (const Reservation& reserved : all) {
      const LaneMask lanes = choose_lanes(tracker_.spec(reserved.group), shape_of(kind),
                                          reserved.lanes & tracker_.idle(reserved.group));
      if (lanes == 0 || may_start(reserved.group)) continue;
      give(kind, reserved.group, lanes, now, plan);
      return true;
    }
    return false;
  };
  if (give_reserved(reserved_for_mixed_,
                    [&](GroupId group) { return careful && mixed_may_start(group, end); })) {
    return true;
  }
  if (reserved_for_gang_.empty() || (careful && gang_may_start(end))) return false;
  return give_reserved(reserved_for_gang_, [](GroupId) { return false; });
}

// Busy lanes behind which tasks of the kind may wait.
LaneMask Dispatcher::open_pending_for(Kind kind, GroupId group) const {
  const LaneMask lanes = tracker_.open_pending(group) & lanes_for(kind, group);
  if (one_kind_ || mutated(DispatchMutant::kKindsApart)) return lanes;
  return lanes & ~lanes_for(kind == kMatrix ? kVector : kMatrix, group);
}

// What found no idle lane waits behind what has run longest.
void Dispatcher::pend_singles(Ticks now, Plan& plan) {
  for (const Kind kind : {kMatrix, kVector}) {
    Queue& queue = singles_[kind];
    while (!queue.empty()) {
      GroupId best = 0;
      unsigned best_lane = 0;
      const Work* longest = nullptr;
      for (GroupId group = 0; group < tracker_.groups(); ++group) {
        for_each_lane(open_pending_for(kind, group), [&](unsigned index) {
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
