// The watchdog of an executor.

#include <algorithm>
#include <chrono>

#include "cores/executor.h"
#include "cores/names.h"

namespace dovetail::cores {
namespace {

// Between two looks, at least.
constexpr std::chrono::milliseconds kShortestWatch{1};

}  // namespace

void Executor::watch() {
  std::unique_lock guard(watch_lock_);
  Ticks last_end = clock();
  std::uint64_t seen = 0;
  bool told = false;
  std::vector<Thread*> to_notify;
  while (!watch_ends_.wait_for(guard, std::max(options_.stall_limit / 4, kShortestWatch),
                               [&] { return stop_.load(std::memory_order_relaxed); })) {
    StallFacts known;
    {
      const Keeper keeper(*this, to_notify);
      collect();
      dispatch({});
      const bool nothing_left =
          recording_ != nullptr ? sinks_left_.load() == 0 : graph_.running() == 0;
      if (ended() != seen || nothing_left) {
        seen = ended();
        last_end = clock();
        told = false;
        continue;
      }
      known = facts(last_end);
    }
    if (told || known.since < options_.stall_limit) continue;
    told = true;
    if (options_.on_stall) options_.on_stall(classify_stall(known));
  }
}

StallFacts Executor::facts(Ticks last_end) {
  StallFacts known;
  const Ticks time = clock();
  known.since = std::chrono::nanoseconds(time - last_end);
  known.lanes = static_cast<std::uint32_t>(lane_count_);
  known.idle_lanes = idle_lanes_;
  std::vector<TaskNumber> running;
  for (std::size_t index = 0; index < lane_count_; ++index) {
    const Lane& one = lanes_[index];
    const TaskNumber task = one.task.load(std::memory_order_acquire);
    if (task == 0) continue;
    running.push_back(task - 1);
    const Ticks since = one.since.load(std::memory_order_relaxed);
    const std::chrono::nanoseconds lasts(time > since ? time - since : 0);
    if (known.longest_running && known.longest_running->lasts >= lasts) continue;
    known.longest_running = {task - 1, "", one.block.load(std::memory_order_relaxed),
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
