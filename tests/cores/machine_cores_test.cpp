#include "cores/machine_cores.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <cstdlib>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

#include "cores/machines.h"
#include "support/sanitized.h"

namespace dovetail::cores {
namespace {

using Cpus = std::set<int>;

// Those that the calling thread may run on.
Cpus own_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  Cpus cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.insert(cpu);
  }
  return cpus;
}

Cpus cpus_of_core(std::size_t number) {
  Cpus cpus;
  std::thread([&] {
    EXPECT_TRUE(stay_on_core(number));
    cpus = own_cpus();
  }).join();
  return cpus;
}

std::size_t cores_here() {
  const auto counts = cores_by_cache();
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

TEST(MachineCores, EachIsAnother) {
  const std::size_t cores = cores_here();
  if (cores == 0) GTEST_SKIP() << "hwloc knows no cores here";
  const Cpus allowed = own_cpus();
  Cpus seen;
  for (std::size_t core = 0; core < cores; ++core) {
    const Cpus cpus = cpus_of_core(core);
    EXPECT_FALSE(cpus.empty());
    for (const int cpu : cpus) {
      EXPECT_TRUE(allowed.count(cpu) == 1) << cpu;
      EXPECT_TRUE(seen.insert(cpu).second) << cpu << " belongs to two cores";
    }
  }
  EXPECT_EQ(seen, allowed);
  EXPECT_EQ(cpus_of_core(cores), cpus_of_core(0));
}

TEST(MachineCores, OnlyThoseThatTheProcessMayUse) {
  const std::size_t cores = cores_here();
  if (cores < 2) GTEST_SKIP() << "a machine of one core";
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer's own thread may use all cores";
  const Cpus last = cpus_of_core(cores - 1);
  const auto alone = [&] {
    if (!stay_on_core(cores - 1)) std::exit(1);
    // Each thread starts with the cores of the one that starts it: they are all that there are now.
    const bool one = cores_here() == 1;
    std::exit(one && cpus_of_core(0) == last && cpus_of_core(1) == last ? 0 : 2);
  };
  EXPECT_EXIT(alone(), testing::ExitedWithCode(0), "");
}

TEST(MachineCores, LanesBelongToTheCoresOfTheirCache) {
  const auto cores = static_cast<std::uint32_t>(cores_here());
  if (cores == 0) GTEST_SKIP() << "hwloc knows no cores here";
  // As if each core had a cache of its own.
  const Topology machine = Topology::of_caches(std::vector<std::uint32_t>(cores, 1), 3 * cores);
  ExecutorOptions options;
  options.pin = true;
  options.caller_serves = false;
  Executor executor(machine, options);
  std::vector<Cpus> lanes(3 * cores);
  // All lanes at once, so that each thread has one.
  expect_submits(executor, {kWholeGroup, true, cores, 0},
                 [&lanes](const Part& part) { lanes[3 * part.group + part.lane] = own_cpus(); });
  ASSERT_TRUE(executor.wait());
  for (std::size_t lane = 0; lane < lanes.size(); ++lane)
    EXPECT_EQ(lanes[lane], cpus_of_core(lane / 3)) << lane;
}

TEST(MachineCores, ThreadsOfAnExecutorStayOnTheCoresOfTheirLanes) {
  if (cores_here() == 0) GTEST_SKIP() << "hwloc knows no cores here";
  ExecutorOptions options;
  options.pin = true;
  for (const bool caller_serves : {false, true}) {
    options.caller_serves = caller_serves;
    const Cpus before = own_cpus();
    Executor executor(topology("1x(3L)"), options);
    std::vector<Cpus> lanes(3);
    // All lanes at once, so that each thread has one.
    expect_submits(executor, {kWholeGroup, false, 1, 0},
                   [&lanes](const Part& part) { lanes[part.lane] = own_cpus(); });
    ASSERT_TRUE(executor.wait());
    for (std::size_t lane = caller_serves ? 1 : 0; lane < 3; ++lane) {
      EXPECT_EQ(lanes[lane], cpus_of_core(lane)) << lane;
    }
    EXPECT_EQ(own_cpus(), before);
  }
}

}  // namespace
}  // namespace dovetail::cores
