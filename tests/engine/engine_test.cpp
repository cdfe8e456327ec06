#include "dovetail/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

#include "engine/engine_fixture.h"

namespace dovetail {
namespace {

using namespace std::chrono_literals;
using test::Answer;
using test::Collector;
using test::EngineTest;

TEST_F(EngineTest, AnswersManyThreadsAsIfEachWereAlone) {
  const auto engine = start();
  Collector collector;
  std::vector<std::thread> clients;
  for (int client = 0; client < 4; ++client) {
    clients.emplace_back([&, client] {
      for (int i = 0; i < 10; ++i)
        ASSERT_TRUE(
            engine->submit(request(client * 10 + i), collector.sink(client * 10 + i)).has_value());
    });
  }
  for (std::thread& client : clients) client.join();
  collector.await(40);
  for (int i = 0; i < 40; ++i) {
    const Answer together = collector.answer(i);
    const Answer expected = alone(request(i));
    EXPECT_EQ(together.tokens, expected.tokens) << i;
    EXPECT_EQ(together.text, expected.text) << i;
    EXPECT_EQ(together.finish, FinishReason::kLength);
    EXPECT_EQ(together.last_events, 1);
    EXPECT_EQ(together.usage.completion_tokens, 20U);
    EXPECT_EQ(together.usage.prompt_tokens, request(i).prompt.size());
  }
  EXPECT_EQ(engine->stats().requests_finished, 40U);
  EXPECT_EQ(engine->stats().kv_blocks_used, 0U);
}

TEST_F(EngineTest, GivesEachChoiceItsOwnRandomStream) {
  const auto engine = start();
  Collector collector;
  Request several = request(3);
  several.n = 3;
  ASSERT_TRUE(engine->submit(several, collector.sink(0)).has_value());
  collector.await(3);
  EXPECT_EQ(collector.answer(0, 0).tokens, alone(request(3)).tokens);
  EXPECT_NE(collector.answer(0, 0).tokens, collector.answer(0, 1).tokens);
  EXPECT_NE(collector.answer(0, 1).tokens, collector.answer(0, 2).tokens);
}

// The model's tokens are bytes.
TEST_F(EngineTest, EndsAnswersThatAreCutWithAWholeCharacter) {
  Request begun = request(1);
  begun.sampling.logit_bias = {{0xE8, 100.0F}};
  begun.max_tokens = 3;
  const Answer answer = alone(begun);
  EXPECT_EQ(answer.tokens, (std::vector<TokenId>{0xE8, 0xE8, 0xE8}));
  // What can no longer become a character is none; what the last one began is left out.
  EXPECT_EQ(answer.text, "\uFFFD\uFFFD");
}

TEST_F(EngineTest, CancelsOneAndLeavesTheOthersAlone) {
  const auto engine = start();
  Collector collector;
  std::vector<RequestId> ids;
  for (int i = 0; i < 24; ++i) ids.push_back(*engine->submit(request(i, 40), collector.sink(i)));
  for (std::size_t i = 0; i < ids.size(); i += 2) engine->cancel(ids[i]);
  engine->cancel(ids[0]);
  engine->cancel(999);
  collector.await(24);
  for (int i = 0; i < 24; ++i) {
    const Answer answer = collector.answer(i);
    EXPECT_EQ(answer.last_events, 1);
    if (i % 2 == 1) {
      EXPECT_EQ(answer.finish, FinishReason::kLength);
      EXPECT_EQ(answer.tokens, alone(request(i, 40)).tokens);
    }
  }
  EXPECT_EQ(engine->stats().kv_blocks_used, 0U);
}

// The context that is asked for, not the one that the memory holds, nor the length of a sequence.
TEST_F(EngineTest, ChoosesTheFactorsOfLongRopeByTheContextThatIsAskedFor) {
  test::RandomModelOptions model;
  model.vocab_size = 259;
  model.change = [](load::ModelConfig& config) {
    load::RopeConfig& rope = config.ropes.front();
    rope.scaling = load::RopeScaling::kLongRope;
    rope.original_context = 64;
    rope.frequency_divisors.assign(8, 1.0F);
    rope.long_divisors.assign(8, 3.0F);
  };
  auto source = test::random_model(model);
  source->tokenizer = test::byte_tokenizer();
  source_ = std::move(source);
  const Request some = request(20, 12);
  const std::vector<TokenId> as_made = alone(some).tokens;
  options_.kv_blocks = 4;  // of 16 positions
  EXPECT_EQ(alone(some).tokens, as_made);
  options_.kv_blocks = 0;
  options_.max_context = 65;
  EXPECT_EQ(alone(some).tokens, as_made);
  options_.max_context = 64;
  EXPECT_NE(alone(some).tokens, as_made);
}

TEST_F(EngineTest, RefusesWhatNeverFitsAndWhatTheQueueCannotHold) {
  options_.max_num_seqs = 1;
  options_.max_waiting = 2;
  const auto engine = start();
  Collector collector;
  const auto too_long = engine->submit(request(1, 1000), collector.sink(0));
  ASSERT_FALSE(too_long.has_value());
  EXPECT_EQ(too_long.error().kind, ErrorKind::kInvalid);

  int accepted = 0;
  std::optional<Error> refusal;
  for (int i = 0; i < 100 && !refusal; ++i) {
    const auto id = engine->submit(request(i, 200), collector.sink(i));
    if (id.has_value()) {
      ++accepted;
    } else {
      refusal = id.error();
    }
  }
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->kind, ErrorKind::kExhausted);
  EXPECT_THAT(refusal->message, testing::HasSubstr("the queue is full"));
  collector.await(accepted);
}

TEST_F(EngineTest, CountsWhatTheLoopHasTakenAndNotYetLetIn) {
  options_.max_num_seqs = 1;
  options_.max_waiting = 2;
  const auto engine = start();
  Collector collector;
  std::atomic<int> steps = 0;
  std::counting_semaphore<> go_on(0);
  // Every step of the first request ends here, so that the loop is known to be within one.
  const EventSink inner = collector.sink(0);
  ASSERT_TRUE(engine
                  ->submit(request(1, 3),
                           [&](const OutputEvent& event) {
                             inner(event);
                             ++steps;
                             go_on.acquire();
                           })
                  .has_value());
  while (steps < 1) std::this_thread::sleep_for(1ms);
  int accepted = 1;
  while (accepted < 10 && engine->submit(request(accepted), collector.sink(accepted))) ++accepted;
  EXPECT_EQ(accepted, 3);

  go_on.release();
  while (steps < 2) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(engine->stats().waiting, 2U);
  const auto late = engine->submit(request(1), collector.sink(99));
  go_on.release(2);
  ASSERT_FALSE(late.has_value());
  EXPECT_EQ(late.error().kind, ErrorKind::kExhausted);
  collector.await(3);
}

// More than the queue ever holds are taken where nothing waits, all of them; where something waits
// they are refused, all of them, and what fits is taken.
TEST_F(EngineTest, TakesAllOfSeveralRequestsOrNone) {
  options_.max_waiting = 2;
  options_.max_num_seqs = 2;
  const auto engine = start();
  Collector collector;
  std::binary_semaphore go_on(0);
  std::atomic<bool> entered = false;
  const auto many = [](int count) {
    std::vector<Request> requests;
    for (int i = 0; i < count; ++i) requests.push_back(request(i, 3));
    return requests;
  };
  const auto sink_from = [&](int first) -> GroupSink {
    return [&, first](std::size_t index, const OutputEvent& event) {
      if (!entered.exchange(true)) go_on.acquire();
      collector.sink(first + static_cast<int>(index))(event);
    };
  };
  const auto ids = engine->submit_all(many(20), sink_from(0));
  ASSERT_TRUE(ids) << ids.error().message;
  EXPECT_EQ(ids->size(), 20U);
  while (!entered) std::this_thread::sleep_for(1ms);
  for (const int count : {1, 5, 20}) {
    const auto more = engine->submit_all(many(count), sink_from(100));
    ASSERT_FALSE(more) << count;
    EXPECT_EQ(more.error().kind, ErrorKind::kExhausted);
  }
  go_on.release();
  collector.await(20);
  for (int i = 0; i < 20; ++i) {
    const Answer wanted = alone(request(i, 3));
    EXPECT_EQ(collector.answer(i).tokens, wanted.tokens) << i;
    EXPECT_EQ(collector.answer(i).last_events, 1);
  }
  while (engine->stats().running + engine->stats().waiting > 0) std::this_thread::sleep_for(1ms);
  std::vector<Request> bad = many(2);
  bad.back().prompt.clear();
  EXPECT_EQ(engine->submit_all(bad, sink_from(200)).error().kind, ErrorKind::kInvalid);
  ASSERT_TRUE(engine->submit_all(many(4), sink_from(300)));
  collector.await(24);
  EXPECT_EQ(collector.answer(200).last_events, 0);
}

TEST_F(EngineTest, DrainsAndThenRefuses) {
  const auto engine = start();
  Collector collector;
  for (int i = 0; i < 10; ++i)
    ASSERT_TRUE(engine->submit(request(i), collector.sink(i)).has_value());
  EXPECT_TRUE(engine->drain(60s));
  EXPECT_EQ(collector.ended(), 10);
  const auto late = engine->submit(request(1), collector.sink(99));
  ASSERT_FALSE(late.has_value());
  EXPECT_EQ(late.error().kind, ErrorKind::kUnavailable);
}

TEST_F(EngineTest, CancelsWhatIsLeftAtTheEndOfADrain) {
  const auto engine = start();
  Collector collector;
  for (int i = 0; i < 40; ++i)
    ASSERT_TRUE(engine->submit(request(i, 200), collector.sink(i)).has_value());
  EXPECT_FALSE(engine->drain(1ms));
  EXPECT_EQ(collector.ended(), 40);
}

TEST_F(EngineTest, EndsEverythingWhenItIsDestroyed) {
  Collector collector;
  {
    const auto engine = start();
    for (int i = 0; i < 40; ++i)
      ASSERT_TRUE(engine->submit(request(i, 200), collector.sink(i)).has_value());
  }
  EXPECT_EQ(collector.ended(), 40);
  for (int i = 0; i < 40; ++i) EXPECT_EQ(collector.answer(i).last_events, 1);
}

TEST_F(EngineTest, IsNotHealthyWhileAStepHangs) {
  const auto engine = start();
  EXPECT_TRUE(engine->health(0ms).ok);
  std::mutex gate;
  std::atomic<bool> hanging = false;
  gate.lock();
  Collector collector;
  const EventSink inner = collector.sink(0);
  ASSERT_TRUE(engine
                  ->submit(request(1),
                           [&](const OutputEvent& event) {
                             hanging = true;
                             const std::lock_guard lock(gate);
                             inner(event);
                           })
                  .has_value());
  while (!hanging) std::this_thread::sleep_for(1ms);
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(engine->health(10ms).ok);
  EXPECT_THAT(engine->health(10ms).reason, testing::HasSubstr("no step has ended"));
  gate.unlock();
  collector.await(1);
  EXPECT_TRUE(engine->drain(60s));
  EXPECT_TRUE(engine->health(10ms).ok);
}

TEST_F(EngineTest, StopsAtAStopStringAndAStopId) {
  const Answer free = alone(request(5, 60));
  ASSERT_GT(free.text.size(), 20U);
  Request stopped = request(5, 60);
  // From the middle of the text, so that it spans tokens of one byte each.
  stopped.stop = {free.text.substr(free.text.size() / 2, 3)};
  const Answer answer = alone(stopped);
  EXPECT_EQ(answer.finish, FinishReason::kStop);
  EXPECT_EQ(answer.stop_string, stopped.stop.front());
  EXPECT_EQ(answer.text, free.text.substr(0, free.text.find(stopped.stop.front())));

  Request by_id = request(5, 60);
  by_id.stop_ids = {free.tokens[7]};
  const Answer ended = alone(by_id);
  EXPECT_EQ(ended.finish, FinishReason::kStop);
  const auto first = std::find(free.tokens.begin(), free.tokens.end(), free.tokens[7]);
  EXPECT_EQ(ended.tokens, std::vector<TokenId>(free.tokens.begin(), first));

  by_id.min_tokens = 30;
  EXPECT_GE(alone(by_id).tokens.size(), 30U);
}

TEST_F(EngineTest, EndsAtTheModelsEndTokenUnlessToldNotTo) {
  Request request = EngineTest::request(5, 60);
  request.ignore_eos = false;
  request.sampling.logit_bias = {{257, 100.0F}};
  const Answer answer = alone(request);
  EXPECT_EQ(answer.finish, FinishReason::kStop);
  EXPECT_TRUE(answer.tokens.empty());
  EXPECT_EQ(answer.usage.completion_tokens, 1U);
  request.ignore_eos = true;
  EXPECT_EQ(alone(request).finish, FinishReason::kLength);
  request.ignore_eos = false;
  request.min_tokens = 10;
  const Answer later = alone(request);
  EXPECT_EQ(later.finish, FinishReason::kStop);
  EXPECT_EQ(later.tokens.size(), 10U);
}

// In a process of its own, whose address space is too small for the stacks of so many threads.
TEST_F(EngineTest, SaysThatTheSystemDoesNotStartSoManyThreads) {
  if (test::kSanitized) GTEST_SKIP() << "sanitizers do not live with a bounded address space";
  options_.threads = 512;
  const auto try_it = [&] {
    std::uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    const rlimit limit{pages * page + (64U << 20), RLIM_INFINITY};
    setrlimit(RLIMIT_AS, &limit);
    const auto engine = Engine::create(source_, options_);
    if (!engine) std::cerr << engine.error().message;
    std::exit(engine ? 1 : 0);
  };
  EXPECT_EXIT(try_it(), testing::ExitedWithCode(0), "threads: the system does not start 512: ");
}

TEST_F(EngineTest, NamesOptionsThatCannotBe) {
  struct Case {
    void (*change)(EngineOptions&);
    const char* message;
  };
  const Case cases[] = {
      {[](EngineOptions& o) { o.max_num_seqs = 0; }, "max_num_seqs: 0 is out of range"},
      {[](EngineOptions& o) { o.max_num_batched_tokens = 3; },
       "max_num_batched_tokens: 3 tokens are less than one for each of 4 sequences"},
      {[](EngineOptions& o) { o.max_context = 257; },
       "max_context: 257 is out of range, expected 2 to 256"},
      {[](EngineOptions& o) { o.max_context = 200, o.kv_blocks = 12; },
       "max_context: 200 positions do not fit 12 cache blocks of 16; expected at most 192"},
      {[](EngineOptions& o) { o.kernels = "abacus"; },
       "kernels: 'abacus' is not available on this CPU, expected one of "},
      {[](EngineOptions& o) { o.threads = 5000; }, "threads: 5000 is out of range"},
      {[](EngineOptions& o) { o.kv_memory = 10; },
       "kv_memory: 10 bytes hold no cache block, expected at least 8192"},
  };
  for (const Case& c : cases) {
    EngineOptions options = options_;
    c.change(options);
    const auto engine = Engine::create(source_, options);
    ASSERT_FALSE(engine.has_value()) << c.message;
    EXPECT_THAT(engine.error().message, testing::HasSubstr(c.message));
  }
}

TEST_F(EngineTest, TakesKernelsFromTheEnvironmentWhereNoOptionNamesThem) {
  const char* before = std::getenv("DOVETAIL_ISA");
  const std::string restored = before != nullptr ? before : "";
  setenv("DOVETAIL_ISA", "abacus", 1);
  options_.kernels = "";
  const auto unknown = Engine::create(source_, options_);
  ASSERT_FALSE(unknown.has_value());
  EXPECT_THAT(unknown.error().message,
              testing::HasSubstr("DOVETAIL_ISA: 'abacus' is not available on this CPU, expected "
                                 "one of "));
  EXPECT_THAT(unknown.error().message, testing::HasSubstr("portable"));
  options_.kernels = "portable";
  EXPECT_TRUE(Engine::create(source_, options_).has_value());
  setenv("DOVETAIL_ISA", "portable", 1);
  options_.kernels = "";
  EXPECT_TRUE(Engine::create(source_, options_).has_value());
  before != nullptr ? setenv("DOVETAIL_ISA", restored.c_str(), 1) : unsetenv("DOVETAIL_ISA");
}

// A configuration alone is for reports.
TEST_F(EngineTest, RefusesAModelWithoutWeights) {
  load::ModelSource described = *source_;
  described.has_weights = false;
  const auto engine =
      Engine::create(std::make_shared<const load::ModelSource>(std::move(described)), options_);
  ASSERT_FALSE(engine);
  EXPECT_NE(engine.error().message.find("without weights"), std::string::npos);
}

}  // namespace
}  // namespace dovetail
