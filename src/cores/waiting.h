#pragma once

#include <atomic>
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

}  // namespace dovetail::cores
