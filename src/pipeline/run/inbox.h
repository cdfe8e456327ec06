#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

namespace dovetail::pipeline {

// News from other threads for the one that takes them.
template <class News>
class Inbox {
 public:
  // What is not urgent does not end a take() that waits for urgent news only.
  void put(News news, bool urgent = true) {
    bool wakes = true;
    {
      const std::lock_guard lock(mutex_);
      news_.push_back(std::move(news));
      urgent_ = urgent_ || urgent;
      wakes = urgent || !patient_;
    }
    if (wakes) filled_.notify_one();
  }

  // Ends a take() that waits, without news.
  void wake() {
    {
      const std::lock_guard lock(mutex_);
      urgent_ = true;
    }
    filled_.notify_one();
  }

  // All that is there, oldest first; waits until `limit` has passed for something, or, if it is
  // `patient`, for something urgent.
  std::vector<News> take(std::chrono::nanoseconds limit, bool patient = false) {
    std::unique_lock lock(mutex_);
    patient_ = patient;
    if (limit.count() > 0) {
      filled_.wait_for(lock, limit, [&] { return urgent_ || (!patient && !news_.empty()); });
    }
    urgent_ = false;
    return std::exchange(news_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable filled_;
  std::vector<News> news_;
  bool urgent_ = false;
  bool patient_ = false;  // the take() that waits
};

}  // namespace dovetail::pipeline
