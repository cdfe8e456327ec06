// What lanes have pending and when they are reserved, on threads.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

#include "cores/machines.h"

namespace dovetail::cores {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

Ticks steady_now() {
  return static_cast<Ticks>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                std::chrono::steady_clock::now().time_since_epoch())
                                .count());
}

// A task of one lane that runs until it is told to end.
struct Held {
  std::atomic<int> lane{-1};
  std::atomic<bool> ends{false};

  TaskFunction function() {
    return [this](const Part& part) {
      lane = static_cast<int>(part.lane);
      while (!ends) std::this_thread::yield();
    };
  }
  // Where it runs, once it does.
  unsigned lane_of() const {
    while (lane < 0) std::this_thread::yield();
    return static_cast<unsigned>(lane);
  }
};

const auto nothing = [](const Part&) {};

// The caller does not serve, so that each lane has a thread of its own while the caller looks.
ExecutorOptions watched(bool trace) {
  ExecutorOptions options;
  options.caller_serves = false;
  options.trace = trace;
  return options;
}

constexpr TaskSpec kPair = {{1, 1, false}, false, 1, 0};

template <class AnySpan>
std::vector<unsigned> lanes_of(const std::vector<AnySpan>& spans) {
  std::vector<unsigned> lanes;
  for (const AnySpan& span : spans) lanes.push_back(span.lane);
  std::sort(lanes.begin(), lanes.end());
  return lanes;
}

// While one vector lane is busy, the other lanes are reserved for a task that needs all three.
TEST(ExecutorSlots, IdleLanesAreReservedUntilAMixedTaskStarts) {
  for (const bool trace : {true, false}) {
    Executor executor(topology("1x(1C2V)"), watched(trace));
    Held held;
    expect_submits(executor, kVector, held.function());
    const unsigned busy = held.lane_of();
    expect_submits(executor, kMixed, nothing);
    const Ticks reserved_by = steady_now(), reserved_until = steady_now();
    held.ends = true;
    ASSERT_TRUE(executor.wait());
    const LaneSpans spans = executor.take_spans();
    if (!trace) {
      EXPECT_THAT(spans.running, IsEmpty());
      EXPECT_THAT(spans.reserved, IsEmpty());
      continue;
    }
    EXPECT_THAT(spans.pending, IsEmpty());
    EXPECT_THAT(lanes_of(spans.reserved), ElementsAre(0U, 3 - busy));
    for (const ReservedSpan& reserved : spans.reserved) {
      EXPECT_LE(reserved.start, reserved_by);
      EXPECT_GE(reserved.end, reserved_until);
      for (const Span& span : spans.running) {
        if (span.lane == reserved.lane) {
          EXPECT_GE(span.start, reserved.end);
        }
      }
    }
    EXPECT_THAT(executor.take_spans().reserved, IsEmpty()) << "they were taken";
  }
}

// A vector task waits behind the busy lane that is not reserved for the mixed one.
TEST(ExecutorSlots, WhatWaitsBehindABusyLaneIsPending) {
  for (const bool trace : {true, false}) {
    Executor executor(topology("1x(1C2V)"), watched(trace));
    std::array<Held, 2> held;
    for (Held& one : held) expect_submits(executor, kVector, one.function());
    for (const Held& one : held) one.lane_of();
    expect_submits(executor, kPair, nothing);
    expect_submits(executor, kVector, nothing);
    const Ticks pending_by = steady_now(), pending_until = steady_now();
    for (Held& one : held) one.ends = true;
    ASSERT_TRUE(executor.wait());
    const LaneSpans spans = executor.take_spans();
    if (!trace) {
      EXPECT_THAT(spans.pending, IsEmpty());
      continue;
    }
    ASSERT_THAT(spans.pending, SizeIs(1));
    const Span& pending = spans.pending[0];
    EXPECT_EQ(pending.task, 3U);
    EXPECT_LE(pending.start, pending_by);
    EXPECT_GE(pending.end, pending_until);
    for (const Span& span : spans.running) {
      if (span.task == pending.task) {
        EXPECT_GE(span.start, pending.end);
      }
    }
  }
}

// Where another lane comes free than the one behind which the oldest waits, that one runs there,
// and what was pending there takes its place.
TEST(ExecutorSlots, WhatIsPendingChangesPlaces) {
  Executor executor(topology("1x(1C3V)"), watched(true));
  std::array<Held, 3> held;
  for (Held& one : held) expect_submits(executor, kVector, one.function());
  for (const Held& one : held) one.lane_of();
  expect_submits(executor, kPair, nothing);
  std::array<Held, 2> pending;
  for (Held& one : pending) expect_submits(executor, kVector, one.function());
  const Ticks pending_by = steady_now();
  // The first vector lane is reserved, the older task waits for the second and the younger for the
  // last.
  const auto on = [&](unsigned lane) -> Held& {
    return *std::find_if(held.begin(), held.end(),
                         [&](const Held& one) { return one.lane_of() == lane; });
  };
  on(3).ends = true;
  EXPECT_EQ(pending[0].lane_of(), 3U);
  const Ticks changed = steady_now();
  on(2).ends = true;
  EXPECT_EQ(pending[1].lane_of(), 2U);
  for (Held& one : held) one.ends = true;
  for (Held& one : pending) one.ends = true;
  ASSERT_TRUE(executor.wait());
  std::vector<Span> spans = executor.take_spans().pending;
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
    return std::pair(a.task, a.start) < std::pair(b.task, b.start);
  });
  ASSERT_THAT(spans, SizeIs(3));
  const auto expect = [&](const Span& span, TaskId task, unsigned lane) {
    EXPECT_EQ(span.task, task);
    EXPECT_EQ(span.lane, lane);
  };
  expect(spans[0], 4, 2);
  expect(spans[1], 5, 3);
  expect(spans[2], 5, 2);
  EXPECT_LE(spans[1].start, pending_by);
  EXPECT_EQ(spans[0].end, spans[1].end);
  EXPECT_EQ(spans[1].end, spans[2].start);
  EXPECT_LE(spans[0].end, changed);
  EXPECT_GE(spans[2].end, changed);
}

// Parts of a mixed task behind lanes that are all busy, each on its own.
TEST(ExecutorSlots, PartsOfAMixedTaskArePending) {
  ExecutorOptions options = watched(true);
  options.dispatch.policy = AdmissionPolicy::kUniform;
  Executor executor(topology("1x(1C2V)"), options);
  std::array<Held, 3> held;
  for (std::size_t i = 0; i < held.size(); ++i)
    expect_submits(executor, i == 0 ? kMatrix : kVector, held[i].function());
  for (const Held& one : held) one.lane_of();
  expect_submits(executor, kMixed, nothing);
  for (Held& one : held) one.ends = true;
  ASSERT_TRUE(executor.wait());
  const LaneSpans spans = executor.take_spans();
  EXPECT_THAT(lanes_of(spans.pending), ElementsAre(0U, 1U, 2U));
  for (const Span& pending : spans.pending) EXPECT_EQ(pending.task, 3U);
  EXPECT_THAT(spans.reserved, IsEmpty());
}

// The caller's lane is reserved while it waits for room, and then the caller's again: it is no
// longer idle, though no lane has been given anything since.
TEST(ExecutorSlots, ALaneThatTheCallerTakesBackIsNotReserved) {
  ExecutorOptions options;
  options.trace = true;
  options.dispatch.pending_slots = false;
  options.graph.edges = 4;
  Executor executor(topology("1x(1C1V)+1x(1V)"), options);
  std::array<Held, 3> held;
  expect_submits(executor, kVector, held[0].function());
  held[0].lane_of();
  expect_submits(executor, kVector, held[1].function());
  held[1].lane_of();
  expect_submits(executor, kPair, nothing);
  expect_submits(executor, kVector, held[2].function());  // follows the second
  const auto join = [&](TaskNumber task) {
    expect_submits(executor, {{}, false, 1, 0}, nothing, {}, {task});
  };
  for (std::uint32_t edge = 0; edge < options.graph.edges; ++edge) join(1);
  // Usually when the caller waits for an edge already.
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    held[1].ends = true;
  });
  join(0);
  const Ticks left = steady_now(), waits = steady_now();
  later.join();
  for (Held& one : held) one.ends = true;
  ASSERT_TRUE(executor.wait());
  for (const ReservedSpan& reserved : executor.take_spans().reserved) {
    if (reserved.group == 0 && reserved.lane == 0) {
      EXPECT_TRUE(reserved.end <= left || reserved.start >= waits);
    }
  }
}

}  // namespace
}  // namespace dovetail::cores
