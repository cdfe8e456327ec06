#include "engine/background.h"

#include <cassert>
#include <exception>
#include <utility>

namespace dovetail::engine {

Background::Background(cores::ThreadPins& pins)
    : thread_([this, &pins] {
        const cores::ThreadPins::Member member(pins, 0);
        run();
      }) {}

Background::~Background() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Background::start(std::function<Status()> work) {
  {
    const std::lock_guard lock(mutex_);
    assert(!work_);
    work_ = std::move(work);
  }
  changed_.notify_all();
}

Status Background::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !work_; });
  return std::exchange(outcome_, {});
}

void Background::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return work_ || stopping_; });
    if (!work_) return;
    lock.unlock();
    Status outcome;
    try {
      outcome = work_();
    } catch (const std::exception& exception) {
      outcome = fail(ErrorKind::kInternal, "a step failed: {}", exception.what());
    }
    lock.lock();
    outcome_ = std::move(outcome);
    work_ = nullptr;
    changed_.notify_all();
  }
}

}  // namespace dovetail::engine
