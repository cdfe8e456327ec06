// Where the threads of an engine may run.

#include <gtest/gtest.h>
#include <sched.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "cores/machine_cores.h"
#include "engine/engine_fixture.h"
#include "engine/options.h"
#include "engine/step_loop.h"

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

// Waits until the threads are where they are expected: they bind themselves when they begin, and
// those of an engine before may still be ending.
template <class Expected>
void expect_bound(const Expected& as_expected) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  std::multiset<Cpus> bound = bound_threads();
  while (!as_expected(bound) && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    bound = bound_threads();
  }
  EXPECT_TRUE(as_expected(bound)) << testing::PrintToString(bound);
}

TEST_F(EngineBinding, ThreadsThatComputeHaveACoreEach) {
  const std::uint32_t cores = count(cores_here());
  if (cores < 2) GTEST_SKIP() << "a machine of one core, or hwloc knows none";
  ASSERT_TRUE(bound_threads().empty());
  for (const bool pin : {false, true}) {
    for (const bool async : {false, true}) {
      SCOPED_TRACE(testing::Message() << "pinned: " << pin << ", planning ahead: " << async);
      EngineOptions options = options_;
      options.threads = cores;
      options.pin_threads = pin ? PinOption::kAlways : PinOption::kNever;
      options.async_scheduling = async;
      const auto engine = Engine::create(source_, options);
      ASSERT_TRUE(engine) << engine.error().message;
      test::Collector collector;
      ASSERT_TRUE((*engine)->submit(request(7, 5), collector.sink(0)));
      collector.await(1);
      EXPECT_EQ((*engine)->stats().threads_pinned, pin);
      // Near their caches, if there are several, or on cores of their own.
      const std::size_t expected = pin || cores_here().size() > 1 ? cores : 0;
      expect_bound([&](const std::multiset<Cpus>& bound) {
        return bound.size() == expected &&
               (!pin || std::set<Cpus>(bound.begin(), bound.end()).size() == cores);
      });
    }
  }
}

TEST_F(EngineBinding, ByThemselvesTheyStayOnTheirCoresWhileTheseAreFree) {
  const std::uint32_t cores = count(cores_here());
  if (cores < 2) GTEST_SKIP() << "a machine of one core, or hwloc knows none";
  ASSERT_TRUE(bound_threads().empty());
  options_.threads = cores;
  options_.async_scheduling = true;  // the thread that steps is this one, which computes nothing
  std::optional<double> waited;
  engine::StepHooks hooks;
  hooks.waited_for_cores = [&waited] { return waited; };
  const auto loop = engine::StepLoop::create(source_, std::nullopt, options_, hooks);
  ASSERT_TRUE(loop) << loop.error().message;
  RequestId next = 0;
  const auto expect_pinned = [&](std::optional<double> share, bool pinned) {
    waited = share;
    ASSERT_TRUE((*loop)->add(next++, request(3, 5), [](const OutputEvent&) {}));
    while (!(*loop)->idle()) ASSERT_TRUE((*loop)->step());
    EXPECT_EQ((*loop)->stats().threads_pinned, pinned);
    const std::size_t expected = pinned || cores_here().size() > 1 ? cores : 0;
    expect_bound([&](const std::multiset<Cpus>& bound) {
      return bound.size() == expected &&
             (!pinned || std::set<Cpus>(bound.begin(), bound.end()).size() == cores);
    });
  };
  expect_pinned(std::nullopt, false);
  expect_pinned(0.0, true);
  expect_pinned(std::nullopt, true);
  expect_pinned(0.5, false);
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
}

}  // namespace
}  // namespace dovetail
