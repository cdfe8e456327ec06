#include "cores/machine_cores.h"

#include <hwloc.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <span>
#include <system_error>
#include <utility>

namespace dovetail::cores {
namespace {

struct Destroy {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
  void operator()(hwloc_bitmap_t set) const { hwloc_bitmap_free(set); }
};

// Where nothing of the machine's cores is to be seen, as in some sandboxes, hwloc's Linux part
// would only complain on stderr.
bool system_tells() {
  std::error_code none;
  return std::filesystem::exists("/sys/bus/cpu/devices", none) ||
         std::filesystem::exists("/sys/devices/system/cpu", none);
}

// What the machine is, which does not change; null where the system does not say. Read once: that
// takes milliseconds, and each thread that is pinned looks at it.
hwloc_topology_t whole_machine() {
  static const std::unique_ptr<hwloc_topology, Destroy> known = [] {
    hwloc_topology_t topology = nullptr;
    if (hwloc_topology_init(&topology) != 0) topology = nullptr;
    std::unique_ptr<hwloc_topology, Destroy> loaded(topology);
    if (loaded != nullptr && !system_tells()) {
      hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "linux");
    }
    if (loaded != nullptr && hwloc_topology_load(topology) != 0) loaded.reset();
    return loaded;
  }();
  return known.get();
}

// What the process may use of it now.
struct Machine {
  hwloc_topology_t topology = whole_machine();
  std::unique_ptr<hwloc_bitmap_s, Destroy> allowed{hwloc_bitmap_alloc()};
  std::vector<hwloc_obj_t> cores;     // none: they are not known
  std::vector<std::uint32_t> counts;  // of them, by cache
};

Machine look() {
  Machine machine;
  hwloc_topology_t topology = machine.topology;
  hwloc_bitmap_t allowed = machine.allowed.get();
  if (topology == nullptr || hwloc_get_cpubind(topology, allowed, HWLOC_CPUBIND_PROCESS) != 0)
    return machine;
  // Cores without such a cache count as near each other; on some machines others lie between them.
  std::vector<std::pair<hwloc_obj_t, std::vector<hwloc_obj_t>>> caches;
  for (hwloc_obj_t core = nullptr;
       (core = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_CORE, core)) != nullptr;) {
    if (hwloc_bitmap_intersects(core->cpuset, allowed) == 0) continue;
    const hwloc_obj_t cache = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_L3CACHE, core);
    auto found = std::find_if(caches.begin(), caches.end(),
                              [cache](const auto& known) { return known.first == cache; });
    if (found == caches.end()) found = caches.insert(found, {cache, {}});
    found->second.push_back(core);
  }
  for (const auto& [cache, cores] : caches) {
    machine.counts.push_back(static_cast<std::uint32_t>(cores.size()));
    machine.cores.insert(machine.cores.end(), cores.begin(), cores.end());
  }
  return machine;
}

}  // namespace

std::vector<std::uint32_t> cores_by_cache() { return look().counts; }

bool bind_thread(Binding binding, std::size_t core, pthread_t thread) {
  const Machine machine = look();
  if (machine.cores.empty()) return false;
  std::span<const hwloc_obj_t> cores = machine.cores;
  const std::size_t number = core % cores.size();
  if (binding == Binding::kCore) cores = cores.subspan(number, 1);
  if (binding == Binding::kCache) {
    std::size_t begin = 0, cache = 0;
    while (begin + machine.counts[cache] <= number) begin += machine.counts[cache++];
    cores = cores.subspan(begin, machine.counts[cache]);
  }
  const std::unique_ptr<hwloc_bitmap_s, Destroy> set(hwloc_bitmap_alloc());
  for (const hwloc_obj_t one : cores) hwloc_bitmap_or(set.get(), set.get(), one->cpuset);
  hwloc_bitmap_and(set.get(), set.get(), machine.allowed.get());
  return hwloc_set_thread_cpubind(machine.topology, thread, set.get(), 0) == 0;
}

}  // namespace dovetail::cores
