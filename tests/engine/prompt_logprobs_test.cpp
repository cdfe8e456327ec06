// Log-probabilities of prompts: those that the model's own forward pass gives, position by
// position, computed once each and delivered once.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/step_loop.h"
#include "families/open_model.h"
#include "support/changed_backend.h"
#include "support/places.h"
#include "support/random_model.h"

namespace dovetail::engine {
namespace {

using Source = std::shared_ptr<const load::ModelSource>;

std::vector<TokenId> some_tokens(std::size_t count, std::uint32_t vocab, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) token = static_cast<TokenId>(random() % vocab);
  return tokens;
}

EngineOptions small_engine() {
  EngineOptions options;
  options.max_num_seqs = 4;
  options.max_num_batched_tokens = 64;
  options.max_context = 160;
  options.threads = 1;
  options.poison_freed_blocks = true;
  return options;
}

Request scored(std::vector<TokenId> prompt, std::int32_t top) {
  Request request;
  request.prompt = std::move(prompt);
  request.prompt_logprobs = top;
  request.no_output = true;
  return request;
}

// Runs requests to their end; their events by request.
using Events = std::map<RequestId, std::vector<OutputEvent>>;
Events run(const Source& source, const EngineOptions& options, const std::vector<Request>& requests,
           StepHooks hooks = {}, EngineStats* stats = nullptr) {
  Events events;
  auto loop = StepLoop::create(source, std::nullopt, options, std::move(hooks));
  EXPECT_TRUE(loop) << loop.error().message;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    EXPECT_TRUE((*loop)->validate(requests[i]));
    EXPECT_TRUE((*loop)->add(i, requests[i], [&events, i](OutputEvent event) {
      events[i].push_back(std::move(event));
    }));
  }
  while (!(*loop)->idle()) EXPECT_TRUE((*loop)->step());
  if (stats != nullptr) *stats = (*loop)->stats();
  return events;
}

// The rows of logits of each token of `prompt` as the last row of a pass: each beginning of it is a
// request that samples one token.
std::vector<std::vector<float>> logits_alone(const Source& source,
                                             const std::vector<TokenId>& prompt) {
  std::vector<std::vector<float>> rows;
  StepHooks hooks;
  hooks.after_sampling = [&rows](const auto&, const auto&, const auto& logits) {
    for (const std::span<const float> row : logits) rows.emplace_back(row.begin(), row.end());
  };
  EngineOptions options = small_engine();
  options.max_num_seqs = 1;
  options.max_num_batched_tokens = 160;
  options.prefix_cache = false;
  std::vector<Request> beginnings;
  for (std::size_t count = 1; count <= prompt.size(); ++count) {
    Request& request = beginnings.emplace_back();
    request.prompt.assign(prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(count));
    request.max_tokens = 1;
  }
  run(source, options, beginnings, std::move(hooks));
  return rows;
}

// Of long doubles, with the standard library's functions.
double log_softmax(const std::vector<float>& logits, TokenId of) {
  const long double best = *std::max_element(logits.begin(), logits.end());
  long double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - best);
  return static_cast<double>(logits[static_cast<std::size_t>(of)] - best - std::log(sum));
}

struct Model {
  std::string name;
  Source source;
};

std::vector<Model> models() {
  std::vector<Model> models;
  models.push_back({"llama", test::random_model({})});
  test::RandomModelOptions quantised;
  quantised.type = kernels::DataType::kQ8_0;
  models.push_back({"q8_0", test::random_model(quantised)});
  test::RandomModelOptions capped;
  capped.change = [](load::ModelConfig& config) {
    config.logit_scale = 0.7F;
    config.logit_softcap = 3.0F;
  };
  models.push_back({"caps", test::random_model(capped)});
  for (const char* name : {"demo-arith", "demo-mla", "demo-v4-tiny"}) {
    auto opened = families::open_model(test::source_dir() + "/models/" + name);
    EXPECT_TRUE(opened) << name;
    models.push_back({name, *std::move(opened)});
  }
  return models;
}

// Cut in chunks of any size, on any number of lanes, beside others: what each position alone gives,
// and the likeliest tokens first.
TEST(PromptLogprobs, AreThoseOfTheModelsOwnForwardPass) {
  for (const Model& model : models()) {
    const std::uint32_t vocab = model.source->config.vocab_size;
    const std::vector<TokenId> prompt = some_tokens(75, vocab, 3);
    const std::vector<std::vector<float>> rows = logits_alone(model.source, prompt);
    ASSERT_EQ(rows.size(), prompt.size());
    std::optional<std::vector<OutputToken>> first;
    for (const std::uint32_t chunk : {0U, 1U, 17U}) {
      for (const std::uint32_t threads : {1U, 3U}) {
        EngineOptions options = small_engine();
        options.threads = threads;
        options.long_prefill_token_threshold = chunk;
        options.max_num_batched_tokens = chunk == 0 ? 160 : 32;
        const Events events = run(model.source, options,
                                  {scored(some_tokens(20, vocab, 4), 0), scored(prompt, 3),
                                   scored(some_tokens(1, vocab, 5), 2)});
        ASSERT_EQ(events.at(1).size(), 1U);
        const OutputEvent& event = events.at(1).front();
        EXPECT_EQ(event.finish, FinishReason::kLength);
        EXPECT_EQ(event.usage.completion_tokens, 0U);
        EXPECT_TRUE(event.tokens.empty());
        EXPECT_EQ(events.at(2).front().prompt_logprobs.size(), 0U);
        const std::vector<OutputToken>& got = event.prompt_logprobs;
        ASSERT_EQ(got.size(), prompt.size() - 1);
        for (std::size_t i = 0; i < got.size(); ++i) {
          const std::vector<float>& logits = rows[i];
          ASSERT_EQ(got[i].id, prompt[i + 1]);
          ASSERT_NEAR(got[i].logprob, log_softmax(logits, got[i].id), 1e-5) << model.name << i;
          const float its = logits[static_cast<std::size_t>(got[i].id)];
          const auto better = std::count_if(logits.begin(), logits.end(),
                                            [its](float logit) { return logit > its; });
          const auto equal = std::count(logits.begin(), logits.end(), its);
          ASSERT_GT(got[i].rank, better);
          ASSERT_LE(got[i].rank, better + equal);
          ASSERT_EQ(got[i].top.size(), 3U);
          for (std::size_t k = 0; k < 3; ++k) {
            ASSERT_NEAR(got[i].top[k].logprob, log_softmax(logits, got[i].top[k].id), 1e-5);
            if (got[i].top[k].id != got[i].id) continue;
            ASSERT_EQ(got[i].rank, k + 1);
            ASSERT_EQ(got[i].top[k].logprob, got[i].logprob);
          }
          // The same function of the same bits as where a row is the last of its prompt.
          const OutputToken alone = describe(logits, got[i].id, 3);
          ASSERT_EQ(got[i].logprob, alone.logprob) << model.name << ", position " << i;
          ASSERT_EQ(got[i].rank, alone.rank);
          for (std::size_t k = 0; k < 3; ++k) {
            ASSERT_EQ(got[i].top[k].id, alone.top[k].id);
            ASSERT_EQ(got[i].top[k].logprob, alone.top[k].logprob);
          }
        }
      }
    }
  }
}

// Preempted in the middle of prompts, beside sequences that find prefixes: each position is scored
// once, and others find what a scored prompt left.
TEST(PromptLogprobs, AreComputedOnce) {
  const Source source = test::random_model({});
  const std::uint32_t vocab = source->config.vocab_size;
  const std::vector<TokenId> shared = some_tokens(48, vocab, 1);
  std::size_t rows = 0;
  StepHooks hooks;
  hooks.open_backend = test::with_changed_segments([&rows](const auto& segments) {
    for (const model::Segment& segment : segments) rows += segment.hidden_rows.size();
  });
  EngineOptions options = small_engine();
  options.prefix_cache = true;
  options.long_prefill_token_threshold = 8;
  options.max_num_batched_tokens = 24;
  options.kv_blocks = 11;
  std::vector<Request> requests;
  std::size_t expected = 0;
  for (std::uint32_t i = 0; i < 6; ++i) {
    std::vector<TokenId> prompt = shared;
    const std::vector<TokenId> own = some_tokens(10 + 9 * i, vocab, 10 + i);
    prompt.insert(prompt.end(), own.begin(), own.end());
    Request request;
    request.prompt = std::move(prompt);
    request.max_tokens = 40;
    request.ignore_eos = true;
    if (i % 2 == 1) {
      request.prompt_logprobs = 1;
      expected += request.prompt.size() - 1;
    }
    requests.push_back(std::move(request));
  }
  EngineStats stats;
  const Events events = run(source, options, requests, std::move(hooks), &stats);
  EXPECT_GT(stats.preemptions, 0U);
  EXPECT_GT(stats.cached_tokens, 0U);
  EXPECT_EQ(rows, expected);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const std::vector<OutputEvent>& its = events.at(i);
    ASSERT_FALSE(its.empty());
    EXPECT_EQ(its.back().finish, FinishReason::kLength);
    const bool asked = requests[i].prompt_logprobs >= 0;
    EXPECT_EQ(its.front().prompt_logprobs.size(), asked ? requests[i].prompt.size() - 1 : 0U) << i;
    for (std::size_t k = 1; k < its.size(); ++k) EXPECT_TRUE(its[k].prompt_logprobs.empty());
    if (asked) {
      EXPECT_EQ(its.back().usage.cached_tokens, 0U);
    }
  }
}

// Choices share the prompt: the first one's event has what is said of it.
TEST(PromptLogprobs, ComeWithTheFirstChoice) {
  const Source source = test::random_model({});
  Request request = scored(some_tokens(40, source->config.vocab_size, 2), 0);
  request.n = 3;
  request.no_output = false;
  request.max_tokens = 4;
  const Events events = run(source, small_engine(), {request});
  std::size_t told = 0;
  for (const OutputEvent& event : events.at(0)) {
    if (event.prompt_logprobs.empty()) continue;
    ++told;
    EXPECT_EQ(event.choice, 0);
    EXPECT_EQ(event.prompt_logprobs.size(), 39U);
  }
  EXPECT_EQ(told, 1U);
}

// A backend whose logits of hidden rows are no numbers, and one that fails.
class BrokenLogits : public test::ChangedBackend {
 public:
  BrokenLogits(std::unique_ptr<model::Backend> inner, bool fails)
      : ChangedBackend(std::move(inner), [](auto&) {}), fails_(fails) {}
  Status logits(std::span<const float* const> hidden, std::span<float> logits) override {
    if (fails_) return fail(ErrorKind::kInternal, "no products today");
    const Status status = ChangedBackend::logits(hidden, logits);
    logits.front() = std::numeric_limits<float>::quiet_NaN();
    return status;
  }

 private:
  bool fails_;
};

StepHooks with_broken_logits(bool fails) {
  StepHooks hooks;
  hooks.open_backend = [fails](
                           auto source, const ResolvedOptions& resolved,
                           cores::Executor& executor) -> Result<std::unique_ptr<model::Backend>> {
    auto inner = open_on_cpu(std::move(source), resolved, executor);
    if (!inner) return fail(inner.error());
    return std::make_unique<BrokenLogits>(*std::move(inner), fails);
  };
  return hooks;
}

TEST(PromptLogprobs, ThatAreNoNumbersAreAnError) {
  const Source source = test::random_model({});
  const std::vector<TokenId> prompt = some_tokens(40, source->config.vocab_size, 2);
  Request generates = scored(prompt, 1);
  generates.no_output = false;
  generates.max_tokens = 5;
  const Events events =
      run(source, small_engine(), {scored(prompt, 1), generates}, with_broken_logits(false));
  for (const auto& [id, its] : events) {
    ASSERT_EQ(its.size(), 1U) << id;
    EXPECT_EQ(its.front().finish, FinishReason::kError);
    EXPECT_EQ(its.front().error.message, "the model's logits are not numbers");
    EXPECT_TRUE(its.front().prompt_logprobs.empty());
    EXPECT_TRUE(its.front().tokens.empty());
  }
}

TEST(PromptLogprobs, AFailedProductIsAFailedStep) {
  const Source source = test::random_model({});
  auto loop = StepLoop::create(source, std::nullopt, small_engine(), with_broken_logits(true));
  ASSERT_TRUE(loop);
  ASSERT_TRUE((*loop)->add(1, scored(some_tokens(40, 97, 2), 1), [](const OutputEvent&) {}));
  const Status stepped = (*loop)->step();
  ASSERT_FALSE(stepped);
  EXPECT_EQ(stepped.error().message, "no products today");
  (*loop)->abort(stepped.error());
}

// A request may have no output at all, with nothing said of its prompt: its blocks are there for
// the next one.
TEST(PromptLogprobs, AreNotNeededForAnEmptyOutput) {
  const Source source = test::random_model({});
  Request warm = scored(some_tokens(64, source->config.vocab_size, 2), -1);
  EngineOptions options = small_engine();
  options.prefix_cache = true;
  options.max_num_seqs = 1;
  EngineStats stats;
  const Events events = run(source, options, {warm, warm}, {}, &stats);
  for (const auto& [id, its] : events) {
    ASSERT_EQ(its.size(), 1U);
    EXPECT_EQ(its.front().finish, FinishReason::kLength);
    EXPECT_TRUE(its.front().prompt_logprobs.empty());
  }
  EXPECT_EQ(events.at(1).front().usage.cached_tokens, 48U);
  EXPECT_EQ(stats.generated_tokens, 0U);
  EXPECT_EQ(stats.requests_finished, 2U);
}

}  // namespace
}  // namespace dovetail::engine
