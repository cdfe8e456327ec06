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
  for (unsigned i = 1; i < threads; ++i) team_.emplace_back([this] { serve(); });
}

Workers::~Workers() {
  stop_ = true;
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  for (std::thread& thread : team_) thread.join();
}

void Workers::run_erased(std::size_t count, Function function, void* context) {
  if (team_.empty() || count <= 1) {
    for (std::size_t i = 0; i < count; ++i) function(context, i);
    return;
  }
  count_ = count;
  function_ = function;
  context_ = context;
  next_.store(0, std::memory_order_relaxed);
  busy_.store(static_cast<std::uint32_t>(team_.size()), std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  work();
  for (std::uint32_t left = busy_.load(std::memory_order_acquire); left != 0;
       left = busy_.load(std::memory_order_acquire)) {
    await_change(busy_, left);
  }
}

void Workers::work() {
  for (std::size_t i = next_.fetch_add(1, std::memory_order_relaxed); i < count_;
       i = next_.fetch_add(1, std::memory_order_relaxed)) {
    function_(context_, i);
  }
}

void Workers::serve() {
  std::uint32_t seen = 0;
  while (true) {
    await_change(round_, seen);
    seen = round_.load(std::memory_order_acquire);
    if (stop_) return;
    work();
    if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) busy_.notify_one();
  }
}

}  // namespace dovetail::cores
