#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "base/result.h"
#include "cores/thread_pins.h"

namespace dovetail::engine {

// A thread that carries out one piece of work at a time. What was written before start() is seen by
// the work, and what the work wrote is seen after wait(). start() and wait() belong to one thread.
class Background {
 public:
  // The thread works for the first lane's core. `pins` outlives this.
  explicit Background(cores::ThreadPins& pins);
  // Waits for work under way.
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // Nothing may be under way.
  void start(std::function<Status()> work);

  // What became of the work. An exception that it let out is kInternal.
  Status wait();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<Status()> work_;  // set: to do, or under way
  Status outcome_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace dovetail::engine
