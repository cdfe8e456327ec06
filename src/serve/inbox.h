#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "dovetail/request.h"

namespace dovetail::serve {

// Where the engine's thread leaves the events of one HTTP request for the event loop. put() never
// blocks for longer than a move: what a reader leaves unread is bounded, beyond that the inbox
// overflows and takes no more. Any thread.
class Inbox {
 public:
  struct Item {
    std::size_t prompt = 0;
    OutputEvent event;
  };

  // `wake` is called, from the thread that puts, when the inbox turns from empty to not empty and
  // when it overflows; never after close() has returned. `limit` in bytes.
  Inbox(std::function<void()> wake, std::size_t limit) : wake_(std::move(wake)), limit_(limit) {}

  void put(std::size_t prompt, OutputEvent event) {
    const std::lock_guard lock(mutex_);
    if (closed_ || overflowed_) return;
    const bool was_empty = items_.empty();
    bytes_ += size_of(event);
    if (bytes_ > limit_) {
      overflowed_ = true;
      items_.clear();
    } else {
      items_.push_back({prompt, std::move(event)});
    }
    if (was_empty || overflowed_) wake_();
  }

  // Everything that arrived since the last call, in order.
  std::vector<Item> take() {
    const std::lock_guard lock(mutex_);
    bytes_ = 0;
    return std::exchange(items_, {});
  }

  bool overflowed() const {
    const std::lock_guard lock(mutex_);
    return overflowed_;
  }

  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    items_.clear();
  }

 private:
  static std::size_t size_of(const OutputEvent& event) {
    std::size_t size = sizeof(Item) + event.text.size();
    for (const OutputToken& token : event.tokens) {
      size += sizeof(token) + token.top.size() * sizeof(TokenLogprob);
    }
    return size;
  }

  const std::function<void()> wake_;
  const std::size_t limit_;
  mutable std::mutex mutex_;
  std::vector<Item> items_;
  std::size_t bytes_ = 0;
  bool closed_ = false;
  bool overflowed_ = false;
};

}  // namespace dovetail::serve
