#include "cores/thread_pins.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <optional>
#include <set>
#include <thread>

namespace dovetail::cores {
namespace {

using PinnedCpus = std::set<int>;

PinnedCpus cpus_of(pthread_t thread) {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(pthread_getaffinity_np(thread, sizeof set, &set), 0);
  PinnedCpus cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.insert(cpu);
  }
  return cpus;
}

// A member of the pins, which computes or sleeps until it ends.
class Worker {
 public:
  Worker(ThreadPins& pins, std::size_t core, bool computes = false)
      : thread_([&pins, core, computes, this] {
          const ThreadPins::Member member(pins, core);
          joined_.store(true);
          joined_.notify_one();
          while (computes && !ends_.load(std::memory_order_relaxed)) {
          }
          ends_.wait(false);
        }) {
    joined_.wait(false);
  }
  ~Worker() {
    ends_.store(true);
    ends_.notify_one();
    thread_.join();
  }
  PinnedCpus cpus() { return cpus_of(thread_.native_handle()); }

 private:
  std::atomic<bool> joined_{false}, ends_{false};
  std::thread thread_;
};

class ThreadPinsTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto counts = cores_by_cache();
    if (std::accumulate(counts.begin(), counts.end(), 0U) < 2)
      GTEST_SKIP() << "a machine of one core, or hwloc knows none";
    for (const std::size_t core : {0, 1}) {
      std::thread([&] {
        ASSERT_TRUE(bind_thread(Binding::kCore, core));
        (core == 0 ? first_ : second_) = cpus_of(pthread_self());
      }).join();
    }
    ASSERT_NE(first_, second_);
  }

  const PinnedCpus all_ = cpus_of(pthread_self());
  PinnedCpus first_, second_;  // of the first two cores
};

// Else an engine that is made later on the same thread would find a machine of one core.
TEST_F(ThreadPinsTest, AThreadThatIsNoMemberAnyMoreRunsWhereItCould) {
  for (const Pinning pinning : {Pinning::kAlways, Pinning::kNever}) {
    std::thread([&] {
      ASSERT_TRUE(bind_thread(Binding::kCore, 1));
      ThreadPins pins(pinning, Binding::kNone);
      {
        const ThreadPins::Member member(pins, 0);
        EXPECT_EQ(cpus_of(pthread_self()), pinning == Pinning::kAlways ? first_ : all_);
      }
      EXPECT_EQ(cpus_of(pthread_self()), second_);
    }).join();
  }
}

TEST_F(ThreadPinsTest, AllThreadsMoveWhereTheRuleChangesItsMind) {
  ThreadPins pins(Pinning::kAuto, Binding::kNone);
  Worker one(pins, 0), two(pins, 1);
  const auto expect = [&](bool pinned) {
    EXPECT_EQ(pins.pinned(), pinned);
    EXPECT_EQ(one.cpus(), pinned ? first_ : all_);
    EXPECT_EQ(two.cpus(), pinned ? second_ : all_);
  };
  expect(false);
  pins.look(0, std::nullopt);
  expect(false);
  pins.look(1, 0.0);
  expect(true);
  {
    Worker late(pins, 1);
    EXPECT_EQ(late.cpus(), second_);
  }
  pins.look(2, 0.5);
  expect(false);
  pins.look(3, 0.0);  // it is too early for another try
  expect(false);
  pins.look(2 + PinRule::kFirstPause, 0.0);
  expect(true);
}

TEST_F(ThreadPinsTest, AlwaysAndNeverAskNoRule) {
  for (const Pinning pinning : {Pinning::kAlways, Pinning::kNever}) {
    const bool pinned = pinning == Pinning::kAlways;
    ThreadPins pins(pinning, Binding::kNone);
    Worker worker(pins, 1);
    for (const double waited : {0.0, 0.9}) {
      EXPECT_EQ(pins.pinned(), pinned);
      EXPECT_EQ(worker.cpus(), pinned ? second_ : all_);
      pins.look(1, waited);
    }
    EXPECT_EQ(worker.cpus(), pinned ? second_ : all_);
  }
}

TEST_F(ThreadPinsTest, WhoHasLeftIsNotMoved) {
  ThreadPins pins(Pinning::kAuto, Binding::kNone);
  { const ThreadPins::Member member(pins, 0); }
  pins.look(0, 0.0);
  EXPECT_TRUE(pins.pinned());
  EXPECT_EQ(cpus_of(pthread_self()), all_);
}

TEST_F(ThreadPinsTest, WhoIsStartedByAThreadOfOthersRunsWhereItsOwnDo) {
  ThreadPins always(Pinning::kAlways, Binding::kNone), never(Pinning::kNever, Binding::kNone);
  std::thread([&] {
    const ThreadPins::Member member(always, 0);
    EXPECT_EQ(cpus_of(pthread_self()), first_);
    Worker worker(never, 1);
    EXPECT_EQ(worker.cpus(), all_);
  }).join();
}

TEST_F(ThreadPinsTest, TwoThreadsThatComputeOnOneCoreLeaveIt) {
  if (!CoreClock().read()) GTEST_SKIP() << "the system does not say how long threads wait";
  ThreadPins pins(Pinning::kAuto, Binding::kNone);
  Worker one(pins, 0, true), two(pins, 0, true);
  pins.look(0, 0.0);
  ASSERT_EQ(one.cpus(), first_);
  ASSERT_EQ(two.cpus(), first_);
  Ticks now = 0;
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (pins.pinned() && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    pins.look(++now * ThreadPins::kInterval);
  }
  EXPECT_FALSE(pins.pinned());
  EXPECT_EQ(one.cpus(), all_);
  EXPECT_EQ(two.cpus(), all_);
}

TEST_F(ThreadPinsTest, NoThreadLooksMoreOftenThanEveryInterval) {
  if (!CoreClock().read()) GTEST_SKIP() << "the system does not say how long threads wait";
  ThreadPins pins(Pinning::kAuto, Binding::kNone);
  Worker one(pins, 0, true), two(pins, 0, true);
  pins.look(0);
  pins.look(0, 0.0);
  ASSERT_TRUE(pins.pinned());
  // Long enough for a look to tell that they are in each other's way.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  pins.look(ThreadPins::kInterval - 1);
  EXPECT_TRUE(pins.pinned());
}

TEST(CoreClock, CountsWhatItsThreadRan) {
  const CoreClock clock;
  const auto before = clock.read();
  if (!before) GTEST_SKIP() << "the system does not say how long threads run";
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  auto now = before;
  while (now->ran < before->ran + 1'000'000 && std::chrono::steady_clock::now() < limit) {
    now = clock.read();
    ASSERT_TRUE(now);
  }
  EXPECT_GE(now->ran, before->ran + 1'000'000);
  EXPECT_GE(now->waited, before->waited);
}

}  // namespace
}  // namespace dovetail::cores
