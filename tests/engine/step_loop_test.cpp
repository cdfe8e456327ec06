// The step loop over a backend that knows which token stands where: what a sequence reads through
// its block tables and slots is its own, in every schedule, and what it gets is exact.

#include "engine/step_loop.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "engine/fake_backend.h"
#include "engine/options.h"
#include "support/changed_backend.h"
#include "support/random_scheduling.h"
#include "support/sanitized.h"

namespace dovetail::engine {
namespace {

using test::ChangedBackend;
using test::fake_answer;
using test::fake_model;
using test::fake_next;
using test::FakeBackend;
using test::FakeModelOptions;
using test::open_fake;

std::vector<TokenId> some_tokens(std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) token = static_cast<TokenId>(random() % test::kWrongToken);
  return tokens;
}

Request greedy(std::vector<TokenId> prompt, std::int32_t max_tokens) {
  Request request;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0.0F;
  return request;
}

EngineOptions small_options() {
  EngineOptions options;
  options.max_num_seqs = 4;
  options.max_num_batched_tokens = 64;
  options.threads = 1;
  options.poison_freed_blocks = true;
  return options;
}

struct Got {
  std::vector<TokenId> tokens;
  std::optional<FinishReason> finish;
  Error error;
  std::vector<float> embedding;
  std::vector<OutputToken> prompt;
  int last_events = 0;
};

// A loop over a fake, and what its requests got.
class FakeLoop {
 public:
  explicit FakeLoop(const EngineOptions& options, const FakeModelOptions& model = {},
                    ChangedBackend::Change change = {}, StepHooks hooks = {}) {
    hooks.open_backend = open_fake(fake_);
    if (change) {
      hooks.open_backend = [inner = std::move(hooks.open_backend), change = std::move(change)](
                               const auto& source, const auto& resolved,
                               auto& executor) -> Result<std::unique_ptr<model::Backend>> {
        auto backend = inner(source, resolved, executor);
        return std::make_unique<ChangedBackend>(*std::move(backend), change);
      };
    }
    auto created = StepLoop::create(fake_model(model), std::nullopt, options, std::move(hooks));
    if (!created) throw std::runtime_error(created.error().message);
    loop_ = *std::move(created);
  }

  void add(RequestId id, const Request& request) {
    ASSERT_TRUE(loop_->validate(request));
    const Status added = loop_->add(id, request, [this, id](const OutputEvent& event) {
      Got& got = got_[id];
      for (const OutputToken& token : event.tokens) got.tokens.push_back(token.id);
      got.finish = event.finish;
      got.error = event.error;
      got.embedding = event.embedding;
      got.prompt.insert(got.prompt.end(), event.prompt_logprobs.begin(),
                        event.prompt_logprobs.end());
      got.last_events += event.finish ? 1 : 0;
    });
    ASSERT_TRUE(added) << added.error().message;
  }

  void finish() {
    for (int step = 0; step < 100000 && !loop_->idle(); ++step) ASSERT_TRUE(loop_->step());
    ASSERT_TRUE(loop_->idle());
  }

  StepLoop& loop() { return *loop_; }
  FakeBackend& fake() { return *fake_; }
  const Got& got(RequestId id) { return got_[id]; }

 private:
  FakeBackend* fake_ = nullptr;
  std::map<RequestId, Got> got_;
  std::unique_ptr<StepLoop> loop_;
};

// Requests that come and go.
struct History {
  struct Event {
    Request request;
    std::uint32_t at = 0;                    // the step before which it comes,
    std::optional<std::uint32_t> cancel_at;  // and is cancelled
  };
  EngineOptions options;
  std::vector<Event> events;
};

History random_history(std::mt19937& random) {
  const std::uint32_t chunks[] = {1, 3, 16, 40, 0};
  History history;
  EngineOptions& options = history.options;
  options = small_options();
  options.max_num_seqs = 1 + static_cast<std::uint32_t>(random() % 6);
  options.long_prefill_token_threshold = chunks[random() % 5];
  options.max_context = 128;
  if (random() % 2 == 0) options.kv_blocks = 8 + static_cast<std::uint32_t>(random() % 3);
  test::randomize_scheduling(options, random);
  for (std::size_t i = 0; i < 4 + random() % 9; ++i) {
    std::vector<TokenId> prompt;
    // One of two families, most of which begin alike.
    if (random() % 3 != 0)
      prompt = some_tokens(16 + random() % 24, static_cast<std::uint32_t>(random() % 2));
    const std::vector<TokenId> own =
        some_tokens(1 + random() % 40, static_cast<std::uint32_t>(random()));
    prompt.insert(prompt.end(), own.begin(), own.end());
    // Some go on with what another one gets, as conversations do.
    if (i > 0 && random() % 4 == 0) {
      const Request& before = history.events[random() % i].request;
      prompt = before.prompt;
      const std::vector<TokenId> answer =
          fake_answer(prompt, static_cast<std::size_t>(before.max_tokens));
      prompt.insert(prompt.end(), answer.begin(), answer.end());
      prompt.resize(std::min<std::size_t>(prompt.size(), 80));
    }
    History::Event event{greedy(std::move(prompt), 1 + static_cast<std::int32_t>(random() % 45)),
                         static_cast<std::uint32_t>(random() % 30), std::nullopt};
    event.request.priority = static_cast<std::int32_t>(random() % 3);
    event.request.tenant = std::string(random() % 3, 'x');
    if (random() % 3 == 0) {
      const std::vector<TokenId> answer =
          fake_answer(event.request.prompt, static_cast<std::size_t>(event.request.max_tokens));
      event.request.stop_ids = {answer[random() % answer.size()]};
    }
    if (random() % 3 == 0) {
      event.request.prompt_logprobs = 1;
      event.request.no_output = random() % 3 == 0;
    }
    if (random() % 6 == 0) event.cancel_at = event.at + static_cast<std::uint32_t>(random() % 12);
    history.events.push_back(std::move(event));
  }
  return history;
}

// What a request gets in the end.
std::vector<TokenId> whole_answer(const Request& request) {
  if (request.no_output) return {};
  std::vector<TokenId> answer =
      fake_answer(request.prompt, static_cast<std::size_t>(request.max_tokens));
  for (const TokenId stop : request.stop_ids)
    answer.erase(std::find(answer.begin(), answer.end(), stop), answer.end());
  return answer;
}

// What is said of each token of a prompt: how likely it was, and which token was likelier.
void expect_scores(const Request& request, const Got& got) {
  ASSERT_EQ(got.prompt.size(), request.prompt.size() - 1);
  const double sum = std::exp(1.0) + test::kFakeVocabulary - 1;
  for (std::size_t i = 0; i < got.prompt.size(); ++i) {
    const TokenId next = fake_next(std::span(request.prompt).first(i + 1));
    const OutputToken& token = got.prompt[i];
    ASSERT_EQ(token.id, request.prompt[i + 1]);
    ASSERT_EQ(token.top.size(), 1U);
    ASSERT_EQ(token.top[0].id, next) << i;
    ASSERT_EQ(token.rank == 1, token.id == next) << i;
    ASSERT_NEAR(token.logprob, (token.id == next ? 1.0 : 0.0) - std::log(sum), 1e-5) << i;
  }
}

struct Totals {
  std::uint64_t scored = 0;  // prompts
  std::uint64_t preemptions = 0, cached = 0, accepted = 0, rejected = 0, cancelled = 0, loads = 0;
};

void play(const History& history, const FakeModelOptions& model, Totals& totals) {
  FakeLoop run(history.options, model);
  std::size_t added = 0;
  for (std::uint32_t step = 0; added < history.events.size() || !run.loop().idle(); ++step) {
    for (std::size_t i = 0; i < history.events.size(); ++i) {
      const History::Event& event = history.events[i];
      if (event.at == step) {
        run.add(i, event.request);
        ++added;
      }
      if (event.cancel_at == step) run.loop().cancel(i);
    }
    ASSERT_TRUE(run.loop().step());
    ASSERT_LT(step, 20000U);
  }
  ASSERT_EQ(run.fake().fault(), "");
  for (std::size_t i = 0; i < history.events.size(); ++i) {
    const Request& request = history.events[i].request;
    const Got& got = run.got(i);
    ASSERT_EQ(got.last_events, 1) << i;
    const bool cancelled = got.finish == FinishReason::kCancelled;
    std::vector<TokenId> expected = whole_answer(request);
    if (cancelled) expected.resize(std::min(expected.size(), got.tokens.size()));
    ASSERT_EQ(got.tokens, expected) << i;
    totals.cancelled += cancelled ? 1 : 0;
    if (request.prompt_logprobs < 0 || (cancelled && got.tokens.empty())) {
      ASSERT_EQ(got.prompt.size(), 0U) << i;
      continue;
    }
    expect_scores(request, got);
    if (testing::Test::HasFatalFailure()) return;
    ++totals.scored;
  }
  const EngineStats stats = run.loop().stats();
  EXPECT_EQ(stats.kv_blocks_used, 0U);
  totals.preemptions += stats.preemptions;
  totals.cached += stats.cached_tokens;
  totals.accepted += stats.accepted_tokens;
  totals.rejected += stats.drafted_tokens - stats.accepted_tokens;
  totals.loads += run.fake().loads();
}

struct Kind {
  const char* name;
  FakeModelOptions model;
};

class StepLoopOf : public testing::TestWithParam<Kind> {};

INSTANTIATE_TEST_SUITE_P(
    Fakes, StepLoopOf,
    testing::Values(Kind{"AllPositions", {}}, Kind{"Windows", {{0, 24, 24, 24}}},
                    Kind{"WindowsAlone", {{9, 40}}}, Kind{"States", {{0}, true}},
                    Kind{"WindowsAndStates", {{0, 24}, true}}, Kind{"Latents", {.latents = true}},
                    Kind{"DraftLayer", {.drafts = true}},
                    Kind{"StatesAndDraftLayer", {.states = true, .drafts = true}},
                    Kind{"LatentsAndDraftLayer", {.drafts = true, .latents = true}}),
    [](const auto& info) { return info.param.name; });

// Chunks, preemptions, cancellations, drafts, planning ahead, cached prefixes and loaded states:
// each token is that of its position.
TEST_P(StepLoopOf, EveryTokenIsThatOfItsSequenceAndPosition) {
  const FakeModelOptions& model = GetParam().model;
  std::mt19937 random(23);
  Totals totals;
  for (int round = 0; round < (test::kSanitized ? 60 : 300); ++round) {
    SCOPED_TRACE(testing::Message() << "round " << round);
    play(random_history(random), model, totals);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(totals.preemptions, 0U);
  EXPECT_GT(totals.cached, 0U);
  EXPECT_GT(totals.cancelled, 0U);
  EXPECT_GT(totals.scored, 0U);
  if (model.states) {
    EXPECT_GT(totals.loads, 0U);
  } else {
    EXPECT_GT(totals.accepted, 0U);
    EXPECT_GT(totals.rejected, 0U);
  }
}

// Of two that decode beside each other one is cancelled between any two steps: its blocks go to a
// third while a step of it may still be under way, and neither of the others reads them.
TEST(StepLoop, WhatIsCancelledInFlightLeavesNoTrace) {
  const std::vector<TokenId> first = some_tokens(33, 1), second = some_tokens(20, 2),
                             third = some_tokens(47, 3);
  for (const bool async : {false, true}) {
    for (int at = 0; at < 40; ++at) {
      EngineOptions options = small_options();
      options.async_scheduling = async;
      options.max_context = 96;
      options.kv_blocks = 10;
      options.prefix_cache = at % 2 == 0;
      FakeLoop run(options);
      run.add(1, greedy(first, 30));
      run.add(2, greedy(second, 30));
      for (int step = 0; step < at && !run.loop().idle(); ++step) ASSERT_TRUE(run.loop().step());
      run.loop().cancel(1);
      run.add(3, greedy(third, 20));
      run.finish();
      ASSERT_EQ(run.fake().fault(), "") << at;
      EXPECT_EQ(run.got(1).tokens, fake_answer(first, run.got(1).tokens.size()));
      EXPECT_EQ(run.got(2).tokens, fake_answer(second, 30)) << at;
      EXPECT_EQ(run.got(3).tokens, fake_answer(third, 20)) << at;
      EXPECT_EQ(run.loop().stats().kv_blocks_used, 0U);
    }
  }
}

// Hidden rows are pooled once each, in place, however prompts are cut; mean: of positions 0 to
// n - 1.
TEST(StepLoop, PoolsEachRowOnce) {
  struct Case {
    load::Pooling pooling;
    float (*position)(std::size_t tokens);
  };
  for (const Case& one :
       {Case{load::Pooling::kMean, [](std::size_t n) { return static_cast<float>(n - 1) / 2; }},
        Case{load::Pooling::kFirst, [](std::size_t) { return 0.0F; }},
        Case{load::Pooling::kLast, [](std::size_t n) { return static_cast<float>(n - 1); }}}) {
    for (const std::uint32_t chunk : {1U, 7U, 16U, 0U}) {
      for (const bool async : {false, true}) {
        EngineOptions options = small_options();
        options.async_scheduling = async;
        options.long_prefill_token_threshold = chunk;
        options.max_context = 96;
        options.kv_blocks = 7;
        FakeLoop run(options, {{0}, false, one.pooling});
        const std::size_t lengths[] = {50, 1, 33, 64, 17};
        for (std::size_t i = 0; i < std::size(lengths); ++i) {
          Request request = greedy(some_tokens(lengths[i], static_cast<std::uint32_t>(i)), 0);
          request.embed = true;
          run.add(i, request);
        }
        run.add(9, greedy(some_tokens(20, 9), 25));
        run.finish();
        ASSERT_EQ(run.fake().fault(), "");
        for (std::size_t i = 0; i < std::size(lengths); ++i) {
          const std::vector<float>& row = run.got(i).embedding;  // of length one
          ASSERT_EQ(row.size(), 5U);
          EXPECT_NEAR(row[1] / row[0], one.position(lengths[i]), 1e-3)
              << lengths[i] << ", chunk " << chunk;
        }
        EXPECT_EQ(run.got(9).tokens, fake_answer(some_tokens(20, 9), 25));
      }
    }
  }
}

// After a pass that failed, or threw, or a step that did, everything has one end, nothing is in
// flight, and no step follows.
TEST(StepLoop, AFailedStepEndsEverythingOnce) {
  enum class Failure { kBackendSays, kBackendThrows, kLaterThrows };
  for (const bool async : {false, true}) {
    for (const Failure failure :
         {Failure::kBackendSays, Failure::kBackendThrows, Failure::kLaterThrows}) {
      EngineOptions options = small_options();
      options.async_scheduling = async;
      int steps = 0;
      StepHooks hooks;
      if (failure == Failure::kLaterThrows) {
        hooks.after_sampling = [&](const auto&, const auto&, const auto&) {
          if (++steps == 3) throw std::runtime_error("out of order");
        };
      }
      FakeLoop run(options, {}, {}, hooks);
      run.fake().during = [&]() -> Status {
        if (failure == Failure::kLaterThrows || ++steps < 3) return {};
        if (failure == Failure::kBackendThrows) throw std::runtime_error("out of order");
        return fail(ErrorKind::kInternal, "out of order");
      };
      for (RequestId i = 0; i < 6; ++i) run.add(i, greedy(some_tokens(20 + i, 7), 20));
      std::string message;
      for (int i = 0; i < 10 && message.empty(); ++i) {
        try {
          const Status status = run.loop().step();
          if (!status) message = status.error().message;
        } catch (const std::runtime_error& error) {
          message = error.what();
        }
      }
      // What the second thread throws is an error of the step.
      EXPECT_NE(message.find("out of order"), std::string::npos) << message;
      run.loop().abort({ErrorKind::kInternal, "broken"});
      EXPECT_TRUE(run.loop().idle());
      for (RequestId i = 0; i < 6; ++i) {
        EXPECT_EQ(run.got(i).last_events, 1);
        EXPECT_EQ(run.got(i).error.message, "broken");
      }
    }
  }
}

TEST(StepLoop, AsksForTheTraceOfEachPassOnce) {
  for (const bool async : {false, true}) {
    EngineOptions options = small_options();
    options.async_scheduling = async;
    options.trace_events = 1024;
    FakeLoop run(options);
    run.add(1, greedy(some_tokens(40, 1), 12));
    run.add(2, greedy(some_tokens(5, 2), 20));
    run.finish();
    std::vector<std::uint32_t> passes;
    std::size_t samples = 0;
    for (const observe::LaneSlice& slice : run.loop().trace().lanes) {
      if (slice.task == std::string("fake")) passes.push_back(slice.tile);
      if (slice.task == std::string("sample")) ++samples;
    }
    ASSERT_EQ(passes.size(), run.fake().passes());
    for (std::uint32_t i = 0; i < passes.size(); ++i) EXPECT_EQ(passes[i], i + 1);
    EXPECT_EQ(samples, passes.size());
  }
}

// The fake must be able to see what is wrong: each of these changes what a pass is given.
class FakeSees : public testing::Test {
 protected:
  // What the fake says of six requests, two of which begin alike, and whether a token was wrong.
  std::string fault_with(ChangedBackend::Change change, const FakeModelOptions& model = {}) {
    EngineOptions options = small_options();
    options.max_num_seqs = 2;
    options.long_prefill_token_threshold = 16;
    options.saved_states = 64;
    options.state_interval = 1;
    FakeLoop run(options, model, std::move(change));
    std::vector<std::vector<TokenId>> prompts;
    for (std::uint32_t i = 0; i < 6; ++i)
      prompts.push_back(some_tokens(i == 4 ? 40 : 35, i == 4 ? 0 : i));
    for (std::size_t i = 0; i < prompts.size(); ++i) run.add(i, greedy(prompts[i], 30));
    run.finish();
    wrong_ = false;
    for (std::size_t i = 0; i < prompts.size(); ++i)
      wrong_ |= run.got(i).tokens != fake_answer(prompts[i], 30);
    EXPECT_TRUE(run.fake().fault().empty() == !wrong_) << run.fake().fault();
    return run.fake().fault();
  }

  bool wrong_ = false;
};

TEST_F(FakeSees, NothingWhereNothingIsWrong) {
  EXPECT_EQ(fault_with({}), "");
  EXPECT_EQ(fault_with([](auto&) {}, {{0, 24}, true}), "");
}

TEST_F(FakeSees, APositionThatIsWrong) {
  const std::string fault = fault_with([](std::vector<model::Segment>& segments) {
    for (model::Segment& segment : segments) {
      if (segment.first_position == 40) segment.first_position = 41;
    }
  });
  EXPECT_NE(fault.find("position 41: position 40 of group 0 holds token -1"), std::string::npos)
      << fault;
}

TEST_F(FakeSees, ABlockOfAnother) {
  std::vector<std::uint32_t> wrong;
  const std::string fault = fault_with([&](std::vector<model::Segment>& segments) {
    if (segments.size() < 2 || !segments[0].decode || !segments[1].decode) return;
    wrong.assign(segments[1].block_table.begin(), segments[1].block_table.end());
    wrong[1] = segments[0].block_table[1];
    segments[1].block_table = wrong;
  });
  EXPECT_NE(fault.find("does not follow from those before it"), std::string::npos) << fault;
}

TEST_F(FakeSees, AChunkThatWasNotComputed) {
  const std::string fault = fault_with([](std::vector<model::Segment>& segments) {
    std::erase_if(segments, [](const model::Segment& segment) {
      return segment.first_position == 0 && segment.logit_rows == 0;
    });
  });
  EXPECT_NE(fault, "");
}

TEST_F(FakeSees, AStateThatWasNotLoaded) {
  const std::string fault = fault_with(
      [](std::vector<model::Segment>& segments) {
        for (model::Segment& segment : segments) segment.load = model::Segment::kNoState;
      },
      {{0}, true});
  EXPECT_NE(fault.find("the state is that of"), std::string::npos) << fault;
}

TEST_F(FakeSees, AStateThatWasNotSaved) {
  const std::string fault = fault_with(
      [](std::vector<model::Segment>& segments) {
        for (model::Segment& segment : segments) segment.saves = {};
      },
      {{0}, true});
  EXPECT_NE(fault.find("the state is that of"), std::string::npos) << fault;
}

}  // namespace
}  // namespace dovetail::engine
