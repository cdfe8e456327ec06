#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "cores/executor_combiner.h"
#include "cores/stall.h"

namespace dovetail::cores {

// Reads off an executor why nothing goes on. Changes nothing. Every function requires the lock.
class StallProbe {
 public:
  // What the watchdog saw of a lane: Lane::runs, and since when.
  struct Watched {
    std::uint64_t runs = 0;
    Ticks since = 0;
  };

  explicit StallProbe(const Combiner& run) : run_(run) {}

  bool nothing_left() const;
  // Whether the caller has submitted something and does not wait for it.
  bool submitter_is_late() const;
  // As much as it takes to tell which kind of stall it is, and to say what to look at.
  StallFacts facts(Ticks time, Ticks last_change, std::span<const Watched> lanes) const;

 private:
  void see_running(Ticks time, std::span<const Watched> lanes, StallFacts& known) const;
  void see_ready(StallFacts& known) const;
  void see_waiting(StallFacts& known) const;
  std::size_t add_waiting_for_lanes(std::vector<TaskNumber>& tasks) const;

  const Combiner& run_;
};

// Tells ExecutorOptions::on_stall when nothing goes on, from a thread of its own. It sleeps while
// nothing is left to watch.
class Watchdog {
 public:
  // `run` outlives it.
  explicit Watchdog(Combiner& run) : run_(run) {}
  ~Watchdog() { stop(); }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // Nothing without ExecutorOptions::stall_limit. Throws std::system_error where the system does
  // not start the thread.
  void start();
  void stop();
  // After something was started and the lock let go.
  void wake();

 private:
  void watch();

  Combiner& run_;
  // Nothing was left when the watchdog looked: it sleeps until the next start of a task wakes it.
  // Changes under watch_lock_; becomes true under the executor's lock, too.
  std::atomic<bool> sleeps_{false};
  std::mutex watch_lock_;
  bool stops_ = false;  // guarded by watch_lock_
  std::condition_variable watch_ends_;
  std::thread thread_;
};

}  // namespace dovetail::cores
