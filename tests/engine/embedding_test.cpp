// Requests that embed: the same queue, steps and laws as all others.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/step_loop.h"
#include "families/open_model.h"
#include "support/golden_cases.h"
#include "support/places.h"
#include "support/random_model.h"

namespace dovetail::engine {
namespace {

using Embedding = std::vector<float>;

const std::filesystem::path kEmbedders =
    std::filesystem::path(test::source_dir()) / "tests/golden/embedders";

// Embeds prompts in a loop that is stepped here; the embedding by prompt, and the steps it took.
struct Embedded {
  std::map<std::size_t, OutputEvent> events;
  std::uint64_t steps = 0;
};
Embedded embed_all(const std::shared_ptr<const load::ModelSource>& source,
                   const std::vector<std::vector<TokenId>>& prompts, EngineOptions options) {
  Embedded out;
  options.poison_freed_blocks = true;
  auto loop = StepLoop::create(source, std::nullopt, options);
  EXPECT_TRUE(loop) << loop.error().message;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    Request request;
    request.embed = true;
    request.prompt = prompts[i];
    EXPECT_TRUE((*loop)->validate(request));
    EXPECT_TRUE((*loop)->add(i + 1, request, [&out, i](OutputEvent event) {
      EXPECT_TRUE(event.finish.has_value());
      out.events[i] = std::move(event);
    }));
  }
  while (!(*loop)->idle()) EXPECT_TRUE((*loop)->step());
  out.steps = (*loop)->stats().steps;
  return out;
}

std::vector<std::vector<TokenId>> some_prompts(std::uint32_t vocabulary) {
  std::vector<std::vector<TokenId>> prompts;
  for (std::uint32_t length : {3U, 40U, 1U, 17U, 64U, 40U}) {
    std::vector<TokenId>& prompt = prompts.emplace_back();
    for (std::uint32_t i = 0; i < length; ++i) {
      prompt.push_back(
          static_cast<TokenId>((i * i * 31 + length * 7 + prompts.size() * i) % vocabulary));
    }
  }
  return prompts;
}

EngineOptions small_engine(std::uint32_t threads) {
  EngineOptions options;
  options.threads = threads;
  options.max_num_seqs = 4;
  options.max_num_batched_tokens = 96;
  return options;
}

class GoldenEmbedders : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const auto folder = kEmbedders / GetParam();
    auto opened = families::open_model(folder);
    ASSERT_TRUE(opened) << opened.error().message;
    source_ = *std::move(opened);
    std::ifstream(folder / "golden.json") >> golden_;
  }

  std::shared_ptr<const load::ModelSource> source_;
  nlohmann::json golden_;
};

INSTANTIATE_TEST_SUITE_P(All, GoldenEmbedders, testing::ValuesIn(test::golden_cases(kEmbedders)),
                         [](const auto& run) {
                           std::string name = run.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// What sentence-transformers makes of transformers' hidden rows: pooled as the folder says, through
// the dense layers that it has, scaled to the length 1.
TEST_P(GoldenEmbedders, AreThoseOfSentenceTransformers) {
  const auto prompts = golden_["prompts"].get<std::vector<std::vector<TokenId>>>();
  const Embedded got = embed_all(source_, prompts, small_engine(2));
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const auto wanted = golden_["embedding"][i].get<Embedding>();
    const OutputEvent& event = got.events.at(i);
    EXPECT_EQ(event.finish, FinishReason::kStop);
    EXPECT_EQ(event.usage.prompt_tokens, prompts[i].size());
    EXPECT_EQ(event.usage.completion_tokens, 0U);
    ASSERT_EQ(event.embedding.size(), wanted.size());
    for (std::size_t k = 0; k < wanted.size(); ++k)
      EXPECT_NEAR(event.embedding[k], wanted[k], 1e-5) << i;
  }
}

// Beside others and on several lanes, with equal bits: an encoder's prompt is never cut, even where
// a step has room for a part of it.
TEST_P(GoldenEmbedders, AnswerAsIfAlone) {
  const auto prompts = some_prompts(source_->config.vocab_size);
  for (const std::uint32_t threads : {1U, 2U, 3U}) {
    EngineOptions options = small_engine(threads);
    options.max_num_batched_tokens = 70;
    options.kv_blocks = 9;
    const Embedded together = embed_all(source_, prompts, options);
    EXPECT_GE(together.steps, 2U);  // of at most 4 prompts
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      const Embedded one = embed_all(source_, {prompts[i]}, small_engine(1));
      EXPECT_EQ(together.events.at(i).embedding, one.events.at(0).embedding) << i;
    }
  }
}

// Two products behind the pooled row.
void with_head(load::ModelConfig& config) {
  for (const std::uint32_t size : {80U, 24U}) {
    load::HeadConfig part;
    part.name = "dense." + std::to_string(config.head.size());
    part.size = size;
    part.bias = true;
    part.function = load::HeadFunction::kTanh;
    part.norm = {.kind = load::NormKind::kLayer};
    config.head.push_back(part);
  }
}

// Whatever the batch, the chunks, the threads and what had to be computed again: equal bits.
TEST(Embedding, DoesNotDependOnTheSchedule) {
  for (const load::Pooling pooling :
       {load::Pooling::kNone, load::Pooling::kMean, load::Pooling::kFirst, load::Pooling::kLast}) {
    test::RandomModelOptions made;
    made.change = with_head;
    const auto model = test::random_model(made);
    model->config.pooling = pooling;
    const auto prompts = some_prompts(model->config.vocab_size);
    std::map<std::size_t, Embedding> alone;
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      const Embedded one = embed_all(model, {prompts[i]}, small_engine(1));
      ASSERT_EQ(one.events.at(0).finish, FinishReason::kStop) << one.events.at(0).error.message;
      alone[i] = one.events.at(0).embedding;
      EXPECT_EQ(alone[i].size(), model->config.embedding_size());
      double squares = 0;
      for (const float value : alone[i]) squares += double{value} * value;
      EXPECT_NEAR(squares, 1.0, 1e-5);
    }
    // Both begin with the same token, of which the first row of a decoder is made.
    if (pooling != load::Pooling::kFirst) {
      EXPECT_NE(alone[1], alone[5]);
    }
    for (const std::uint32_t threads : {1U, 3U}) {
      for (const std::uint32_t chunk : {0U, 16U}) {
        EngineOptions options = small_engine(threads);
        options.long_prefill_token_threshold = chunk;
        options.prefill_alignment = chunk;
        options.kv_blocks = 9;
        const Embedded together = embed_all(model, prompts, options);
        for (std::size_t i = 0; i < prompts.size(); ++i)
          EXPECT_EQ(together.events.at(i).embedding, alone[i]) << i;
      }
    }
  }
}

TEST(Embedding, RefusesWhatDoesNotFit) {
  const auto folder =
      std::filesystem::path(test::source_dir()) / "tests/golden/embedders/bert-tiny";
  const auto source = families::open_model(folder);
  ASSERT_TRUE(source) << source.error().message;
  const auto loop = StepLoop::create(*source, std::nullopt, small_engine(1));
  ASSERT_TRUE(loop) << loop.error().message;
  Request request;
  request.prompt.assign(64, 1);
  request.embed = true;
  EXPECT_TRUE((*loop)->validate(request));
  request.prompt.push_back(1);
  EXPECT_FALSE((*loop)->validate(request));
  request.prompt.resize(3);
  request.n = 2;
  const Status choices = (*loop)->validate(request);
  ASSERT_FALSE(choices);
  EXPECT_NE(choices.error().message.find("n above 1"), std::string::npos);
  request.n = 1;
  request.embed = false;
  const Status generation = (*loop)->validate(request);
  ASSERT_FALSE(generation);
  EXPECT_NE(generation.error().message.find("embeds texts and generates none"), std::string::npos);
}

}  // namespace
}  // namespace dovetail::engine
