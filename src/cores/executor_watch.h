#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "cores/executor_combiner.h"

namespace dovetail::cores {

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
