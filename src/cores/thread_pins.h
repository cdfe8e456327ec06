#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <optional>

#include "cores/dispatcher.h"
#include "cores/machine_cores.h"
#include "cores/pin_rule.h"

namespace dovetail::cores {

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
  // which has to happen on the same thread. Where it runs is not changed then.
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
