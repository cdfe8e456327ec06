#include "cores/machine_cores.h"

#include <hwloc.h>

#include <algorithm>
#include <memory>

namespace dovetail::cores {
namespace {

struct Destroy {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
  void operator()(hwloc_bitmap_t set) const { hwloc_bitmap_free(set); }
};

struct Machine {
  std::unique_ptr<hwloc_topology, Destroy> topology;
  std::unique_ptr<hwloc_bitmap_s, Destroy> allowed;
  std::vector<hwloc_obj_t> cores;  // none: they are not known
};

Machine look() {
  Machine machine;
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) return machine;
  machine.topology.reset(topology);
  machine.allowed.reset(hwloc_bitmap_alloc());
  hwloc_bitmap_t allowed = machine.allowed.get();
  if (hwloc_topology_load(topology) != 0 ||
      hwloc_get_cpubind(topology, allowed, HWLOC_CPUBIND_PROCESS) != 0) {
    return machine;
  }
  for (hwloc_obj_t core = nullptr;
       (core = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_CORE, core)) != nullptr;) {
    if (hwloc_bitmap_intersects(core->cpuset, allowed) != 0) machine.cores.push_back(core);
  }
  return machine;
}

}  // namespace

std::vector<std::uint32_t> cores_by_cache() {
  const Machine machine = look();
  std::vector<std::uint32_t> counts;
  std::vector<hwloc_obj_t> caches;
  for (const hwloc_obj_t core : machine.cores) {
    // Where there is no such cache, all cores count as near each other.
    const hwloc_obj_t cache =
        hwloc_get_ancestor_obj_by_type(machine.topology.get(), HWLOC_OBJ_L3CACHE, core);
    const auto found = std::find(caches.begin(), caches.end(), cache);
    if (found == caches.end()) {
      caches.push_back(cache);
      counts.push_back(1);
    } else {
      ++counts[static_cast<std::size_t>(found - caches.begin())];
    }
  }
  return counts;
}

bool stay_on_core(std::size_t number) {
  const Machine machine = look();
  if (machine.cores.empty()) return false;
  hwloc_bitmap_t set = machine.allowed.get();
  hwloc_bitmap_and(set, set, machine.cores[number % machine.cores.size()]->cpuset);
  return hwloc_set_cpubind(machine.topology.get(), set, HWLOC_CPUBIND_THREAD) == 0;
}

}  // namespace dovetail::cores
