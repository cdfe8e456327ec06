#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

namespace dovetail::cores {

// How often a thread looks before it goes to sleep: 10 to 80 microseconds, as the processor pauses;
// longer than the gaps between the parts of a forward pass, shorter than what an idle engine should
// burn.
inline constexpr int kSpins = 1000;

// Tells the processor that this thread waits for another one.
inline void pause_briefly() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

// Returns once `value` is no longer `old`: looks for a while, then sleeps until it is notified.
template <class T>
void await_change(const std::atomic<T>& value, T old) {
  for (int spin = 0; spin < kSpins; ++spin) {
    if (value.load(std::memory_order_acquire) != old) return;
    pause_briefly();
  }
  while (value.load(std::memory_order_acquire) == old) value.wait(old, std::memory_order_acquire);
}

// For what takes well under a microsecond. Usable with std::lock_guard and the like.
class SpinLock {
 public:
  bool try_lock() {
    return !held_.load(std::memory_order_relaxed) &&
           !held_.exchange(true, std::memory_order_acquire);
  }
  void lock() {
    for (int spin = 0; !try_lock(); ++spin) {
      // Its holder may have lost its core.
      spin < kPatience ? pause_briefly() : std::this_thread::yield();
    }
  }
  void unlock() { held_.store(false, std::memory_order_release); }

 private:
  static constexpr int kPatience = 200;
  alignas(64) std::atomic<bool> held_{false};
};

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
