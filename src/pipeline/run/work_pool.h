#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace dovetail::pipeline {

// Threads for work that would hold up the one that dispatches. Submit and room() from one thread.
class WorkPool {
 public:
  // Starts its threads with the first work.
  explicit WorkPool(std::uint32_t threads) : most_(threads) {}
  // Waits for the work under way; what has not begun is dropped.
  ~WorkPool();
  WorkPool(const WorkPool&) = delete;
  WorkPool& operator=(const WorkPool&) = delete;

  // Threads that have nothing to do, and would begin at once.
  std::uint32_t room() const;
  // Does `work` on a thread and calls what it returns there, when the thread has room again.
  // Neither may throw.
  void submit(std::function<std::function<void()>()> work);

 private:
  void run();

  std::uint32_t most_;
  mutable std::mutex mutex_;
  std::condition_variable filled_;
  std::deque<std::function<std::function<void()>()>> queue_;
  std::uint32_t busy_ = 0;  // work that was submitted and has not ended
  bool ends_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace dovetail::pipeline
