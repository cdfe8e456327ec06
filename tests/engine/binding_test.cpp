// Where the threads of an engine may run.

#include <gtest/gtest.h>
#include <sched.h>

#include <chrono>
#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "cores/machine_cores.h"
#include "engine/engine_fixture.h"
#include "engine/options.h"

namespace dovetail {
namespace {

using Cpus = std::set<int>;

// Those that a thread may run on; none: it has ended.
Cpus cpus_of(int thread) {
  cpu_set_t set;
  CPU_ZERO(&set);
  Cpus cpus;
  if (sched_getaffinity(thread, sizeof set, &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.insert(cpu);
  }
  return cpus;
}

// Of all threads of the process that may not run wherever this one may.
std::multiset<Cpus> bound_threads() {
  const Cpus own = cpus_of(0);
  std::multiset<Cpus> bound;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    Cpus cpus = cpus_of(std::stoi(task.path().filename()));
    if (!cpus.empty() && cpus != own) bound.insert(std::move(cpus));
  }
  return bound;
}

std::vector<std::uint32_t> cores_here() { return cores::cores_by_cache(); }

std::uint32_t count(const std::vector<std::uint32_t>& cores) {
  std::uint32_t all = 0;
  for (const std::uint32_t some : cores) all += some;
  return all;
}

class EngineBinding : public test::EngineTest {};

TEST_F(EngineBinding, ThreadsThatComputeHaveACoreEach) {
  const std::uint32_t cores = count(cores_here());
  if (cores < 2) GTEST_SKIP() << "a machine of one core, or hwloc knows none";
  ASSERT_TRUE(bound_threads().empty());
  for (const bool pin : {false, true}) {
    for (const bool async : {false, true}) {
      EngineOptions options = options_;
      options.threads = cores;
      options.pin_threads = pin;
      options.async_scheduling = async;
      const auto engine = Engine::create(source_, options);
      ASSERT_TRUE(engine) << engine.error().message;
      test::Collector collector;
      ASSERT_TRUE((*engine)->submit(request(7, 5), collector.sink(0)));
      collector.await(1);
      // Near their caches, if there are several, or on cores of their own. Threads bind themselves
      // when they begin, and those of the engine before this one may still be ending.
      const std::size_t expected = pin || cores_here().size() > 1 ? cores : 0;
      const auto as_expected = [&](const std::multiset<Cpus>& bound) {
        return bound.size() == expected &&
               (!pin || std::set<Cpus>(bound.begin(), bound.end()).size() == cores);
      };
      const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      std::multiset<Cpus> bound = bound_threads();
      while (!as_expected(bound) && std::chrono::steady_clock::now() < limit) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        bound = bound_threads();
      }
      EXPECT_TRUE(as_expected(bound)) << "pinned: " << pin << ", planning ahead: " << async << ", "
                                      << testing::PrintToString(bound);
    }
  }
}

TEST(EngineOptions, BindThreadsToCachesWhereThereIsRoomForAll) {
  const std::vector<std::uint32_t> cores = cores_here();
  EngineOptions options;
  options.threads = count(cores);
  EXPECT_EQ(engine::binding(options),
            cores.size() > 1 ? cores::Binding::kCache : cores::Binding::kNone);
  if (options.threads > 1) {
    --options.threads;
    EXPECT_EQ(engine::binding(options), cores::Binding::kNone);
  }
  options.pin_threads = true;
  EXPECT_EQ(engine::binding(options), cores::Binding::kCore);
}

}  // namespace
}  // namespace dovetail
