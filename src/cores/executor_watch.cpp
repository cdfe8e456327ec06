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
      const bool nothing_left =
          recording_ != nullptr ? sinks_left_.load() == 0 : graph_.running() == 0;
      if (nothing_left) watchdog_sleeps_.store(true);
      bool changed = nothing_left || ended() != ended_then;
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
      known = facts(time, last_change, lanes);
    }
    if (told || known.since < options_.stall_limit) continue;
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

StallFacts Executor::facts(Ticks time, Ticks last_change, std::span<const Watched> lanes) const {
  StallFacts known;
  known.since = std::chrono::nanoseconds(time - last_change);
  known.lanes = static_cast<std::uint32_t>(lane_count_);
  known.idle_lanes = idle_lanes_;
  std::vector<TaskNumber> running;
  for (std::size_t index = 0; index < lane_count_; ++index) {
    const Watched& watched = lanes[index];
    if (watched.runs == 0) continue;
    const TaskNumber task = (watched.runs >> kBlockBits) - 1;
    running.push_back(task);
    const std::chrono::nanoseconds lasts(time - watched.since);
    if (known.longest_running && known.longest_running->lasts >= lasts) continue;
    const Lane& one = lanes_[index];
    known.longest_running = {task, "",
                             static_cast<std::uint32_t>(watched.runs & ReadyRing::kMaxBlocks),
                             lane_name(topology_.groups()[one.group], one.group, one.index), lasts};
  }
  std::sort(running.begin(), running.end());
  known.running =
      static_cast<std::uint64_t>(std::unique(running.begin(), running.end()) - running.begin());
  known.ready = (relay_.blocks() > 0 ? 1 : 0) + matrix_ring_.tasks() + vector_ring_.tasks() +
                dispatcher_.waiting();
  const std::uint64_t all =
      recording_ != nullptr ? recording_->size() - (ended() - ended_before_) : graph_.running();
  known.waiting = all - std::min(all, known.running + known.ready);
  known.submitted_all = !submitting_.load(std::memory_order_relaxed);
  return known;
}

}  // namespace dovetail::cores
