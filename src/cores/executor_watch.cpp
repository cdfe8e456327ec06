#include "cores/executor_watch.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "cores/names.h"

namespace dovetail::cores {

namespace {

// How often a copy of the dispatcher is asked for more.
constexpr int kMaxRounds = 1000;

void keep_one_of_each(std::vector<TaskNumber>& tasks) {
  std::sort(tasks.begin(), tasks.end());
  tasks.erase(std::unique(tasks.begin(), tasks.end()), tasks.end());
}

}  // namespace

bool StallProbe::nothing_left() const {
  return run_.recording_ != nullptr ? run_.sinks_left_.load() == 0 : run_.graph_.running() == 0;
}

bool StallProbe::submitter_is_late() const {
  return run_.recording_ == nullptr && run_.graph_.submitted() > run_.waited_for_ &&
         run_.submitting_.load(std::memory_order_relaxed);
}

StallFacts StallProbe::facts(Ticks time, Ticks last_change, std::span<const Watched> lanes) const {
  StallFacts known;
  known.since = std::chrono::nanoseconds(time - last_change);
  known.lanes = static_cast<std::uint32_t>(run_.lane_count_);
  known.idle_lanes = run_.idle_lanes_;
  see_running(time, lanes, known);
  if (known.running == 0) see_ready(known);
  if (known.running == 0 && known.ready == 0) see_waiting(known);
  return known;
}

void StallProbe::see_running(Ticks time, std::span<const Watched> lanes, StallFacts& known) const {
  std::vector<TaskNumber> running;
  for (std::size_t index = 0; index < run_.lane_count_; ++index) {
    const Watched& watched = lanes[index];
    if (watched.runs == 0) continue;
    const TaskNumber task = (watched.runs >> Combiner::kBlockBits) - 1;
    running.push_back(task);
    const std::chrono::nanoseconds lasts(time - watched.since);
    if (known.longest_running && known.longest_running->lasts >= lasts) continue;
    const Combiner::Lane& one = run_.lanes_[index];
    known.longest_running = {task, static_cast<std::uint32_t>(watched.runs & ReadyRing::kMaxBlocks),
                             lane_name(run_.topology_.groups()[one.group], one.group, one.index),
                             lasts};
  }
  keep_one_of_each(running);
  known.running = running.size();
}

// In the rings, with the dispatcher, pending, or given to lanes that have not come to it.
void StallProbe::see_ready(StallFacts& known) const {
  std::vector<TaskNumber> ready;
  const auto add = [&](TaskNumber task) { ready.push_back(task); };
  if (const auto task = run_.handoff_.front()) add(*task);
  run_.matrix_ring_.for_each(add);
  run_.vector_ring_.for_each(add);
  for (std::size_t index = 0; index < run_.lane_count_; ++index) {
    const Combiner::Lane& lane = run_.lanes_[index];
    const GroupState& state = run_.dispatcher_.tracker().state(lane.group);
    if ((state.pending >> lane.index & 1) != 0) add(lane.pending.task);
    if (lane.signal.load(std::memory_order_relaxed) == Combiner::Signal::kRun)
      add(lane.assigned.task);
  }
  const std::size_t unnamed = add_waiting_for_lanes(ready);
  keep_one_of_each(ready);
  known.ready = ready.size() + unnamed;
  if (!ready.empty()) known.oldest_ready = {ready.front(), run_.spec_of(ready.front()).shape};
  if (run_.submitting_.load(std::memory_order_relaxed)) {
    known.caller_lanes = static_cast<std::uint32_t>(run_.threads_[0]->lanes.size());
  }
}

// Tasks with blocks that the dispatcher has given to no lane: those that a copy of it gives away,
// whose lanes end whatever they have. The others' number, if there are too many to ask for.
std::size_t StallProbe::add_waiting_for_lanes(std::vector<TaskNumber>& tasks) const {
  if (run_.dispatcher_.waiting() == 0) return 0;
  Dispatcher asked = run_.dispatcher_;
  Dispatcher::Plan plan;
  for (int round = 0; round < kMaxRounds && asked.waiting() > 0; ++round) {
    for (std::size_t index = 0; index < run_.lane_count_; ++index) {
      const Combiner::Lane& lane = run_.lanes_[index];
      const GroupState& state = asked.tracker().state(lane.group);
      while ((state.running >> lane.index & 1) != 0)
        asked.finish(lane.group, lane.index, run_.now());
    }
    plan.clear();
    asked.plan(run_.now(), plan);
    for (const Placement& placement : plan.placements) tasks.push_back(placement.task);
  }
  return asked.waiting();
}

// What is left: waits for others, or was taken by a lane that has not said that it ended.
void StallProbe::see_waiting(StallFacts& known) const {
  if (run_.recording_ == nullptr) {
    known.waiting = run_.graph_.running();
    if (const auto oldest = run_.graph_.oldest_waiting()) {
      known.oldest_waiting = {oldest->task, oldest->left, oldest->waits_for};
    }
    if (run_.graph_.held_from() < run_.graph_.submitted()) known.scope = run_.graph_.held_from();
    return;
  }
  // Some end may be counted that is not one of the last yet.
  known.waiting =
      std::max<std::uint64_t>(1, run_.recording_->size() - (run_.ended() - run_.ended_before_));
  // The end of the last predecessor of a task need not be counted, so a task that seems to wait for
  // one predecessor may have ended.
  for (TaskNumber task = 0; task < run_.recording_->size(); ++task) {
    const std::uint32_t left = run_.progress_[task].waits.load(std::memory_order_relaxed);
    if (left < 2) continue;
    known.oldest_waiting = {task, left, std::nullopt};
    return;
  }
}

namespace {

// Between two looks, at least.
constexpr std::chrono::milliseconds kShortestWatch{1};

}  // namespace

void Watchdog::start() {
  if (run_.options_.stall_limit.count() > 0) thread_ = std::thread([this] { watch(); });
}

void Watchdog::stop() {
  {
    const std::lock_guard guard(watch_lock_);
    stops_ = true;
  }
  watch_ends_.notify_one();
  if (thread_.joinable()) thread_.join();
}

// Looks four times in each limit; what has not changed in between stands still. Lanes write down
// what they run and nothing else, which costs them next to nothing.
void Watchdog::watch() {
  const auto stops = [this] { return stops_; };
  const ExecutorOptions& options = run_.options_;
  const StallProbe probe(run_);
  std::unique_lock guard(watch_lock_);
  std::vector<StallProbe::Watched> lanes(run_.lane_count_);
  Ticks last_change = Combiner::clock();
  std::uint64_t ended_then = 0, run_then = 0;
  bool told = false;
  std::vector<Combiner::Thread*> to_notify;
  for (;;) {
    if (sleeps_.load()) {
      watch_ends_.wait(guard, [&] { return stops() || !sleeps_.load(); });
      last_change = Combiner::clock();
    }
    if (watch_ends_.wait_for(guard, std::max(options.stall_limit / 4, kShortestWatch), stops))
      return;
    StallFacts known;
    {
      const Combiner::Lock lock(run_, to_notify);
      run_.collect();
      run_.dispatch({});
      const Ticks time = Combiner::clock();
      const bool rests = probe.nothing_left() && (told || !probe.submitter_is_late());
      if (rests) sleeps_.store(true);
      const std::uint64_t ended = run_.ended();
      bool changed = rests || ended != ended_then;
      ended_then = ended;
      // Each run of a recording has tasks of the same numbers.
      const std::uint64_t ended_before = run_.ended_before_;
      const bool other_run = std::exchange(run_then, ended_before) != ended_before;
      for (std::size_t index = 0; index < lanes.size(); ++index) {
        const std::uint64_t runs = run_.lanes_[index].runs.load(std::memory_order_relaxed);
        if (runs == lanes[index].runs && !other_run) continue;
        lanes[index] = {runs, time};
        changed = true;
      }
      if (changed) {
        last_change = time;
        told = false;
        continue;
      }
      if (told || std::chrono::nanoseconds(time - last_change) < options.stall_limit) continue;
      known = probe.facts(time, last_change, lanes);
    }
    told = true;
    if (options.on_stall) options.on_stall(classify_stall(known));
  }
}

// Either the watchdog has seen what was started, or this sees that it sleeps.
void Watchdog::wake() {
  if (!sleeps_.load(std::memory_order_relaxed)) return;
  {
    const std::lock_guard guard(watch_lock_);
    sleeps_.store(false);
  }
  watch_ends_.notify_one();
}

}  // namespace dovetail::cores
