#pragma once

#include <atomic>
#include <cstdint>

#include "cores/waiting.h"

namespace dovetail::cores {

// Where the parts of a mixed task wait for each other, any number of times: what each of them did
// before it came is seen by all of them afterwards. Of use where parts start together and each has
// a thread of its own (an Executor with a thread for each lane). One for each group of lanes is
// enough, since a group does one such task at a time.
class Rendezvous {
 public:
  // Returns when all `parts` have come, which is the same number for all of them. The last to come
  // calls `last()` before any of them goes on.
  template <class Last>
  void meet(std::uint32_t parts, Last last) {
    if (parts == 1) return last();
    const std::uint32_t met =
        met_.load(std::memory_order_relaxed);  // no more before this one comes
    if (come_.fetch_add(1, std::memory_order_acq_rel) + 1 < parts) return await_change(met_, met);
    last();
    come_.store(0, std::memory_order_relaxed);
    met_.store(met + 1, std::memory_order_release);
    met_.notify_all();
  }
  void meet(std::uint32_t parts) {
    meet(parts, [] {});
  }

 private:
  alignas(64) std::atomic<std::uint32_t> come_{0};
  std::atomic<std::uint32_t> met_{0};  // so many times
};

}  // namespace dovetail::cores
