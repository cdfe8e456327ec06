// Requests that rank: a score of a query and a document, in the same queue, steps and laws as all
// others.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "engine/step_loop.h"
#include "families/open_model.h"
#include "support/golden_cases.h"
#include "support/places.h"

namespace dovetail::engine {
namespace {

const std::filesystem::path kGoldens = std::filesystem::path(test::source_dir()) / "tests/golden";

// A query and a document.
struct Pair {
  std::vector<TokenId> prompt;
  std::uint32_t second = 0;
};

struct Ranked {
  std::map<std::size_t, OutputEvent> events;
  std::uint64_t steps = 0;
};

Ranked rank_all(const std::shared_ptr<const load::ModelSource>& source,
                const std::vector<Pair>& pairs, EngineOptions options) {
  Ranked out;
  options.poison_freed_blocks = true;
  auto loop = StepLoop::create(source, std::nullopt, options);
  EXPECT_TRUE(loop) << loop.error().message;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    Request request;
    request.rank = true;
    request.prompt = pairs[i].prompt;
    request.second = pairs[i].second;
    const Status valid = (*loop)->validate(request);
    EXPECT_TRUE(valid) << valid.error().message;
    EXPECT_TRUE((*loop)->add(i + 1, request, [&out, i](OutputEvent event) {
      EXPECT_TRUE(event.finish.has_value());
      out.events[i] = std::move(event);
    }));
  }
  while (!(*loop)->idle()) EXPECT_TRUE((*loop)->step());
  out.steps = (*loop)->stats().steps;
  return out;
}

EngineOptions ranking_engine(std::uint32_t threads) {
  EngineOptions options;
  options.threads = threads;
  options.max_num_seqs = 4;
  options.max_num_batched_tokens = 70;
  return options;
}

class GoldenRankers : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const auto folder = kGoldens / "rankers" / GetParam();
    auto opened = families::open_model(folder);
    ASSERT_TRUE(opened) << opened.error().message;
    source_ = *std::move(opened);
    std::ifstream(folder / "golden.json") >> golden_;
    for (std::size_t i = 0; i < golden_["prompts"].size(); ++i) {
      pairs_.push_back({golden_["prompts"][i].get<std::vector<TokenId>>(), golden_["second"][i]});
    }
  }

  std::shared_ptr<const load::ModelSource> source_;
  nlohmann::json golden_;
  std::vector<Pair> pairs_;
};

INSTANTIATE_TEST_SUITE_P(All, GoldenRankers,
                         testing::ValuesIn(test::golden_cases(kGoldens / "rankers")),
                         [](const auto& run) {
                           std::string name = run.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_P(GoldenRankers, ScoreAsTransformersDoes) {
  const Ranked got = rank_all(source_, pairs_, ranking_engine(2));
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    const OutputEvent& event = got.events.at(i);
    EXPECT_EQ(event.finish, FinishReason::kStop);
    EXPECT_TRUE(event.embedding.empty());
    EXPECT_EQ(event.usage.prompt_tokens, pairs_[i].prompt.size());
    EXPECT_NEAR(event.score, golden_["scores"][i].get<float>(), 1e-5) << i;
  }
}

// A token's text is known to the model, where it knows two: the scores depend on it.
TEST_P(GoldenRankers, TellTheTextsApartIfTheyHaveTwoTypes) {
  std::vector<Pair> moved = pairs_;
  for (Pair& pair : moved) pair.second = 1;
  const Ranked there = rank_all(source_, pairs_, ranking_engine(1));
  const Ranked here = rank_all(source_, moved, ranking_engine(1));
  const bool types = source_->config.token_types && pairs_.front().second != 0;
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    if (types && pairs_[i].second != 1) {
      EXPECT_NE(there.events.at(i).score, here.events.at(i).score) << i;
    } else {
      EXPECT_EQ(there.events.at(i).score, here.events.at(i).score) << i;
    }
  }
}

// Whatever the batch, the order and the threads: equal bits.
TEST_P(GoldenRankers, AnswerAsIfAlone) {
  std::vector<Pair> pairs;
  for (std::uint32_t i = 0; i < 12; ++i) {
    Pair pair = pairs_[i % pairs_.size()];
    std::rotate(pair.prompt.begin(), pair.prompt.begin() + i / 3, pair.prompt.end());
    pairs.push_back(std::move(pair));
  }
  std::vector<float> alone;
  for (const Pair& pair : pairs)
    alone.push_back(rank_all(source_, {pair}, ranking_engine(1)).events.at(0).score);
  for (const std::uint32_t threads : {1U, 2U, 3U, 8U}) {
    for (const std::uint32_t blocks : {5U, 40U}) {
      for (const bool backwards : {false, true}) {
        EngineOptions options = ranking_engine(threads);
        options.kv_blocks = blocks;
        options.async_scheduling = backwards;
        std::vector<Pair> order = pairs;
        if (backwards) std::reverse(order.begin(), order.end());
        const Ranked together = rank_all(source_, order, options);
        EXPECT_GT(together.steps, 3U);
        for (std::size_t i = 0; i < pairs.size(); ++i) {
          const std::size_t at = backwards ? pairs.size() - 1 - i : i;
          EXPECT_EQ(together.events.at(at).score, alone[i]) << i << ", " << threads << " threads";
        }
      }
    }
  }
}

// A decoder that is asked for a yes or a no gives the share of yes in the softmax of the two
// logits.
TEST(Ranking, OfADecoderIsTheShareOfYes) {
  constexpr std::size_t kYes = 5;
  constexpr std::size_t kNo = 9;
  const auto decoder = families::open_model(kGoldens / "embedders" / "qwen3-embedding-tiny");
  ASSERT_TRUE(decoder) << decoder.error().message;
  const load::TensorView& embedding = (*decoder)->tensors.at("token_embd.weight");
  const std::size_t row = embedding.columns * sizeof(float);
  std::vector<std::byte> head;
  for (const std::size_t token : {kYes, kNo}) {
    const auto data = embedding.data.subspan(token * row, row);
    head.insert(head.end(), data.begin(), data.end());
  }
  const auto ranker = std::make_shared<load::ModelSource>(**decoder);
  ranker->tensors["cls.output.weight"] = {embedding.type, 2, embedding.columns, head};
  load::HeadConfig part;
  part.name = "cls.output";
  part.size = 2;
  ranker->config.head = {part};
  ranker->config.score = load::Score::kShareOfTwo;
  ranker->config.pooling = load::Pooling::kLast;
  std::vector<Pair> pairs;
  for (const std::uint32_t length : {1U, 17U, 90U}) {
    Pair& pair = pairs.emplace_back();
    for (std::uint32_t i = 0; i < length; ++i)
      pair.prompt.push_back(static_cast<TokenId>((i * i * 7 + length) % 120));
  }
  const Ranked got = rank_all(ranker, pairs, ranking_engine(2));
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    double wanted = 0;
    StepHooks hooks;
    hooks.after_sampling = [&](const schedule::StepPlan&, const schedule::StepResult&,
                               std::span<const std::span<const float>> logits) {
      if (logits.empty()) return;
      wanted = 1 / (1 + std::exp(double{logits[0][kNo]} - double{logits[0][kYes]}));
    };
    const auto loop = StepLoop::create(*decoder, std::nullopt, ranking_engine(1), hooks);
    ASSERT_TRUE(loop) << loop.error().message;
    Request request;
    request.prompt = pairs[i].prompt;
    request.max_tokens = 1;
    ASSERT_TRUE((*loop)->add(1, request, [](const OutputEvent&) {}));
    while (!(*loop)->idle()) ASSERT_TRUE((*loop)->step());
    EXPECT_NEAR(got.events.at(i).score, wanted, 1e-6) << i;
  }
}

TEST(Ranking, IsRefusedWhereTheModelDoesNotRank) {
  const auto ranker = families::open_model(kGoldens / "rankers" / "bert-tiny");
  ASSERT_TRUE(ranker) << ranker.error().message;
  const auto embedder = families::open_model(kGoldens / "embedders" / "bert-tiny");
  ASSERT_TRUE(embedder) << embedder.error().message;
  struct Case {
    std::shared_ptr<const load::ModelSource> source;
    bool embed, rank;
    std::uint32_t second;
    std::string message;
  };
  for (const Case& each : {Case{*ranker, false, false, 0, "it ranks documents"},
                           Case{*ranker, true, false, 0, "it ranks documents"},
                           Case{*ranker, true, true, 0, "rank: true beside embed"},
                           Case{*ranker, false, true, 3, "second: token 3 of a prompt of 3"},
                           Case{*embedder, false, true, 0, "it ranks no documents"}}) {
    const auto loop = StepLoop::create(each.source, std::nullopt, ranking_engine(1));
    ASSERT_TRUE(loop) << loop.error().message;
    Request request;
    request.prompt = {1, 2, 3};
    request.embed = each.embed;
    request.rank = each.rank;
    request.second = each.second;
    const Status status = (*loop)->validate(request);
    ASSERT_FALSE(status) << each.message;
    EXPECT_NE(status.error().message.find(each.message), std::string::npos)
        << status.error().message;
  }
}

}  // namespace
}  // namespace dovetail::engine
