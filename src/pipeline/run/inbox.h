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
  void put(News news) {
    {
      const std::lock_guard lock(mutex_);
      news_.push_back(std::move(news));
    }
    filled_.notify_one();
  }

  // Ends a take() that waits, without news.
  void wake() {
    {
      const std::lock_guard lock(mutex_);
      woken_ = true;
    }
    filled_.notify_one();
  }

  // All that is there, oldest first; waits for something until `limit` has passed.
  std::vector<News> take(std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    if (limit.count() > 0) {
      filled_.wait_for(lock, limit, [&] { return woken_ || !news_.empty(); });
    }
    woken_ = false;
    return std::exchange(news_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable filled_;
  std::vector<News> news_;
  bool woken_ = false;
};

}  // namespace dovetail::pipeline
