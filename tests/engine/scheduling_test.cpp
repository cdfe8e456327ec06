// What the engine makes of the scheduler's options and of a request's scheduling fields, with its
// thread.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cores/topology.h"
#include "dovetail/engine.h"
#include "engine/engine_fixture.h"

namespace dovetail {
namespace {

using namespace std::chrono_literals;
using test::Answer;
using test::Collector;

class Scheduling : public test::EngineTest {
 protected:
  // A request that says the same over and over, so that draft tokens are right.
  static Request repeating(int seed, int max_tokens) {
    Request request = EngineTest::request(seed, max_tokens);
    for (int i = 0; i < 24; ++i) request.prompt.push_back(65 + i % 3);
    request.sampling.logit_bias = {{65, 60.0F}, {66, 59.0F}};
    request.sampling.temperature = seed % 2 == 0 ? 0.0F : 1.0F;
    return request;
  }

  static void submit_six(Engine& engine, Collector& collector) {
    for (int i = 0; i < 6; ++i)
      EXPECT_TRUE(engine.submit(request(i), collector.sink(i)).has_value());
  }

  static std::uint64_t kinds(const std::vector<observe::Event>& events, observe::EventKind kind) {
    return static_cast<std::uint64_t>(std::count_if(
        events.begin(), events.end(), [&](const auto& event) { return event.kind == kind; }));
  }
};

TEST_F(Scheduling, NoOptionChangesAnAnswer) {
  struct Case {
    const char* name;
    void (*change)(EngineOptions&);
  };
  const Case cases[] = {
      {"overlap", [](EngineOptions& o) { o.async_scheduling = true; }},
      {"draft tokens", [](EngineOptions& o) { o.speculative_tokens = 4; }},
      {"both", [](EngineOptions& o) { o.async_scheduling = true, o.speculative_tokens = 3; }},
      {"no prefix cache", [](EngineOptions& o) { o.prefix_cache = false; }},
      {"not mixed", [](EngineOptions& o) { o.mixed = false; }},
      {"fair", [](EngineOptions& o) { o.policy = PolicyOption::kFair; }},
      {"little memory, overlap",
       [](EngineOptions& o) { o.kv_blocks = 16, o.async_scheduling = true; }},
  };
  std::vector<Answer> expected;
  const auto ask = [](int i) { return i % 2 == 0 ? request(i, 30) : repeating(i / 2, 30); };
  for (int i = 0; i < 16; ++i) expected.push_back(alone(ask(i)));
  for (const Case& c : cases) {
    const EngineOptions before = options_;
    c.change(options_);
    const auto engine = start();
    options_ = before;
    Collector collector;
    std::vector<std::thread> clients;
    for (int client = 0; client < 2; ++client) {
      clients.emplace_back([&, client] {
        for (int i = client; i < 16; i += 2)
          ASSERT_TRUE(engine->submit(ask(i), collector.sink(i)).has_value());
      });
    }
    for (std::thread& client : clients) client.join();
    collector.await(16);
    for (int i = 0; i < 16; ++i) {
      const Answer answer = collector.answer(i);
      EXPECT_EQ(answer.tokens, expected[static_cast<std::size_t>(i)].tokens) << c.name << i;
      EXPECT_EQ(answer.text, expected[static_cast<std::size_t>(i)].text) << c.name << i;
      EXPECT_EQ(answer.usage.completion_tokens, 30U);
    }
    EXPECT_TRUE(engine->drain(60s));
    EXPECT_EQ(engine->stats().kv_blocks_used, 0U);
    EXPECT_EQ(engine->stats().generated_tokens, 16U * 30U);
    if (engine->options().speculative_tokens > 0) {
      EXPECT_GT(engine->stats().accepted_tokens, 0U) << c.name;
    }
  }
}

TEST_F(Scheduling, CachedTokensAreFoundAndReportedWithinATenantAndSalt) {
  const auto engine = start();
  Collector collector;
  int key = 0;
  const auto cached = [&](const char* tenant, const char* salt) {
    Request request = EngineTest::request(35, 20);
    request.tenant = tenant;
    request.cache_salt = salt;
    EXPECT_TRUE(engine->submit(request, collector.sink(key)).has_value());
    collector.await(key + 1);
    return collector.answer(key++).usage.cached_tokens;
  };
  // 40 tokens: two whole blocks can be found.
  EXPECT_EQ(cached("ab", "c"), 0U);
  EXPECT_EQ(cached("ab", "c"), 32U);
  EXPECT_EQ(cached("a", "bc"), 0U);
  EXPECT_EQ(cached("ab", ""), 0U);
  EXPECT_EQ(cached("", "ab"), 0U);
  EXPECT_EQ(cached("", "abc"), 0U);
  EXPECT_EQ(cached("a", "bc"), 32U);
  EXPECT_EQ(engine->stats().cached_tokens, 64U);
  EXPECT_GT(engine->stats().kv_blocks_cached, 0U);
  for (int i = 1; i < key; ++i) EXPECT_EQ(collector.answer(i).tokens, collector.answer(0).tokens);
}

TEST_F(Scheduling, WhatIsNotDoneInTimeEndsWaitingOrRunning) {
  options_.max_num_seqs = 1;
  for (const bool async : {false, true}) {
    options_.async_scheduling = async;
    const auto engine = start();
    Collector collector;
    const EventSink inner = collector.sink(0);
    Request running = request(10, 200);
    running.timeout = 300ms;
    ASSERT_TRUE(engine
                    ->submit(running,
                             [&](const OutputEvent& event) {
                               if (!event.finish) std::this_thread::sleep_for(5ms);
                               inner(event);
                             })
                    .has_value());
    Request waiting = request(20);
    waiting.timeout = 20ms;
    ASSERT_TRUE(engine->submit(waiting, collector.sink(1)).has_value());
    ASSERT_TRUE(engine->submit(request(21), collector.sink(2)).has_value());
    collector.await(3);
    EXPECT_EQ(collector.answer(0).finish, FinishReason::kError);
    EXPECT_EQ(collector.answer(0).error.kind, ErrorKind::kTimeout);
    EXPECT_THAT(collector.answer(0).error.message, testing::HasSubstr("300 ms"));
    EXPECT_GT(collector.answer(0).tokens.size(), 0U);
    EXPECT_EQ(collector.answer(1).error.kind, ErrorKind::kTimeout);
    EXPECT_THAT(collector.answer(1).error.message, testing::HasSubstr("20 ms"));
    EXPECT_TRUE(collector.answer(1).tokens.empty());
    EXPECT_EQ(collector.answer(2).finish, FinishReason::kLength);
    EXPECT_TRUE(engine->drain(60s));
    const EngineStats stats = engine->stats();
    EXPECT_EQ(stats.prompt_tokens, running.prompt.size() + request(21).prompt.size())
        << "the one that waited cost no work";
    EXPECT_EQ(stats.requests_timed_out, 2U);
    EXPECT_EQ(stats.requests_finished, 1U);
    EXPECT_EQ(stats.kv_blocks_used, 0U);
  }
}

TEST_F(Scheduling, WhatIsCancelledBeforeItIsSeenIsCounted) {
  const auto engine = start();
  std::mutex gate;
  std::atomic<bool> hanging = false;
  Collector collector;
  const EventSink inner = collector.sink(0);
  gate.lock();
  ASSERT_TRUE(engine
                  ->submit(request(1),
                           [&](const OutputEvent& event) {
                             hanging = true;
                             const std::lock_guard lock(gate);
                             inner(event);
                           })
                  .has_value());
  while (!hanging) std::this_thread::sleep_for(1ms);
  Request two = request(2);
  two.n = 2;
  const auto id = engine->submit(two, collector.sink(1));
  ASSERT_TRUE(id.has_value());
  engine->cancel(*id);
  gate.unlock();
  collector.await(3);
  EXPECT_TRUE(engine->drain(60s));
  EXPECT_EQ(collector.answer(1, 0).finish, FinishReason::kCancelled);
  EXPECT_EQ(collector.answer(1, 1).finish, FinishReason::kCancelled);
  EXPECT_EQ(engine->stats().requests_cancelled, 2U);
  EXPECT_EQ(engine->stats().requests_finished, 1U);
}

TEST_F(Scheduling, CancellationWhileAStepIsUnderWayLeavesTheOthersAlone) {
  options_.async_scheduling = true;
  options_.speculative_tokens = 2;
  const auto engine = start();
  Collector collector;
  std::vector<RequestId> ids(24);
  for (int i = 0; i < 24; ++i) {
    // Every other one cancels itself with its third token, while the next step computes.
    auto count = std::make_shared<int>(0);
    ids[static_cast<std::size_t>(i)] = *engine->submit(
        request(i, 60), [&, i, count, inner = collector.sink(i)](const OutputEvent& event) {
          if (i % 2 == 0 && ++*count == 3) engine->cancel(event.request);
          inner(event);
        });
  }
  collector.await(24);
  EXPECT_TRUE(engine->drain(60s));
  for (int i = 0; i < 24; ++i) {
    const Answer answer = collector.answer(i);
    EXPECT_EQ(answer.last_events, 1);
    std::vector<TokenId> whole = alone(request(i, 60)).tokens;
    if (i % 2 == 0) {
      EXPECT_EQ(answer.finish, FinishReason::kCancelled);
      EXPECT_GE(answer.tokens.size(), 3U);
      whole.resize(std::min(whole.size(), answer.tokens.size()));
    }
    EXPECT_EQ(answer.tokens, whole) << i;
  }
  EXPECT_EQ(engine->stats().requests_cancelled, 12U);
  EXPECT_EQ(engine->stats().kv_blocks_used, 0U);
}

TEST_F(Scheduling, TheTraceHasEveryStep) {
  EXPECT_TRUE(start()->trace().events.empty());
  options_.trace_events = 1U << 14;
  for (const bool async : {false, true}) {
    options_.async_scheduling = async;
    const auto engine = start();
    Collector collector;
    submit_six(*engine, collector);
    EXPECT_LE(kinds(engine->trace().events, observe::EventKind::kArrive), 6U);  // while it runs
    EXPECT_TRUE(engine->drain(60s));
    const std::vector<observe::Event> events = engine->trace().events;
    const std::uint64_t steps = engine->stats().steps;
    EXPECT_EQ(kinds(events, observe::EventKind::kArrive), 6U);
    EXPECT_EQ(kinds(events, observe::EventKind::kFinish), 6U);
    EXPECT_EQ(kinds(events, observe::EventKind::kForward), steps);
    EXPECT_EQ(kinds(events, observe::EventKind::kForwarded), steps);
    EXPECT_EQ(kinds(events, observe::EventKind::kSampled), steps);
    EXPECT_EQ(kinds(events, observe::EventKind::kCommit), steps);
    EXPECT_TRUE(std::is_sorted(events.begin(), events.end(),
                               [](const auto& a, const auto& b) { return a.time < b.time; }));
    EXPECT_GT(events.front().time, 0);
  }
}

// Every lane does one thing at a time, and what belongs to a step lies within it.
TEST_F(Scheduling, TheTraceHasWhatEveryLaneDid) {
  EXPECT_TRUE(start()->trace().lanes.empty());
  options_.trace_events = 1U << 16;
  for (const bool async : {false, true}) {
    options_.async_scheduling = async;
    const auto engine = start();
    Collector collector;
    submit_six(*engine, collector);
    EXPECT_TRUE(engine->drain(60s));
    EngineTrace trace = engine->trace();
    std::sort(trace.lanes.begin(), trace.lanes.end(), [](const auto& a, const auto& b) {
      return std::pair(a.lane, a.start) < std::pair(b.lane, b.start);
    });
    std::map<std::pair<std::string, std::int32_t>, std::uint64_t> first_blocks;
    for (std::size_t i = 0; i < trace.lanes.size(); ++i) {
      const observe::LaneSlice& slice = trace.lanes[i];
      EXPECT_LE(slice.start, slice.end);
      EXPECT_LT(slice.lane, 2U);
      EXPECT_GT(slice.start, trace.events.front().time);
      EXPECT_LT(slice.end, trace.events.back().time);
      if (i > 0 && trace.lanes[i - 1].lane == slice.lane) {
        EXPECT_LE(trace.lanes[i - 1].end, slice.start);
      }
      if (slice.tile == 0 && slice.block == 0) ++first_blocks[{slice.task, slice.layer}];
    }
    const std::uint64_t steps = engine->stats().steps;
    const auto layers = static_cast<std::int32_t>(source_->config.layers.size());
    for (std::int32_t layer = 0; layer < layers; ++layer) {
      for (const char* task : {"norm", "query-key-value", "place", "attend", "attended", "output",
                               "mlp-norm", "gate-up", "activate", "down"}) {
        EXPECT_EQ((first_blocks[{task, layer}]), steps) << task << " of layer " << layer;
      }
    }
    for (const char* task : {"embed", "logit-rows", "logits", "sample"})
      EXPECT_EQ((first_blocks[{task, -1}]), steps) << task;
    EXPECT_EQ(first_blocks.size(), 10U * source_->config.layers.size() + 4U);
  }
}

// Lanes that share an expert wait for each other: the first that is free is kept meanwhile.
TEST_F(Scheduling, TheTraceHasWhenLanesWereKept) {
  if (cores::Topology::of_machine(options_.threads).groups().size() > 1)
    GTEST_SKIP() << "no two lanes are of one group";
  test::RandomModelOptions model;
  model.vocab_size = 259;
  model.experts = 4;
  model.experts_used = 1;
  model.intermediate_size = 256;
  auto source = test::random_model(model);
  source->tokenizer = test::byte_tokenizer();
  source_ = std::move(source);
  options_.trace_events = 1U << 16;
  const auto engine = start();
  Collector collector;
  ASSERT_TRUE(engine->submit(request(1), collector.sink(0)).has_value());
  EXPECT_TRUE(engine->drain(60s));
  const EngineTrace trace = engine->trace();
  std::size_t kept = 0, experts = 0;
  for (const observe::LaneSlice& slice : trace.lanes) {
    EXPECT_LE(slice.end, trace.events.back().time);
    experts += slice.task == std::string("experts") ? 1 : 0;
    if (slice.track != observe::LaneTrack::kReserved) continue;
    ++kept;
    EXPECT_STREQ(slice.task, "kept");
    for (const observe::LaneSlice& other : trace.lanes) {
      if (other.lane != slice.lane || other.track != observe::LaneTrack::kRunning) continue;
      EXPECT_TRUE(other.end <= slice.start || slice.end <= other.start);
    }
  }
  EXPECT_GT(experts, 0U);
  EXPECT_GT(kept, 0U);
}

TEST_F(Scheduling, WithNothingToDoItSleeps) {
  options_.async_scheduling = true;
  options_.stall_limit = 1ms;
  options_.on_stall = [](const std::string&) {};
  const auto engine = start();
  Collector collector;
  ASSERT_TRUE(engine->submit(request(1), collector.sink(0)).has_value());
  collector.await(1);
  const auto used = [] {
    rusage usage = {};
    getrusage(RUSAGE_SELF, &usage);
    const auto microseconds = [](const timeval& time) {
      return 1'000'000 * time.tv_sec + time.tv_usec;
    };
    return microseconds(usage.ru_utime) + microseconds(usage.ru_stime);
  };
  // Of processor time, which does not depend on what else runs: 1 % of a core. When its threads
  // come to rest does.
  const auto used_in_a_second = [&] {
    const auto before = used();
    std::this_thread::sleep_for(1s);
    return used() - before;
  };
  bool rests = false;
  for (int i = 0; i < 10 && !rests; ++i) rests = used_in_a_second() < 10'000;
  EXPECT_TRUE(rests);
}

}  // namespace
}  // namespace dovetail
