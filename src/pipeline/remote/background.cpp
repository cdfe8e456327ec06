#include "pipeline/remote/background.h"

#include <chrono>
#include <system_error>
#include <utility>

namespace dovetail::pipeline {

Micros Background::now() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Result<std::unique_ptr<Background>> Background::create() {
  std::unique_ptr<Background> made(new Background());
  try {
    made->thread_ = std::thread([self = made.get()] { self->run(); });
  } catch (const std::system_error& error) {
    return fail(ErrorKind::kExhausted, "no thread for the endpoints: {}", error.what());
  }
  return made;
}

Background::~Background() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Background::post(Task task) {
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    first = tasks_.empty();
    tasks_.push_back(std::move(task));
  }
  if (first) changed_.notify_one();
}

void Background::post_at(Micros moment, Task task) {
  bool sooner = false;
  {
    const std::lock_guard lock(mutex_);
    sooner = later_.empty() || moment < later_.top().at;
    later_.push({moment, order_++, std::move(task)});
  }
  if (sooner) changed_.notify_one();
}

void Background::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    while (!later_.empty() && later_.top().at <= now()) {
      tasks_.push_back(later_.top().task);
      later_.pop();
    }
    if (tasks_.empty()) {
      if (stop_) return;
      if (later_.empty()) {
        changed_.wait(lock);
      } else {
        const auto moment =
            std::chrono::steady_clock::time_point(std::chrono::microseconds(later_.top().at));
        changed_.wait_until(lock, moment);
      }
      continue;
    }
    std::vector<Task> tasks = std::exchange(tasks_, {});
    lock.unlock();
    for (Task& task : tasks) task();
    tasks.clear();
    lock.lock();
  }
}

}  // namespace dovetail::pipeline
