#include "study/perplexity.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "cores/executor.h"
#include "cores/topology.h"
#include "kernels/kernels.h"
#include "model/cpu/cache.h"
#include "model/cpu/model_runner.h"
#include "support/random_model.h"

namespace dovetail::study {
namespace {

constexpr std::uint32_t kContext = 600;  // more than a pass has

std::shared_ptr<const load::ModelSource> small_model() {
  test::RandomModelOptions options;
  options.layers = 2;
  options.max_context = 1024;
  return test::random_model(options);
}

std::vector<TokenId> random_text(std::size_t count, std::uint32_t vocab) {
  std::mt19937 random(5);
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) token = static_cast<TokenId>(random() % vocab);
  return tokens;
}

// The same from a whole chunk's logits, in one pass.
double by_hand(const std::shared_ptr<const load::ModelSource>& source,
               std::vector<std::vector<TokenId>> chunks) {
  cores::Executor executor(*cores::Topology::parse("1x(1L)"), {});
  model::ModelRunner runner(source, kernels::best_kernels(), executor);
  const std::uint32_t blocks = (kContext + kernels::kBlockSize - 1) / kernels::kBlockSize;
  const auto cache = *model::Cache::create(runner.cache_shape(kernels::CacheType::kF32), blocks);
  std::vector<std::uint32_t> table(blocks);
  std::iota(table.begin(), table.end(), 0U);
  const std::size_t vocab = runner.config().vocab_size;
  std::vector<float> logits(kContext * vocab);
  double sum = 0.0;
  std::size_t count = 0;
  for (const std::vector<TokenId>& tokens : chunks) {
    const model::Segment segment = {tokens, 0, table, kContext};
    runner.forward({&segment, 1}, cache, logits);
    for (std::size_t i = kContext / 2; i + 1 < kContext; ++i) {
      double total = 0.0;
      for (std::size_t v = 0; v < vocab; ++v) total += std::exp(double{logits[i * vocab + v]});
      const auto next = static_cast<std::size_t>(tokens[i + 1]);
      sum += std::log(total) - double{logits[i * vocab + next]};
      ++count;
    }
  }
  return std::exp(sum / static_cast<double>(count));
}

TEST(Perplexity, IsThatOfTheSecondHalvesOfItsChunks) {
  const auto source = small_model();
  const std::uint32_t vocab = source->config.vocab_size;
  const std::vector<TokenId> text = random_text(2 * kContext + 17, vocab);
  PerplexityOptions options;
  options.context = kContext;
  options.first_token = 3;
  std::uint32_t told = 0;
  const auto found =
      measure_perplexity(source, options, text, [&](const Perplexity& p) { told = p.chunks; });
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->chunks, 2U);
  EXPECT_EQ(told, 2U);
  EXPECT_EQ(found->scored, 2 * (kContext / 2 - 1));
  std::vector<std::vector<TokenId>> chunks;
  for (int i = 0; i < 2; ++i) {
    chunks.emplace_back(text.begin() + i * kContext, text.begin() + (i + 1) * kContext);
    chunks.back().front() = 3;
  }
  EXPECT_NEAR(found->value / by_hand(source, chunks), 1.0, 1e-9);
  // Of a random text and a random model it is about the number of tokens that there are.
  EXPECT_GT(found->value, vocab / 2.0);
  EXPECT_GT(found->standard_error, 0.0);
  EXPECT_LT(found->standard_error, found->value / 10);

  options.chunks = 1;
  const auto one = measure_perplexity(source, options, text);
  ASSERT_TRUE(one);
  EXPECT_EQ(one->chunks, 1U);
  EXPECT_NE(one->value, found->value);
}

TEST(Perplexity, RefusesWhatItCannotMeasure) {
  const auto source = small_model();
  const std::vector<TokenId> text = random_text(100, source->config.vocab_size);
  PerplexityOptions options;
  EXPECT_EQ(measure_perplexity(source, options, text).error().message,
            "the text has 100 tokens, expected at least one context of 512");
  options.context = 3;
  EXPECT_EQ(measure_perplexity(source, options, text).error().message,
            "context: 3 is out of range, expected 4 to 1024");
  options.context = 1025;
  EXPECT_EQ(measure_perplexity(source, options, text).error().message,
            "context: 1025 is out of range, expected 4 to 1024");
  test::RandomModelOptions embedder;
  embedder.change = [](load::ModelConfig& config) { config.has_logits = false; };
  const auto embeds = measure_perplexity(test::random_model(embedder), options, text);
  ASSERT_FALSE(embeds);
  EXPECT_NE(embeds.error().message.find("it embeds texts"), std::string::npos);
}

TEST(NegativeLogProbability, IsThatOfSoftmax) {
  const std::vector<float> even(8, 100.0F);
  EXPECT_NEAR(negative_log_probability(even, 5), std::log(8.0), 1e-12);
  const std::vector<float> sure = {0.0F, 2000.0F, -2000.0F};
  EXPECT_EQ(negative_log_probability(sure, 1), 0.0);
  EXPECT_EQ(negative_log_probability(sure, 0), 2000.0);
}

}  // namespace
}  // namespace dovetail::study
