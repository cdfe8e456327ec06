#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <queue>
#include <thread>
#include <vector>

#include "base/result.h"
#include "pipeline/remote/micros.h"

namespace dovetail::pipeline {

// One thread that does what it is given, in order, and what is to be done later when its time has
// come. It sleeps in between. Tasks must not throw; they may call post() and post_at().
class Background {
 public:
  using Task = std::function<void()>;

  // kExhausted where the system has no thread left.
  static Result<std::unique_ptr<Background>> create();

  // Does what was posted already; what was to be done later is not done. Not from a task.
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // From any thread.
  void post(Task task);
  void post_at(Micros moment, Task task);

  // Microseconds of the steady clock: the one of post_at().
  static Micros now();

 private:
  struct Later {
    Micros at;
    std::uint64_t order;
    Task task;
    bool operator<(const Later& other) const {
      return at != other.at ? at > other.at : order > other.order;
    }
  };

  Background() = default;
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Task> tasks_;
  std::priority_queue<Later> later_;
  std::uint64_t order_ = 0;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace dovetail::pipeline
