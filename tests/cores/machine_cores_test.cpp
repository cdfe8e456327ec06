#include "cores/machine_cores.h"

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <cstdlib>
#include <numeric>
#include <set>
#include <string>
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
    EXPECT_TRUE(bind_thread(Binding::kCore, number));
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
    if (!bind_thread(Binding::kCore, cores - 1)) std::exit(1);
    // Each thread starts with the cores of the one that starts it: they are all that there are now.
    const bool one = cores_here() == 1;
    std::exit(one && cpus_of_core(0) == last && cpus_of_core(1) == last ? 0 : 2);
  };
  EXPECT_EXIT(alone(), testing::ExitedWithCode(0), "");
}

TEST(MachineCores, NearACoreAreThoseOfItsCache) {
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer's own thread may use all cores";
  const Cpus mine = own_cpus();
  const auto all = static_cast<std::size_t>(*mine.rbegin()) + 1;
  if (mine.size() < all || all % 2 != 0) GTEST_SKIP() << "not all cores, or an odd number of them";
  // In a process of its own, where hwloc is told that so many caches share the cores.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto with_caches = [&](std::size_t caches) {
    const std::string machine = fmt::format("l3:{} core:{} pu:1", caches, all / caches);
    setenv("HWLOC_SYNTHETIC", machine.c_str(), 1);
    setenv("HWLOC_THISSYSTEM", "1", 1);
    const auto of_cache = [&](std::size_t number) {
      Cpus cpus;
      const std::size_t first = number % all / (all / caches) * (all / caches);
      for (std::size_t cpu = first; cpu < first + all / caches; ++cpu)
        cpus.insert(static_cast<int>(cpu));
      return cpus;
    };
    for (std::size_t number = 0; number < 2 * all; ++number) {
      Cpus near;
      std::thread([&] {
        if (!bind_thread(Binding::kCache, number)) std::exit(1);
        near = own_cpus();
      }).join();
      if (near != of_cache(number)) std::exit(2);
    }
    ThreadPins pins(Pinning::kNever, Binding::kCache);
    ExecutorOptions options;
    options.pins = &pins;
    options.caller_serves = false;
    Executor executor(Topology::of_machine(static_cast<std::uint32_t>(all)), options);
    std::vector<Cpus> lanes(all);
    // All lanes at once, so that each thread has one.
    expect_submits(
        executor, {kWholeGroup, true, static_cast<std::uint32_t>(caches), 0},
        [&](const Part& part) { lanes[all / caches * part.group + part.lane] = own_cpus(); });
    if (!executor.wait()) std::exit(3);
    for (std::size_t lane = 0; lane < all; ++lane) {
      if (lanes[lane] != of_cache(lane)) std::exit(4);
    }
    std::exit(0);
  };
  for (const std::size_t caches : {std::size_t{1}, std::size_t{2}, all}) {
    EXPECT_EXIT(with_caches(caches), testing::ExitedWithCode(0), "") << caches << " caches";
  }
}

TEST(MachineCores, LanesBelongToTheCoresOfTheirCache) {
  const auto cores = static_cast<std::uint32_t>(cores_here());
  if (cores == 0) GTEST_SKIP() << "hwloc knows no cores here";
  // As if each core had a cache of its own.
  const Topology machine = Topology::of_caches(std::vector<std::uint32_t>(cores, 1), 3 * cores);
  ThreadPins pins(Pinning::kAlways, Binding::kNone);
  ExecutorOptions options;
  options.pins = &pins;
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
  ThreadPins pins(Pinning::kAlways, Binding::kNone);
  ExecutorOptions options;
  options.pins = &pins;
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
