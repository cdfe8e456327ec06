// What the thread that holds the lock of an executor does for all threads.

#include "cores/executor_combiner.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <functional>
#include <utility>

#include "cores/mutation.h"

namespace dovetail::cores {

Combiner::Combiner(const Topology& topology, const ExecutorOptions& options)
    : ExecutorState(topology, options),
      graph_(options.graph),
      dispatcher_(topology, options.dispatch),
      slots_(topology.groups().size()),
      gates_(gate_count()) {
  if (options.outputs) {
    outputs_.emplace(*options.outputs);
    output_memory_.reserve(outputs_->capacity());
  }
  woken_.reserve(lane_count_);
  for (Lane* lane : threads_[0]->lanes) {
    dispatcher_.occupy(lane->group, LaneMask{1} << lane->index);
  }
  idle_lanes_ = static_cast<std::uint32_t>(lane_count_ - threads_[0]->lanes.size());
  count_idle();
}

// The caller's lanes are closed, unless one of them has been given something meanwhile.
bool Combiner::leave_lanes(Thread& self) {
  for (Lane* lane : self.lanes) {
    if (lane->signal.load(std::memory_order_relaxed) == Signal::kRun) return false;
    // Other parts of what is staged there wait for this one.
    const bool pending = (dispatcher_.tracker().state(lane->group).pending >> lane->index & 1) != 0;
    if (pending && gated_ && lane->pending.gate != Gates::kNone) return false;
  }
  for (Lane* lane : self.lanes) {
    const bool idle = !lane->takes && lane->signal.load(std::memory_order_relaxed) == Signal::kNone;
    if (idle) {
      dispatcher_.occupy(lane->group, LaneMask{1} << lane->index);
      --idle_lanes_;
    }
    lane->takes = false;
    lane->signal.store(Signal::kNone, std::memory_order_relaxed);
  }
  if (options_.trace) slots_.see_reserved(dispatcher_.tracker(), clock());
  count_idle();
  self.searching = true;  // also for lanes that have not seen that they were sent kTake
  stop_searching(self);
  submitting_.store(true, std::memory_order_relaxed);
  return true;
}

// Hears of all that has ended; what became ready is in the rings or with the dispatcher.
void Combiner::collect() {
  since_collect_ = 0;
  for (const auto& thread : threads_) {
    std::uint64_t head = thread->ended_head.load(std::memory_order_relaxed);
    const std::uint64_t tail = thread->ended_tail.load(std::memory_order_seq_cst);
    if (head == tail) continue;
    for (; head != tail; ++head) {
      const std::uint64_t what = thread->ended[head & ended_mask_].load(std::memory_order_relaxed);
      (what & kGateEnded) != 0 ? end_gate(static_cast<std::uint32_t>(what & ~kGateEnded))
                               : end_task(what);
    }
    thread->ended_head.store(head, std::memory_order_relaxed);
  }
  make_ready();
}

void Combiner::end_gate(std::uint32_t gate) {
  const TaskNumber task = gates_.task(gate);
  if (gates_.close(gate, blocks_left(task))) end_task(task);
}

void Combiner::end_task(TaskNumber task) {
  ++ended_;
  if (recording_ == nullptr) return graph_.finish(task);
  const auto successors = recording_->successors(task);
  if (successors.empty()) sinks_left_.fetch_sub(1, std::memory_order_acq_rel);
  for (const std::uint32_t successor : successors) {
    if (are_last(progress_[successor].waits)) newly_ready_.push_back(successor);
  }
}

// The task has nothing to do and ends at once: who waited for it goes before what is ready and was
// submitted later (TaskGraph::pass()).
void Combiner::pass(TaskNumber task) {
  if (recording_ == nullptr) {
    ++ended_;
    return graph_.pass(task);
  }
  const std::size_t before = newly_ready_.size();
  end_task(task);
  for (; newly_ready_.size() > before; newly_ready_.pop_back()) {
    passed_.push_back(newly_ready_.back());
    std::push_heap(passed_.begin(), passed_.end(), std::greater<>());
  }
}

// Puts ready tasks where lanes find them.
void Combiner::make_ready() {
  while (const auto task = graph_.take_ready()) make_ready(*task);
  for (std::size_t i = 0; i < newly_ready_.size() || !passed_.empty();) {
    if (passed_.empty() || (i < newly_ready_.size() && newly_ready_[i] < passed_.front())) {
      make_ready(newly_ready_[i++]);
      continue;
    }
    std::pop_heap(passed_.begin(), passed_.end(), std::greater<>());
    const TaskNumber task = passed_.back();
    passed_.pop_back();
    make_ready(task);
  }
  newly_ready_.clear();
}

void Combiner::make_ready(TaskNumber task) {
  const TaskSpec& spec = spec_of(task);
  if (spec.is_wide()) wide_.fetch_sub(1, std::memory_order_relaxed);
  const bool nothing_to_run = !spec.shape.whole_group && spec.shape.lanes() == 0;
  const Condition* condition = nothing_to_run ? nullptr : condition_of(task);
  if (nothing_to_run || (condition != nullptr && !condition->holds())) {
    pass(task);
  } else if (spec.is_wide()) {
    close_rings();
    dispatcher_.add({task, spec.shape, spec.blocks, spec.together, spec.cost}, next_order_++);
  } else {
    ring_of(spec.shape).push(task, spec.blocks, next_order_++);
  }
}

ReadyRing& Combiner::ring_of(const TaskShape& shape) {
  return shape.matrix > 0 && !uniform_ ? matrix_ring_ : vector_ring_;
}

// For the holder of the lock, before it publishes: the next block of the oldest task, if the lane
// can do it and that task is unpublished.
std::optional<ReadyRing::Claim> Combiner::take_unpublished(const Lane& lane) {
  if (handoff_.blocks() > 0) return std::nullopt;
  const auto matrix = lane.matrix ? matrix_ring_.oldest() : std::nullopt;
  const auto vector = lane.vector ? vector_ring_.oldest() : std::nullopt;
  if (matrix && (!vector || *matrix < *vector)) return matrix_ring_.take_unpublished();
  return vector ? vector_ring_.take_unpublished() : std::nullopt;
}

void Combiner::close_rings() {
  if (std::exchange(closed_, true)) return;
  handoff_.close();
  matrix_ring_.close();
  vector_ring_.close();
}

// The lane has nothing to do any more, as far as it knows.
void Combiner::free_lane(Lane& lane) {
  const auto next = dispatcher_.finish(lane.group, lane.index, now());
  if (!next) {
    ++idle_lanes_;
    return;
  }
  if (options_.trace) slots_.start(*next, lane.group, lane.index, clock());
  Assigned pending = lane.pending;
  if (pending.task != next->task || pending.part.block != next->block) {
    // Another lane's is older; it has got this lane's instead.
    for (std::size_t index = 0; index < lane_count_; ++index) {
      Lane& other = lanes_[index];
      const bool is_it =
          (dispatcher_.tracker().state(other.group).pending >> other.index & 1) != 0 &&
          other.pending.task == next->task && other.pending.part.block == next->block;
      if (is_it) std::swap(pending, other.pending);
    }
  }
  move_to(pending, lane);
  lane.assigned = pending;
  send(lane, Signal::kRun);
}

// Costs are in nanoseconds; where no cost is known, the clock is not read.
Ticks Combiner::now() const { return costs_known_ ? clock() : 0; }

// Everything that can be given to lanes. So many blocks in the rings are not worth waking anybody,
// since who calls takes them at once.
void Combiner::dispatch(const Kinds& takers) {
  if (closed_) {
    // Without idle lanes only those under other policies than the default are given anything.
    while (idle_lanes_ > 0 || options_.dispatch.pending_slots || options_.dispatch.stages ||
           options_.dispatch.policy != AdmissionPolicy::kStrict) {
      const bool more = refill();
      plan_.clear();
      dispatcher_.plan(now(), plan_);
      if (options_.trace) slots_.see_reserved(dispatcher_.tracker(), clock());
      deliver();
      if (!more || plan_.placements.empty()) break;
    }
  }
  // Before they are opened: refill() takes also what has not been published, and a head that lies
  // beyond what is published would look like work.
  matrix_ring_.publish();
  vector_ring_.publish();
  const bool opens = dispatcher_.waiting() == 0 && dispatcher_.tracker().pending() == 0;
  if (closed_ && (opens || mutated(ExecutorMutant::kOpensTooEarly))) {
    closed_ = false;
    matrix_ring_.open();
    vector_ring_.open();
    handoff_.open();
  }
  if (!closed_ && idle_lanes_ > 0) {
    wake_takers(true, takers.matrix);
    wake_takers(false, takers.vector);
  }
  count_idle();
  wake_caller();
}

// If it sleeps and need not wait any longer.
void Combiner::wake_caller() {
  if (until_ == nullptr || !reached(*until_)) return;
  until_ = nullptr;
  wake(*threads_[0]);
}

// The dispatcher knows of as many single-lane tasks of each kind as there are lanes, and hears of
// them in the order in which they became ready. True: there are more.
bool Combiner::refill() {
  const auto add = [&](const ReadyRing::Claim& rest, std::uint64_t order) {
    const TaskSpec& spec = spec_of(rest.task);
    dispatcher_.add({rest.task, spec.shape, spec.blocks, false, spec.cost, rest.block}, order);
  };
  // Was there before what is in the ring.
  if (const auto rest = handoff_.take_rest()) {
    const auto next = vector_ring_.oldest();
    add(*rest, next ? *next : next_order_++);
  }
  for (;;) {
    const std::size_t matrix = dispatcher_.waiting_singles(true);
    const std::size_t vector = dispatcher_.waiting_singles(false);
    const bool matrix_fits = matrix < lane_count_;
    const bool vector_fits = (uniform_ ? matrix + vector : vector) < lane_count_;
    const auto of_matrix = matrix_ring_.oldest();
    const auto of_vector = vector_ring_.oldest();
    ReadyRing* from = nullptr;
    if (of_matrix && matrix_fits) from = &matrix_ring_;
    if (of_vector && vector_fits && (from == nullptr || *of_vector < *of_matrix)) {
      from = &vector_ring_;
    }
    if (from == nullptr) return of_matrix || of_vector;
    const std::uint64_t order = *from->oldest();
    add(*from->take_rest(), order);
  }
}

void Combiner::deliver() {
  for (const Move& move : plan_.moves) {
    Lane& to = lane(move.to_group, move.to_lane);
    to.assigned = lane(move.from_group, move.from_lane).pending;
    move_to(to.assigned, to);
    if (options_.trace) slots_.unpend(move.from_group, move.from_lane, clock());
    --idle_lanes_;
    send(to, Signal::kRun);
  }
  for (std::size_t i = 0; i < plan_.placements.size();) {
    const Placement& first = plan_.placements[i];
    const TaskSpec& spec = spec_of(first.task);
    const bool gang = spec.together && spec.blocks > 1;
    std::size_t end = i + 1;
    // A gang's blocks are placed all at once.
    while (gang && end < plan_.placements.size() && plan_.placements[end].task == first.task) {
      ++end;
    }
    std::uint32_t start = Gates::kNone;
    std::uint32_t parts = 0;
    for (std::size_t j = i; j < end; ++j) {
      parts += static_cast<std::uint32_t>(
          std::popcount(plan_.placements[j].running | plan_.placements[j].pending));
    }
    if (gang) start = open_gate(first, Gates::kNone, parts);
    for (; i < end; ++i) {
      const Placement& placement = plan_.placements[i];
      std::uint32_t gate = Gates::kNone;
      if (gang || spec.shape.is_mixed()) {
        gate = gang && &placement == &first ? start : open_gate(placement, start, parts);
      }
      give(placement, gate);
    }
  }
}

std::uint32_t Combiner::open_gate(const Placement& placement, std::uint32_t start,
                                  std::uint32_t together) {
  const auto parts =
      static_cast<std::uint32_t>(std::popcount(placement.running | placement.pending));
  if (start != Gates::kNone) return gates_.join(start, parts);
  const TaskSpec& spec = spec_of(placement.task);
  return gates_.open(placement.task, parts, gated_ ? together : 0,
                     failed_.load(std::memory_order_relaxed), spec.together && spec.blocks > 1);
}

void Combiner::give(const Placement& placement, std::uint32_t gate) {
  const GroupSpec& group = topology_.groups()[placement.group];
  const LaneMask all = placement.running | placement.pending;
  Part part;
  part.task = placement.task;
  part.block = placement.block;
  part.parts = static_cast<std::uint32_t>(std::popcount(all));
  // Lanes for matrix work come first, as far as the shape asks for them.
  for (const LaneMask kind : {all & group.matrix, all & ~group.matrix}) {
    for (LaneMask rest = kind; rest != 0; rest &= rest - 1, ++part.part) {
      const auto index = static_cast<unsigned>(std::countr_zero(rest));
      Lane& one = lane(placement.group, index);
      Assigned assigned = {placement.task, part, gate};
      move_to(assigned, one);
      if ((placement.pending >> index & 1) != 0) {
        one.pending = assigned;
        if (options_.trace) {
          slots_.pend({placement.task, placement.block}, placement.group, index, clock());
        }
        continue;
      }
      one.assigned = assigned;
      --idle_lanes_;
      send(one, Signal::kRun);
    }
  }
}

void Combiner::move_to(Assigned& work, const Lane& lane) {
  work.part.group = lane.group;
  work.part.lane = lane.index;
  work.part.thread = lane.thread;
}

void Combiner::send(Lane& lane, Signal signal) {
  lane.signal.store(signal, std::memory_order_release);
  wake(*threads_[lane.thread]);
}

// Either this sees that the thread sleeps, or that sees that it was woken before it does.
void Combiner::wake(Thread& thread) {
  thread.wake.fetch_add(1, std::memory_order_seq_cst);
  if (thread.asleep.load(std::memory_order_seq_cst)) woken_.push_back(&thread);
}

// Idle lanes for what is in a ring, as far as no thread looks for it already.
void Combiner::wake_takers(bool matrix, std::uint64_t takers) {
  if (mutated(ExecutorMutant::kLetsSleep)) return;
  const ReadyRing& ring = matrix ? matrix_ring_ : vector_ring_;
  const std::uint64_t blocks = (matrix ? 0 : handoff_.blocks()) + ring.blocks(takers + lane_count_);
  std::uint64_t counted_on = takers;
  const std::uint32_t kind = matrix ? kLooksForMatrix : kLooksForVector;
  for (const auto& thread : threads_) {
    if (counted_on >= blocks) return;
    // After the publication: a thread that stops to look afterwards sees the block (step()).
    if ((thread->looks_for.load(std::memory_order_seq_cst) & kind) != 0) ++counted_on;
  }
  for (; counted_on < blocks; ++counted_on) {
    const auto place = dispatcher_.tracker().find_open(matrix ? kMatrixTask : kVectorTask);
    if (!place) return;
    dispatcher_.occupy(place->group, place->lanes);
    --idle_lanes_;
    Lane& woken = lane(place->group, static_cast<unsigned>(std::countr_zero(place->lanes)));
    Thread& thread = *threads_[woken.thread];
    // It has nothing else to do, where it has no other lanes.
    if (thread.lanes.size() == 1) thread.looks_for.fetch_or(kind, std::memory_order_relaxed);
    send(woken, Signal::kTake);
  }
}

bool Combiner::reached(const Until& until) const {
  if (recording_ != nullptr) return sinks_left_.load(std::memory_order_acquire) == 0;
  return graph_.running() == 0 || (!until.all && ended_ >= until.ended);
}

// Tasks, at least those of which something that the caller has seen depends.
std::uint64_t Combiner::ended() const {
  std::uint64_t sum = ended_;
  for (const auto& thread : threads_) sum += thread->finished.load(std::memory_order_relaxed);
  return sum;
}

void Combiner::count_idle() {
  if (idle_.load(std::memory_order_relaxed) != idle_lanes_) {
    idle_.store(idle_lanes_, std::memory_order_seq_cst);
  }
}

}  // namespace dovetail::cores
