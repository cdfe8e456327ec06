// What the threads of an executor do.

#include "cores/executor_threads.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "cores/mutation.h"

namespace dovetail::cores {
namespace {

// How often a thread that looks for work asks the others for what they have not reported.
constexpr int kSpinsPerVisit = 64;
// Work that a caller who waits for room does before it looks whether there is some.
constexpr int kWorkPerVisit = 8;

}  // namespace

// Serves the thread's lanes: until the executor stops, or until what the caller waits for.
void LaneThreads::serve(Thread& self, const Until* until) {
  if (until != nullptr) {
    submitting_.store(false, std::memory_order_relaxed);
    for (Lane* lane : self.lanes) lane->takes = true;
  }
  int spins = 0;
  int work = 0;
  for (;;) {
    // Read before anything is looked at, stop_ included, so that no signal is slept through.
    const std::uint32_t seen = self.wake.load(std::memory_order_acquire);
    if (until == nullptr && stop_.load(std::memory_order_acquire)) return;
    bool worked = false, assigned = false, takes = false;
    for (Lane* lane : self.lanes) {
      const Did did = step(self, *lane);
      worked |= did != Did::kNothing;
      assigned |= did == Did::kAssigned;
      takes |= lane->takes;
    }
    if (worked) {
      spins = 0;
      const bool may_leave = until != nullptr && !until->all && ++work % kWorkPerVisit == 0;
      if ((assigned || may_leave) && help_schedule(self, until, false)) return;
      continue;
    }
    if (takes) {
      const bool gives_up = spins >= kSpins;
      if (is_due(until, spins) || gives_up) {
        if (help_schedule(self, until, gives_up)) return;
      } else if (!self.searching) {
        start_searching(self);
      }
      ++spins;
      if (!has_work()) pause_briefly();
      continue;
    }
    if (until != nullptr && help_schedule(self, until, true)) return;
    sleep(self, seen);
    spins = 0;
  }
}

// Whether a thread that has looked for work in vain so often should do the scheduling.
bool LaneThreads::is_due(const Until* until, int spins) const {
  if (vector_ring_.closed() || spins % kSpinsPerVisit == kSpinsPerVisit - 1) return true;
  // Only the caller may read recording_ while it has no block.
  const bool replays = until != nullptr && recording_ != nullptr;
  if (replays && sinks_left_.load(std::memory_order_acquire) == 0) return true;
  // A caller that submits hears of what has ended by itself, without a fight for the lock.
  if (spins > 0 || submitting_.load(std::memory_order_relaxed)) return false;
  return (until != nullptr && !replays) ||
         std::any_of(threads_.begin(), threads_.end(),
                     [](const auto& thread) { return has_unheard(*thread); });
}

// One thing that the lane has to do, if there is one.
LaneThreads::Did LaneThreads::step(Thread& self, Lane& lane) {
  switch (lane.signal.load(std::memory_order_acquire)) {
    case Signal::kNone:
      break;
    case Signal::kTake:
      lane.signal.store(Signal::kNone, std::memory_order_relaxed);
      lane.takes = true;
      self.searching = true;  // the sender has set looks_for
      break;
    case Signal::kRun:
      lane.signal.store(Signal::kNone, std::memory_order_relaxed);
      // Another lane of the thread may have reported something, or be counted on.
      stop_searching(self);
      if (self.lanes.size() > 1 && idle_.load(std::memory_order_seq_cst) > 0) {
        const Lock guard(*this, self.to_notify);
        collect();
        dispatch({});
      }
      run_assigned(self, lane);
      lane.takes = true;
      return Did::kAssigned;
  }
  if (!lane.takes) return Did::kNothing;
  const auto claim = take(lane);
  if (!claim) return Did::kNothing;
  stop_searching(self);
  // Other threads may wait for what this thread has reported. The claim comes between the report
  // and the read of idle_, and a thread that becomes idle says so before it reads the reports: one
  // of the two sees the other. Or they wait for what was published while the publisher counted on
  // this thread: the publication came before its read of looks_for, and this thread reads the rings
  // after it has changed looks_for.
  const bool idle = idle_.load(std::memory_order_seq_cst) > 0;
  const bool asked = idle || wide_.load(std::memory_order_relaxed) > 0;
  if ((asked && has_unheard(self)) || (idle && has_work())) {
    const Lock guard(*this, self.to_notify);
    collect();
    dispatch({});
  }
  run_taken(self, lane, *claim);
  return Did::kTaken;
}

// Of its lanes, those that take.
LaneThreads::Kinds LaneThreads::takers(const Thread& self) {
  Kinds kinds;
  for (const Lane* lane : self.lanes) {
    kinds.matrix += lane->takes && lane->matrix ? 1 : 0;
    kinds.vector += lane->takes && lane->vector ? 1 : 0;
  }
  return kinds;
}

void LaneThreads::start_searching(Thread& self) {
  const Kinds kinds = takers(self);
  const bool matrix = kinds.matrix > 0, vector = kinds.vector > 0;
  self.searching = true;
  // What a combiner has added meanwhile may get lost: then another thread is woken in vain.
  self.looks_for.store((matrix ? kLooksForMatrix : 0) | (vector ? kLooksForVector : 0),
                       std::memory_order_seq_cst);
}

// The oldest block that the lane can do.
std::optional<ReadyRing::Claim> LaneThreads::take(const Lane& lane) {
  if (const auto soon = (lane.vector ? vector_ring_ : matrix_ring_).soon()) {
    __builtin_prefetch(&body(*soon));
  }
  if (uniform_) {
    const auto claim = handoff_.take();
    return claim ? claim : vector_ring_.take();
  }
  if (!lane.matrix) return vector_ring_.take();
  if (!lane.vector) return matrix_ring_.take();
  const auto matrix = matrix_ring_.front();
  const auto vector = vector_ring_.front();
  const bool first = mutated(ExecutorMutant::kMatrixFirst);
  if (matrix && (!vector || *matrix < *vector || first)) return matrix_ring_.take();
  return vector ? vector_ring_.take() : std::nullopt;
}

void LaneThreads::run_taken(Thread& self, Lane& lane, const ReadyRing::Claim& claim) {
  for (std::optional<ReadyRing::Claim> next = claim; next;) {
    const TaskNumber task = next->task;
    std::uint32_t blocks = 0;
    do {
      if (!failed_.load(std::memory_order_relaxed)) {
        call(self, lane, {task, next->block, 0, 1, lane.group, lane.index, self.index});
      }
      ++blocks;
      // They are counted all at once. Threads of several lanes look at all of them after each
      // block.
      next = self.lanes.size() == 1 ? handoff_.take_of(task) : std::nullopt;
    } while (next);
    next = end_blocks(self, lane, task, blocks);
  }
}

void LaneThreads::call(Thread& self, Lane& lane, const Part& part, Ticks arrived) {
  const TaskFunction& function = function_of(part.task);
  if (!options_.trace && options_.stall_limit.count() == 0) return function(part);
  // The watchdog finds out itself for how long: the clock takes longer than a small block.
  lane.runs.store((part.task + 1) << kBlockBits | part.block, std::memory_order_relaxed);
  const Ticks start = options_.trace ? clock() : 0;
  function(part);
  lane.runs.store(0, std::memory_order_relaxed);
  if (options_.trace) {
    self.spans.push_back(
        {part.task, part.block, part.group, part.lane, arrived == 0 ? start : arrived, clock()});
  }
}

void LaneThreads::run_assigned(Thread& self, Lane& lane) {
  const Assigned work = lane.assigned;
  if (work.gate == Gates::kNone) {
    if (!failed_.load(std::memory_order_relaxed)) call(self, lane, work.part);
    if (are_last(blocks_left(work.task))) report(self, work.task);
  } else {
    const Ticks arrived = options_.trace ? clock() : 0;
    gates_.arrive(work.gate);
    for (int spin = 0; !gates_.may_start(work.gate); ++spin) {
      spin < kSpins ? pause_briefly() : std::this_thread::yield();
    }
    if (!gates_.skips(work.gate)) call(self, lane, work.part, arrived);
    if (gates_.end_part(work.gate)) report(self, kGateEnded | work.gate);
  }
}

// So many blocks of the task have ended on the lane, which goes on with what is returned.
std::optional<ReadyRing::Claim> LaneThreads::end_blocks(Thread& self, Lane& lane, TaskNumber task,
                                                        std::uint32_t blocks) {
  if (!are_last(blocks_left(task), blocks)) return std::nullopt;
  // A lane that would have to look for something to do anyway makes ready who waited for the task.
  // Where there is something, or comes of what was reported, that is older, and combiners hear of
  // many ends at once.
  const bool goes_on = recording_ != nullptr && self.lanes.size() == 1;
  if (goes_on && is_drained() && !has_unheard(self)) return go_on(self, lane, task);
  report(self, task);
  return std::nullopt;
}

// The task of the recording has ended, and nothing is ready. The lane goes on with a block of what
// that makes ready, without having been idle. Where that is one task that any lane can do, the lock
// is not taken: other lanes find its further blocks in the handoff.
//
// A mixed task or a gang that becomes ready meanwhile closes the rings and the handoff after this
// thread has seen them open: the block counts as one that was taken before.
std::optional<ReadyRing::Claim> LaneThreads::go_on(Thread& self, Lane& lane, TaskNumber task) {
  self.finished.store(self.finished.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  const auto successors = recording_->successors(task);
  if (successors.empty()) {
    // After the last one the caller may do anything with the recording.
    if (sinks_left_.fetch_sub(1, std::memory_order_acq_rel) == 1 && self.index != 0) {
      const Lock guard(*this, self.to_notify);
      wake_caller();
    }
    return std::nullopt;
  }
  self.ready.clear();
  for (const std::uint32_t successor : successors) {
    if (are_last(progress_[successor].waits)) self.ready.push_back(successor);
  }
  if (self.ready.empty()) return std::nullopt;
  if (self.ready.size() == 1 && runs_on(lane, self.ready.front())) {
    const ReadyRing::Claim first = {self.ready.front(), 0};
    const std::uint32_t blocks = spec_of(first.task).blocks;
    if (blocks == 1) return first;
    if (uniform_ && first.task < Handoff::kMaxTasks && handoff_.offer(first.task, blocks)) {
      // Who becomes idle says so before it looks at the handoff a last time.
      if (idle_.load(std::memory_order_seq_cst) > 0) {
        const Lock guard(*this, self.to_notify);
        dispatch({});
      }
      return first;
    }
  }
  const Lock guard(*this, self.to_notify);
  newly_ready_.insert(newly_ready_.end(), self.ready.begin(), self.ready.end());
  make_ready();
  const auto claim = take_unpublished(lane);
  dispatch(claim ? Kinds() : takers(self));
  return claim;
}

// Whether the lane can do the task as it is.
bool LaneThreads::runs_on(const Lane& lane, TaskNumber task) const {
  return fits(lane, spec_of(task)) && condition_of(task) == nullptr;
}

// Whether any of its blocks can run on the lane, by itself.
bool LaneThreads::fits(const Lane& lane, const TaskSpec& spec) {
  const TaskShape& shape = spec.shape;
  return shape.lanes() == 1 && !shape.whole_group && !spec.is_wide() &&
         (shape.matrix > 0 ? lane.matrix : lane.vector);
}

void LaneThreads::report(Thread& self, std::uint64_t what) {
  const std::uint64_t tail = self.ended_tail.load(std::memory_order_relaxed);
  self.ended[tail & ended_mask_].store(what, std::memory_order_relaxed);
  // In one order with the looks at idle_ that follow.
  self.ended_tail.store(tail + 1, std::memory_order_seq_cst);
}

// Does the scheduling that is due. Lanes of the thread that find nothing to take stay, or with
// `gives_up` become idle; where a mixed task may want them they do at once. True: what the caller
// waits for has come about, and its lanes are closed.
bool LaneThreads::help_schedule(Thread& self, const Until* until, bool gives_up) {
  const Lock guard(*this, self.to_notify);
  collect();
  const auto free_lanes = [&] {
    bool any = false;
    for (Lane* lane : self.lanes) {
      const LaneMask bit = LaneMask{1} << lane->index;
      const bool pending = (dispatcher_.tracker().state(lane->group).pending & bit) != 0;
      const bool work =
          !closed_ && (handoff_.blocks() > 0 || (lane->matrix && matrix_ring_.blocks(1) > 0) ||
                       (lane->vector && vector_ring_.blocks(1) > 0));
      if (!lane->takes || !(closed_ || pending || (gives_up && !work))) continue;
      lane->takes = false;
      free_lane(*lane);
      any = true;
    }
    return any;
  };
  if (free_lanes()) {
    stop_searching(self);
    count_idle();
    // Collects the reports that came before others could see these lanes idle.
    collect();
  }
  if (until != nullptr && reached(*until) && leave_lanes(self)) {
    until_ = nullptr;
    if (until->all) waited_for_ = graph_.submitted();
    dispatch({});
    return true;
  }
  if (gives_up && until != nullptr) until_ = until;
  dispatch(self.searching ? Kinds() : takers(self));
  return false;
}

void LaneThreads::sleep(Thread& self, std::uint32_t seen) {
  for (int spin = 0; spin < kSpins; ++spin) {
    if (self.wake.load(std::memory_order_acquire) != seen) return;
    pause_briefly();
  }
  self.asleep.store(true, std::memory_order_seq_cst);
  while (self.wake.load(std::memory_order_seq_cst) == seen) self.wake.wait(seen);
  self.asleep.store(false, std::memory_order_relaxed);
}

}  // namespace dovetail::cores
