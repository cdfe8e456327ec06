// The watchdog of an executor.

#include <algorithm>
#include <chrono>
#include <utility>

#include "cores/executor.h"
#include "cores/names.h"

namespace dovetail::cores {
namespace {

// Between two looks, at least.
constexpr std::chrono::milliseconds kShortestWatch{1};
// How often a copy of the dispatcher is asked for more.
constexpr int kMostRounds = 1000;

void keep_one_of_each(std::vector<TaskNumber>& tasks) {
  std::sort(tasks.begin(), tasks.end());
  tasks.erase(std::unique(tasks.begin(), tasks.end()), tasks.end());
}

}  // namespace

// Looks four times in each limit; what has not changed in between stands still. Lanes write down
// what they run and nothing else, which costs them next to nothing.
void Executor::watch() {
  const auto stops = [this] { return stop_.load(std::memory_order_relaxed); };
  std::unique_lock guard(watch_lock_);
  std::vector<Watched> lanes(lane_count_);
  Ticks last_change = clock();
  std::uint64_t ended_then = 0, run_then = 0;
  bool told = false;
  std::vector<Thread*> to_notify;
  for (;;) {
    if (watchdog_sleeps_.load()) {
      watch_ends_.wait(guard, [&] { return stops() || !watchdog_sleeps_.load(); });
      last_change = clock();
    }
    if (watch_ends_.wait_for(guard, std::max(options_.stall_limit / 4, kShortestWatch), stops))
      return;
    StallFacts known;
    {
      const Keeper keeper(*this, to_notify);
      collect();
      dispatch({});
      const Ticks time = clock();
      const bool rests = nothing_left() && (told || !submitter_is_late());
      if (rests) watchdog_sleeps_.store(true);
      bool changed = rests || ended() != ended_then;
      ended_then = ended();
      // Each run of a recording has tasks of the same numbers.
      const bool other_run = std::exchange(run_then, ended_before_) != ended_before_;
      for (std::size_t index = 0; index < lane_count_; ++index) {
        const std::uint64_t runs = lanes_[index].runs.load(std::memory_order_relaxed);
        if (runs == lanes[index].runs && !other_run) continue;
        lanes[index] = {runs, time};
        changed = true;
      }
      if (changed) {
        last_change = time;
        told = false;
        continue;
      }
      if (told || std::chrono::nanoseconds(time - last_change) < options_.stall_limit) continue;
      known = facts(time, last_change, lanes);
    }
    told = true;
    if (options_.on_stall) options_.on_stall(classify_stall(known));
  }
}

// After something was started and the lock let go: either the watchdog has seen it, or this sees
// that it sleeps.
void Executor::wake_watchdog() {
  if (!watchdog_sleeps_.load(std::memory_order_relaxed)) return;
  {
    const std::lock_guard guard(watch_lock_);
    watchdog_sleeps_.store(false);
  }
  watch_ends_.notify_one();
}

bool Executor::nothing_left() const {
  return recording_ != nullptr ? sinks_left_.load() == 0 : graph_.running() == 0;
}

// Whether the caller has submitted something and does not wait for it.
bool Executor::submitter_is_late() const {
  return recording_ == nullptr && graph_.submitted() > waited_for_ &&
         submitting_.load(std::memory_order_relaxed);
}

// As much as it takes to tell which kind of stall it is, and to say what to look at: whoever asks
// holds the lock.
StallFacts Executor::facts(Ticks time, Ticks last_change, std::span<const Watched> lanes) const {
  StallFacts known;
  known.since = std::chrono::nanoseconds(time - last_change);
  known.lanes = static_cast<std::uint32_t>(lane_count_);
  known.idle_lanes = idle_lanes_;
  see_running(time, lanes, known);
  if (known.running == 0) see_ready(known);
  if (known.running == 0 && known.ready == 0) see_waiting(known);
  return known;
}

void Executor::see_running(Ticks time, std::span<const Watched> lanes, StallFacts& known) const {
  std::vector<TaskNumber> running;
  for (std::size_t index = 0; index < lane_count_; ++index) {
    const Watched& watched = lanes[index];
    if (watched.runs == 0) continue;
    const TaskNumber task = (watched.runs >> kBlockBits) - 1;
    running.push_back(task);
    const std::chrono::nanoseconds lasts(time - watched.since);
    if (known.longest_running && known.longest_running->lasts >= lasts) continue;
    const Lane& one = lanes_[index];
    known.longest_running = {task, static_cast<std::uint32_t>(watched.runs & ReadyRing::kMaxBlocks),
                             lane_name(topology_.groups()[one.group], one.group, one.index), lasts};
  }
  keep_one_of_each(running);
  known.running = running.size();
}

// In the rings, with the dispatcher, parked, or given to lanes that have not come to it.
void Executor::see_ready(StallFacts& known) const {
  std::vector<TaskNumber> ready;
  const auto add = [&](TaskNumber task) { ready.push_back(task); };
  if (const auto task = relay_.front()) add(*task);
  matrix_ring_.for_each(add);
  vector_ring_.for_each(add);
  for (std::size_t index = 0; index < lane_count_; ++index) {
    const Lane& lane = lanes_[index];
    const GroupState& state = dispatcher_.tracker().state(lane.group);
    if ((state.pending >> lane.index & 1) != 0) add(lane.parked.task);
    if (lane.signal.load(std::memory_order_relaxed) == Signal::kRun) add(lane.assigned.task);
  }
  const std::size_t unnamed = add_waiting_for_lanes(ready);
  keep_one_of_each(ready);
  known.ready = ready.size() + unnamed;
  if (!ready.empty()) known.oldest_ready = {ready.front(), spec_of(ready.front()).shape};
  if (submitting_.load(std::memory_order_relaxed)) {
    known.caller_lanes = static_cast<std::uint32_t>(threads_[0]->lanes.size());
  }
}

// Tasks with blocks that the dispatcher has given to no lane: those that a copy of it gives away,
// whose lanes end whatever they have. The others' number, if there are too many to ask for.
std::size_t Executor::add_waiting_for_lanes(std::vector<TaskNumber>& tasks) const {
  if (dispatcher_.waiting() == 0) return 0;
  Dispatcher asked = dispatcher_;
  Dispatcher::Plan plan;
  for (int round = 0; round < kMostRounds && asked.waiting() > 0; ++round) {
    for (std::size_t index = 0; index < lane_count_; ++index) {
      const Lane& lane = lanes_[index];
      const GroupState& state = asked.tracker().state(lane.group);
      while ((state.running >> lane.index & 1) != 0) asked.finish(lane.group, lane.index, now());
    }
    plan.clear();
    asked.plan(now(), plan);
    for (const Placement& placement : plan.placements) tasks.push_back(placement.task);
  }
  return asked.waiting();
}

// What is left: waits for others, or was taken by a lane that has not said that it ended.
void Executor::see_waiting(StallFacts& known) const {
  if (recording_ == nullptr) {
    known.waiting = graph_.running();
    if (const auto oldest = graph_.oldest_waiting()) {
      known.oldest_waiting = {oldest->task, oldest->left, oldest->waits_for};
    }
    if (graph_.held_from() < graph_.submitted()) known.scope = graph_.held_from();
    return;
  }
  // Some end may be counted that is not one of the last yet.
  known.waiting = std::max<std::uint64_t>(1, recording_->size() - (ended() - ended_before_));
  // Whoever ends the last task that another one waits for need not write that down, so that those
  // that seem to wait for one may have ended.
  for (TaskNumber task = 0; task < recording_->size(); ++task) {
    const std::uint32_t left = progress_[task].waits.load(std::memory_order_relaxed);
    if (left < 2) continue;
    known.oldest_waiting = {task, left, std::nullopt};
    return;
  }
}

}  // namespace dovetail::cores
