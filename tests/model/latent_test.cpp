// Latent attention's two formulas: which token gets which, and that neither a cut nor a step shows;
// the positions that an indexer picks.

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

// `top`: an indexer picks so many positions; 0: there is none.
std::shared_ptr<const load::ModelSource> latent_model(std::uint32_t rank, bool split,
                                                      std::uint32_t top = 0) {
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
      if (top > 0) {
        latent.index_heads = 4;
        latent.index_dim = 16;
        latent.index_top = top;
        latent.index_norm = {.kind = load::NormKind::kLayer, .bias = true};
      }
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

// The same weights, with an indexer that picks so many positions, or none.
std::shared_ptr<const load::ModelSource> picking(const load::ModelSource& source,
                                                 std::uint32_t top) {
  auto out = std::make_shared<load::ModelSource>(source);
  for (load::LayerConfig& layer : out->config.layers) {
    auto& latent = std::get<load::LatentConfig>(layer.mixer);
    latent.index_top = top;
    if (top == 0) latent.index_heads = latent.index_dim = 0;
  }
  return out;
}

bool begin_alike(const std::vector<float>& a, const std::vector<float>& b, std::size_t floats) {
  return std::memcmp(a.data(), b.data(), floats * sizeof(float)) == 0;
}

TEST(PickedLatents, PromptsMayBeCutAnywhere) {
  // The list of what is picked, or what is seen before any is, may be longer than a segment.
  for (const std::uint32_t top : {40U, 1030U}) {
    const auto model = latent_model(20, false, top);
    const auto tokens = random_tokens(1100, 5);
    const auto count = static_cast<std::uint32_t>(tokens.size());
    Machine whole(model);
    const std::vector<float> wanted = whole.compute(tokens, 0, count, kNone);
    for (const std::uint32_t chunk : {1U, 3U, 64U, 129U, 1050U}) {
      const std::uint32_t end = chunk < 64 ? 70 : count;
      Machine cut(model, chunk % 3 + 1);
      std::vector<float> logits;
      for (std::uint32_t first = 0; first < end; first += chunk)
        append(logits, cut.compute(tokens, first, std::min(first + chunk, end), kNone));
      ASSERT_TRUE(begin_alike(logits, wanted, logits.size())) << top << ", chunks of " << chunk;
    }
  }
}

TEST(PickedLatents, WhatIsComputedAgainHasTheSameBits) {
  // Prompts end before and behind the position from which on rows choose.
  for (const std::uint32_t top : {20U, 60U}) {
    const auto model = latent_model(20, true, top);
    const auto tokens = random_tokens(90, 6);
    for (const kernels::CacheTypeInfo& type : kernels::kCacheTypes) {
      Machine first(model, 1, type.type), again(model, 3, type.type);
      std::vector<float> wanted = first.compute(tokens, 0, 41, 41);
      for (std::uint32_t i = 41; i < 90; ++i)
        append(wanted, first.compute(tokens, i, i + 1, 41, true));
      const std::vector<float> together = again.compute(tokens, 0, 90, 41);
      ASSERT_TRUE(begin_alike(together, wanted, wanted.size())) << type.name << ", " << top;
    }
  }
}

// A position that sees no more than it may pick is dense to the bit, in either formula; the first
// that sees more is not.
TEST(PickedLatents, AreDenseWhileAllIsPicked) {
  const auto model = latent_model(20, false, 30);
  const auto dense = picking(*model, 0), all = picking(*model, 1000);
  const auto tokens = random_tokens(60, 7);
  const std::size_t vocabulary = model->config.vocab_size;
  for (const std::uint32_t generated : {kNone, 0U}) {
    Machine some(model), every(all), none(dense);
    const std::vector<float> wanted = none.compute(tokens, 0, 60, generated);
    EXPECT_TRUE(begin_alike(every.compute(tokens, 0, 60, generated), wanted, wanted.size()));
    const std::vector<float> picked = some.compute(tokens, 0, 60, generated);
    EXPECT_TRUE(begin_alike(picked, wanted, 30 * vocabulary));
    EXPECT_FALSE(begin_alike(picked, wanted, 31 * vocabulary));
  }
}

TEST(PickedLatents, TheIndexersKeysLieBesideLatents) {
  const auto model = latent_model(20, false, 30);
  const CacheShape shape = grouped_cache_shape(model->config, kernels::CacheType::kF16);
  EXPECT_EQ(shape.groups(), 1U);
  EXPECT_EQ(shape.block_bytes(),
            2U * 16 * (kernels::padded_dims(40) + kernels::padded_dims(16)) * 2);
  EXPECT_TRUE(shape.tells_generated());
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
