#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "base/result.h"
#include "cores/thread_pins.h"

namespace dovetail::engine {

// A thread that executes one function per start(). start() and wait() synchronise memory between
// the caller and the function, and belong to one thread.
class Background {
 public:
  // The thread is pinned like the first lane's. `pins` outlives this.
  explicit Background(cores::ThreadPins& pins);
  // Waits for work in flight.
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // Requires that no work is in flight.
  void start(std::function<Status()> work);

  // Waits for the work and returns its status; an exception becomes kInternal.
  Status wait();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<Status()> work_;  // set: queued or in flight
  Status outcome_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace dovetail::engine
