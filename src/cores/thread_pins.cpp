#include "cores/thread_pins.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <charconv>

namespace dovetail::cores {
namespace {

// Who ran or waited for less of an interval tells nothing: waking a thread takes time, too.
constexpr Ticks kLeast = ThreadPins::kInterval / 5;

// Nothing: the system does not say.
std::optional<cpu_set_t> cpus_of_this_thread() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  if (pthread_getaffinity_np(pthread_self(), sizeof cpus, &cpus) != 0) return std::nullopt;
  return cpus;
}

}  // namespace

CoreClock::CoreClock() : file_(::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC)) {}

CoreClock::~CoreClock() {
  if (file_ >= 0) ::close(file_);
}

std::optional<CoreTimes> CoreClock::read() const {
  std::array<char, 128> text;  // three numbers: ran, waited, how often
  const ssize_t size = file_ >= 0 ? ::pread(file_, text.data(), text.size(), 0) : -1;
  if (size <= 0) return std::nullopt;
  CoreTimes times;
  const char* end = text.data() + size;
  const auto ran = std::from_chars(text.data(), end, times.ran);
  if (ran.ec != std::errc() || ran.ptr == end) return std::nullopt;
  if (std::from_chars(ran.ptr + 1, end, times.waited).ec != std::errc()) return std::nullopt;
  return times;
}

ThreadPins::ThreadPins(Pinning pinning, Binding elsewhere)
    : pinning_(pinning), elsewhere_(elsewhere), pinned_(pinning == Pinning::kAlways) {}

ThreadPins::~ThreadPins() { assert(members_.empty()); }

ThreadPins::Member::Member(ThreadPins& pins, std::size_t core)
    : pins_(pins),
      core_(core),
      before_(cpus_of_this_thread()),
      seen_(clock_.read().value_or(CoreTimes{})) {
  const std::lock_guard guard(pins_.mutex_);
  pins_.members_.push_back(this);
  // Also where it may run anywhere: who started it may have been one of other pins' threads.
  bind_thread(pins_.binding(), core_);
}

ThreadPins::Member::~Member() {
  const std::lock_guard guard(pins_.mutex_);
  pins_.members_.remove(this);
  if (before_) pthread_setaffinity_np(thread_, sizeof *before_, &*before_);
}

void ThreadPins::look(Ticks now) {
  if (pinning_ != Pinning::kAuto || now < next_look_.load(std::memory_order_relaxed)) return;
  next_look_.store(now + kInterval, std::memory_order_relaxed);
  look(now, waited());
}

void ThreadPins::look(Ticks now, std::optional<double> waited) {
  if (pinning_ != Pinning::kAuto) return;
  const std::lock_guard guard(mutex_);
  const bool stays = rule_.look(now, waited);
  if (stays == pinned()) return;
  pinned_.store(stays, std::memory_order_relaxed);
  for (const Member* member : members_) bind_thread(binding(), member->core_, member->thread_);
}

// Since the last call, of the thread that had to wait most.
std::optional<double> ThreadPins::waited() {
  const std::lock_guard guard(mutex_);
  std::optional<double> most;
  for (Member* member : members_) {
    const auto times = member->clock_.read();
    if (!times) continue;
    const std::uint64_t waits = times->waited - member->seen_.waited;
    const std::uint64_t wants = waits + times->ran - member->seen_.ran;
    member->seen_ = *times;
    if (wants < kLeast) continue;
    most = std::max(most.value_or(0), static_cast<double>(waits) / static_cast<double>(wants));
  }
  return most;
}

}  // namespace dovetail::cores
