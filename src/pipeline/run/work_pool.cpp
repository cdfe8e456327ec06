#include "pipeline/run/work_pool.h"

#include <utility>

namespace dovetail::pipeline {

WorkPool::~WorkPool() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    queue_.clear();
  }
  filled_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

std::uint32_t WorkPool::room() const {
  const std::lock_guard lock(mutex_);
  return busy_ < most_ ? most_ - busy_ : 0;
}

void WorkPool::submit(std::function<std::function<void()>()> work) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
    ++busy_;
    if (threads_.size() < most_ && threads_.size() < busy_) {
      threads_.emplace_back([this] { run(); });
    }
  }
  filled_.notify_one();
}

void WorkPool::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    filled_.wait(lock, [&] { return ends_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const auto work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    const std::function<void()> tell = work();
    lock.lock();
    --busy_;
    lock.unlock();
    tell();
    lock.lock();
  }
}

}  // namespace dovetail::pipeline
