// Latent attention's two formulas: which token gets which, and that neither a cut nor a step shows.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "cores/executor.h"
#include "kernels/kernels.h"
#include "model/cpu/cache.h"
#include "model/cpu/model_runner.h"
#include "support/random_model.h"

namespace dovetail::model::latents {
namespace {

constexpr std::uint32_t kBlocks = 96;

std::shared_ptr<const load::ModelSource> latent_model(std::uint32_t rank, bool split) {
  test::RandomModelOptions options;
  options.max_context = kBlocks * 16;
  options.change = [=](load::ModelConfig& config) {
    config.ropes.front().interleaved = true;
    for (load::LayerConfig& layer : config.layers) {
      load::LatentConfig latent;
      latent.heads = 6;
      latent.latent_dim = 32;
      latent.rope_dim = 8;
      latent.key_dim = 16;
      latent.value_dim = 24;
      latent.query_rank = rank;
      latent.scale = 0.25F;
      latent.norm = {.kind = load::NormKind::kRms};
      latent.split = split;
      layer.mixer = latent;
    }
  };
  return test::random_model(options);
}

class Machine {
 public:
  explicit Machine(std::shared_ptr<const load::ModelSource> source, std::uint32_t lanes = 1,
                   kernels::CacheType type = kernels::CacheType::kF32)
      : executor_(cores::Topology::of_lanes(lanes), {}),
        model_(std::move(source), kernels::best_kernels(), executor_),
        cache_(*Cache::create(model_.cache_shape(type), kBlocks)),
        table_(kBlocks) {
    std::iota(table_.begin(), table_.end(), 0U);
    for (std::uint32_t block = 0; block < kBlocks; ++block) cache_.poison(block);
  }

  // The logits of tokens [first, end), of which those from `generated` on are.
  std::vector<float> compute(std::span<const std::int32_t> tokens, std::uint32_t first,
                             std::uint32_t end, std::uint32_t generated, bool decode = false) {
    Segment segment{tokens.subspan(first, end - first), first, table_, end - first, decode};
    segment.generated = generated;
    std::vector<float> logits(std::size_t{end - first} * model_.config().vocab_size);
    model_.forward(std::span(&segment, 1), cache_, logits);
    return logits;
  }

 private:
  cores::Executor executor_;
  ModelRunner model_;
  Cache cache_;
  std::vector<std::uint32_t> table_;
};

std::vector<std::int32_t> random_tokens(std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::int32_t> tokens(count);
  for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(random() % 97);
  return tokens;
}

void append(std::vector<float>& to, const std::vector<float>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

constexpr std::uint32_t kNone = Segment::kNoneGenerated;

TEST(Latent, PromptsMayBeCutAnywhere) {
  const auto model = latent_model(20, false);
  // Attention walks segments of 1,024 positions.
  const auto tokens = random_tokens(1100, 1);
  const auto count = static_cast<std::uint32_t>(tokens.size());
  Machine whole(model);
  const std::vector<float> wanted = whole.compute(tokens, 0, count, kNone);
  for (const std::uint32_t chunk : {1U, 3U, 64U, 127U, 128U, 129U, 256U, 1050U}) {
    const std::uint32_t end = chunk < 64 ? 70 : count;
    Machine cut(model, chunk % 3 + 1);
    std::vector<float> logits;
    for (std::uint32_t first = 0; first < end; first += chunk)
      append(logits, cut.compute(tokens, first, std::min(first + chunk, end), kNone));
    ASSERT_EQ(std::memcmp(logits.data(), wanted.data(), logits.size() * sizeof(float)), 0)
        << "chunks of " << chunk;
  }
}

// As it was computed first, and as it is computed again after a preemption: in one step.
TEST(Latent, WhatIsComputedAgainHasTheSameBits) {
  for (const bool split : {false, true}) {
    const auto model = latent_model(split ? 20 : 0, split);
    const auto tokens = random_tokens(75, 2);
    for (const kernels::CacheTypeInfo& type : kernels::kCacheTypes) {
      Machine first(model, 1, type.type), again(model, 3, type.type), drafts(model, 2, type.type);
      std::vector<float> wanted = first.compute(tokens, 0, 41, 41);
      for (std::uint32_t i = 41; i < 75; ++i)
        append(wanted, first.compute(tokens, i, i + 1, 41, true));
      const std::vector<float> together = again.compute(tokens, 0, 75, 41);
      ASSERT_EQ(std::memcmp(together.data(), wanted.data(), wanted.size() * sizeof(float)), 0)
          << type.name;
      std::vector<float> by_drafts = drafts.compute(tokens, 0, 41, 41);
      for (std::uint32_t i = 41; i < 75; i += 2)
        append(by_drafts, drafts.compute(tokens, i, i + 2, 41, true));
      ASSERT_EQ(std::memcmp(by_drafts.data(), wanted.data(), wanted.size() * sizeof(float)), 0)
          << type.name;
    }
  }
}

// Both formulas are the same mathematics.
TEST(Latent, FormulasAreNearEachOther) {
  for (const bool split : {false, true}) {
    const auto model = latent_model(split ? 20 : 0, split);
    const auto tokens = random_tokens(60, 3);
    Machine machine(model);
    const std::vector<float> prompt = machine.compute(tokens, 0, 60, kNone);
    const std::vector<float> generated = machine.compute(tokens, 0, 60, 0);
    double largest = 0, difference = 0;
    for (std::size_t i = 0; i < prompt.size(); ++i) {
      largest = std::max(largest, std::fabs(double{prompt[i]}));
      difference = std::max(difference, std::fabs(double{prompt[i]} - generated[i]));
    }
    EXPECT_LT(difference, 1e-4 * largest);
    EXPECT_GT(difference, 0.0) << "they are told apart at all";
  }
}

// Nothing is stored twice: a latent and what turns beside it, once.
TEST(Latent, CacheHasOneVectorForAPosition) {
  const auto model = latent_model(0, false);
  const CacheShape shape = cache_shape(model->config, kernels::CacheType::kF16);
  EXPECT_EQ(shape.block_bytes(), 2U * 16 * kernels::padded_dims(40) * 2);
  EXPECT_TRUE(shape.tells_generated());
}

}  // namespace
}  // namespace dovetail::model::latents
