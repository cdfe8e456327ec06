#include "cores/workers.h"

#include <hwloc.h>

#include <algorithm>
#include <cassert>

namespace dovetail::cores {
namespace {

// How often a thread looks before it goes to sleep: some 20 microseconds, longer than the gaps
// between the parts of a forward pass, shorter than what an idle engine should burn.
constexpr int kSpins = 1000;

void pause_briefly() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

// The parts of Workers::round_: 16 bits of number, 24 of count, 24 of index.
constexpr unsigned kIndexBits = 24;
constexpr std::uint64_t kIndexMask = (std::uint64_t{1} << kIndexBits) - 1;

constexpr std::uint64_t number_of(std::uint64_t round) { return round >> (2 * kIndexBits); }
constexpr std::size_t count_of(std::uint64_t round) { return (round >> kIndexBits) & kIndexMask; }
constexpr std::size_t index_of(std::uint64_t round) { return round & kIndexMask; }
constexpr std::uint64_t next_round(std::uint64_t round, std::size_t count) {
  return ((number_of(round) + 1) << (2 * kIndexBits)) | (count << kIndexBits);
}

// Returns once `value` is no longer `old`.
template <class T>
void await_change(const std::atomic<T>& value, T old) {
  for (int spin = 0; spin < kSpins; ++spin) {
    if (value.load(std::memory_order_acquire) != old) return;
    pause_briefly();
  }
  while (value.load(std::memory_order_acquire) == old) value.wait(old, std::memory_order_acquire);
}

}  // namespace

unsigned physical_cores() {
  const unsigned fallback = std::max(1U, std::thread::hardware_concurrency());
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) return fallback;
  unsigned cores = fallback;
  if (hwloc_topology_load(topology) == 0) {
    hwloc_cpuset_t allowed = hwloc_bitmap_alloc();
    if (hwloc_get_cpubind(topology, allowed, HWLOC_CPUBIND_PROCESS) == 0) {
      const int count = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
      unsigned usable = 0;
      for (int i = 0; i < count; ++i) {
        const hwloc_obj_t core =
            hwloc_get_obj_by_type(topology, HWLOC_OBJ_CORE, static_cast<unsigned>(i));
        if (core != nullptr && hwloc_bitmap_intersects(core->cpuset, allowed) != 0) ++usable;
      }
      if (usable > 0) cores = usable;
    }
    hwloc_bitmap_free(allowed);
  }
  hwloc_topology_destroy(topology);
  return cores;
}

Workers::Workers(unsigned threads) {
  assert(threads > 0);
  try {
    for (unsigned i = 1; i < threads; ++i) team_.emplace_back([this] { serve(); });
  } catch (...) {
    stop();
    throw;
  }
}

Workers::~Workers() { stop(); }

void Workers::stop() {
  stop_.store(true, std::memory_order_relaxed);
  round_.store(next_round(round_.load(std::memory_order_relaxed), 0), std::memory_order_release);
  round_.notify_all();
  for (std::thread& thread : team_) thread.join();
}

void Workers::run_erased(std::size_t count, Function function, void* context) {
  if (count > kIndexMask) {
    struct Part {
      Function function;
      void* context;
      std::size_t first;
    };
    for (std::size_t first = 0; first < count; first += kIndexMask) {
      Part part{function, context, first};
      run_erased(
          std::min<std::size_t>(kIndexMask, count - first),
          [](void* of, std::size_t index) {
            const auto& its = *static_cast<const Part*>(of);
            its.function(its.context, its.first + index);
          },
          &part);
    }
    return;
  }
  if (team_.empty() || count <= 1) {
    for (std::size_t i = 0; i < count; ++i) function(context, i);
    return;
  }
  function_.store(function, std::memory_order_relaxed);
  context_.store(context, std::memory_order_relaxed);
  done_.store(0, std::memory_order_relaxed);
  const std::uint64_t round = next_round(round_.load(std::memory_order_relaxed), count);
  round_.store(round, std::memory_order_release);
  round_.notify_all();
  work(round);
  for (std::size_t done = done_.load(std::memory_order_acquire); done != count;
       done = done_.load(std::memory_order_acquire)) {
    await_change(done_, done);
  }
}

// Claims and runs tasks of the round that `round` belongs to until none is left.
void Workers::work(std::uint64_t round) {
  std::uint64_t current = round_.load(std::memory_order_acquire);
  while (number_of(current) == number_of(round) && index_of(current) < count_of(current)) {
    if (!round_.compare_exchange_weak(current, current + 1, std::memory_order_acq_rel,
                                      std::memory_order_acquire))
      continue;
    function_.load(std::memory_order_relaxed)(context_.load(std::memory_order_relaxed),
                                              index_of(current));
    const std::size_t count = count_of(current);
    if (done_.fetch_add(1, std::memory_order_acq_rel) + 1 == count) done_.notify_one();
    current = round_.load(std::memory_order_acquire);
  }
}

void Workers::serve() {
  std::uint64_t seen = 0;
  while (true) {
    // The end is also seen by a thread that slept until the rounds' numbers came round again.
    std::uint64_t current = round_.load(std::memory_order_acquire);
    while (number_of(current) == number_of(seen) && !stop_.load(std::memory_order_relaxed)) {
      await_change(round_, current);
      current = round_.load(std::memory_order_acquire);
    }
    seen = current;
    if (stop_.load(std::memory_order_relaxed)) return;
    work(seen);
  }
}

}  // namespace dovetail::cores
