#pragma once

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <optional>

#include "cores/dispatcher.h"
#include "cores/machine_cores.h"

namespace dovetail::cores {

// Whether threads stay on cores of their own: while these cores are uncontested, and after a
// contention again after a pause. The pause grows while contention returns soon. A pinned thread
// cannot get out of the way of another thread, and threads of the same program or of another one
// may have chosen the same cores. Pure: no clock, no thread.
class PinRule {
 public:
  // Of the time for which a thread wants a core, the share for which it waits for one: from
  // kContested on the cores are contested, below kCalm they are not.
  static constexpr double kContested = 0.10, kCalm = 0.05;
  // Nanoseconds from a contention to the next try: at first, and at most; and how long the cores
  // have to be uncontested for the pause to start from kFirstPause again.
  static constexpr Ticks kFirstPause = 1'000'000'000;
  static constexpr Ticks kLongestPause = 64 * kFirstPause;
  static constexpr Ticks kTrusted = 10 * kFirstPause;

  // Whether they stay from now on. `waited`: that share since the last call, the largest of all
  // threads; nothing where they had too little to do to tell, or the system does not say.
  bool look(Ticks now, std::optional<double> waited) {
    if (!waited) return stays_;
    if (stays_ && *waited >= kContested) {
      stays_ = false;
      if (now - since_ >= kTrusted) pause_ = kFirstPause;
      next_try_ = now + pause_;
      pause_ = std::min(2 * pause_, kLongestPause);
    } else if (!stays_ && *waited < kCalm && now >= next_try_) {
      stays_ = true;
      since_ = now;
    }
    return stays_;
  }

 private:
  bool stays_ = false;
  Ticks since_ = 0;
  Ticks next_try_ = 0;
  Ticks pause_ = kFirstPause;
};

// Whether threads that compute stay on cores of their own.
enum class Pinning : std::uint8_t {
  kAuto,  // while these are uncontested (PinRule)
  kAlways,
  kNever,
};

// For how long a thread has run, and has waited for a core that it may run on, in nanoseconds.
struct CoreTimes {
  std::uint64_t ran = 0;
  std::uint64_t waited = 0;
};

// What the system counts of the thread that makes it, for any thread.
class CoreClock {
 public:
  CoreClock();
  ~CoreClock();
  CoreClock(const CoreClock&) = delete;
  CoreClock& operator=(const CoreClock&) = delete;

  // Nothing: the system does not say.
  std::optional<CoreTimes> read() const;

 private:
  int file_ = -1;
};

// Where the threads run that compute for the lanes of an engine, each of which works for a core.
// Thread-safe.
class ThreadPins {
 public:
  // What is looked at are the last so many nanoseconds, or a little more.
  static constexpr Ticks kInterval = 250'000'000;

  // `elsewhere`: where threads run that do not stay on cores of their own.
  ThreadPins(Pinning pinning, Binding elsewhere);
  ~ThreadPins();  // requires that no thread is a member
  ThreadPins(const ThreadPins&) = delete;
  ThreadPins& operator=(const ThreadPins&) = delete;

  // The calling thread, which works for that core, is one of the threads until the member is gone,
  // which has to happen on the same thread. It may run where it could before, then: what it starts
  // later takes that for the cores that there are.
  class Member {
   public:
    Member(ThreadPins& pins, std::size_t core);
    ~Member();
    Member(const Member&) = delete;
    Member& operator=(const Member&) = delete;

   private:
    friend class ThreadPins;
    ThreadPins& pins_;
    const pthread_t thread_ = pthread_self();
    const std::size_t core_;
    const std::optional<cpu_set_t> before_;  // where it could run
    const CoreClock clock_;
    CoreTimes seen_;
  };

  // For Pinning::kAuto, to be called often: whether others want the cores is looked at every
  // kInterval, and all threads are moved where that changes what is to be done.
  void look(Ticks now);
  // The same at once, with what PinRule::look() is told.
  void look(Ticks now, std::optional<double> waited);

  // Whether the threads stay on cores of their own now, as far as the system lets them.
  bool pinned() const { return pinned_.load(std::memory_order_relaxed); }

 private:
  std::optional<double> waited();
  Binding binding() const { return pinned() ? Binding::kCore : elsewhere_; }

  const Pinning pinning_;
  const Binding elsewhere_;
  std::atomic<bool> pinned_;
  std::atomic<Ticks> next_look_{0};
  std::mutex mutex_;
  std::list<Member*> members_;
  PinRule rule_;
};

}  // namespace dovetail::cores
