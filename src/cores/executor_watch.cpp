#include "cores/executor_watch.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "cores/stall_probe.h"

namespace dovetail::cores {
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
