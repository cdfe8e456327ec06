// DeepSeek-V4's parts: values that can be checked by hand, and that neither a cut nor a step shows.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <vector>

#include "cores/executor.h"
#include "families/open_model.h"
#include "kernels/kernels.h"
#include "model/blocks/compressed_attention.h"
#include "model/blocks/compressor.h"
#include "model/blocks/hyper_connections.h"
#include "model/cpu/cache.h"
#include "model/cpu/experts.h"
#include "model/cpu/model_runner.h"
#include "model/golden_rows.h"
#include "support/places.h"
#include "support/random_model.h"

namespace dovetail::model::compressed {
namespace {

constexpr std::uint32_t kBlocks = 80;

TEST(Compressed, APositionSeesTheEntriesThatHaveEnded) {
  constexpr std::array<std::array<std::uint32_t, 3>, 9> kSeen = {{{126, 128, 0},
                                                                  {127, 128, 1},
                                                                  {254, 128, 1},
                                                                  {255, 128, 2},
                                                                  {2, 4, 0},
                                                                  {3, 4, 1},
                                                                  {6, 4, 1},
                                                                  {7, 4, 2},
                                                                  {1000, 0, 0}}};
  for (const auto& [position, ratio, seen] : kSeen)
    EXPECT_EQ(entries_seen(position, ratio), seen) << position << " by " << ratio;
}

TEST(Compressed, TheLargestScoresAreInTheOrderOfTheirNumbers) {
  std::vector<float> scores = {1, 5, 3, 5, NAN, 3, 0, 3};
  std::array<std::uint32_t, 4> picks = {};
  pick_entries(scores, 4, picks.data());
  EXPECT_EQ(picks, (std::array<std::uint32_t, 4>{1, 2, 3, 5}));
  std::vector<float> few = {2, 1};
  pick_entries(few, 2, picks.data());
  EXPECT_EQ(picks[0], 0U);
  EXPECT_EQ(picks[1], 1U);
}

// Beside a sort by what the contract says, with many equals among the scores.
TEST(Compressed, PicksAreThoseOfASort) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kSome[] = {0.0F, -0.0F, 1.0F,      -1.0F,      1.5F,  0x1p-149F,    -0x1p-149F,
                             NAN,  -NAN,  kInfinity, -kInfinity, 3e38F, 0x1.000002p0F};
  std::mt19937 random(3);
  std::normal_distribution<float> wide(0.0F, 3.0F);
  for (std::size_t size = 1; size < 3000; size = size * 3 / 2 + 1) {
    for (const int kind : {0, 1, 2}) {
      std::vector<float> scores(size);
      for (float& score : scores) {
        const float near = 100.0F + static_cast<float>(random() % 50) * 0x1p-14F;
        score = kind == 0 ? wide(random) : kind == 1 ? near : kSome[random() % std::size(kSome)];
      }
      std::vector<std::uint32_t> order(size);
      std::iota(order.begin(), order.end(), 0U);
      const auto value = [&](std::uint32_t i) {
        return std::isnan(scores[i]) ? -kInfinity : scores[i];
      };
      std::stable_sort(order.begin(), order.end(),
                       [&](std::uint32_t a, std::uint32_t b) { return value(a) > value(b); });
      for (const std::size_t count : {std::size_t{1}, (size + 1) / 2, size}) {
        std::vector<std::uint32_t> wanted(order.begin(),
                                          order.begin() + static_cast<std::ptrdiff_t>(count));
        std::sort(wanted.begin(), wanted.end());
        std::vector<std::uint32_t> picks(count);
        pick_entries(scores, count, picks.data());
        ASSERT_EQ(picks, wanted) << size << " scores of kind " << kind;
      }
    }
  }
}

TEST(Compressed, MatricesBecomeDoublyStochastic) {
  // As they are, and of their exponentials: what is known is the first's.
  std::vector<float> matrix = {1, 2, 0, 0, 0, 3, 0.5F, 0, 0};
  make_stochastic(matrix, 3, 20, 1e-6F);
  const std::vector<float> wanted = {.30918F, .64633F, .0445F,  .10388F, .07989F,
                                     .81623F, .58695F, .27378F, .13927F};
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(matrix[i], wanted[i], 2e-5F) << i;
  std::vector<float> flat(16, 7.0F);
  make_stochastic(flat, 4, 20, 1e-6F);
  for (const float value : flat) EXPECT_NEAR(value, 0.25F, 1e-5F);
}

TEST(Compressed, ScoresAreRootsOfSoftplus) {
  EXPECT_NEAR(gate_score(load::ExpertGate::kRootSoftplus, 0.0F), 0.8325546F, 1e-7F);
  EXPECT_NEAR(gate_score(load::ExpertGate::kRootSoftplus, 1.0F), 1.1459763F, 1e-7F);
  EXPECT_NEAR(gate_score(load::ExpertGate::kRootSoftplus, -1.0F), 0.5596979F, 1e-7F);
  EXPECT_NEAR(gate_score(load::ExpertGate::kRootSoftplus, 400.0F), 20.0F, 1e-5F);
}

// Four tokens of 10, 20, 30 and 40 for their own entry, then 50 to 80 beside 1 to 4 of the ones
// before, all alike in their gates.
TEST(Compressed, EntriesAreMeansWhereGatesAreAlike) {
  const kernels::Kernels& kernels = kernels::best_kernels();
  load::CompressedConfig config;
  config.head_dim = 1;
  config.ratio = 4;
  config.overlaps = true;
  ModelWeights weights;
  const std::vector<float> places(8, 0.0F);
  weights.matrices["blk.0.compress_ape.weight"] = {
      kernels::DataType::kF32, 4, 2, reinterpret_cast<const std::byte*>(places.data())};
  const Compressor compressor(config, weights, "blk.0.", 0, kernels);
  ASSERT_EQ(compressor.row_size(), 4U);
  CacheShape shape(kernels::CacheType::kF32);
  shape.add_latents(1);
  shape.add_state(config.state_floats());
  const Cache cache = *Cache::create(shape, 1, 1);
  cache.poison_state(0);
  std::vector<float> rows;
  for (int i = 1; i <= 8; ++i) {
    for (const float value : {static_cast<float>(i), 10.0F * static_cast<float>(i), 0.0F, 0.0F})
      rows.push_back(value);
  }
  for (const std::uint32_t cut : {8U, 1U, 3U, 5U}) {
    std::vector<float> entries(8, NAN);
    for (std::uint32_t first = 0; first < 8; first += cut) {
      const model::Run run{0, first, std::min(first + cut, 8U), first, {}};
      compressor.apply(cache, run, {0, 1}, rows.data(), entries.data());
    }
    EXPECT_EQ(entries[3], 25.0F) << cut;
    EXPECT_EQ(entries[7], 33.75F) << cut;
  }
}

std::vector<float> frequencies(float theta, std::uint32_t original, float factor) {
  load::RopeConfig rope;
  rope.theta = theta;
  rope.scaling = load::RopeScaling::kYarn;
  rope.original_context = original;
  rope.factor = factor;
  return rope_frequencies(rope, 64, 4096);
}

TEST(Compressed, FrequenciesAreThoseOfTheModels) {
  const std::vector<float> v3 = frequencies(1e4F, 4096, 40.0F);
  for (const auto& [i, wanted] : {std::pair{0, 1.0},
                                  {10, 5.623413e-2},
                                  {15, 8.334509e-3},
                                  {16, 5.5e-3},
                                  {20, 7.905694e-4},
                                  {23, 3.333804e-5},
                                  {31, 3.333804e-6}})
    EXPECT_NEAR(v3[static_cast<std::size_t>(i)] / wanted, 1.0, 1e-6) << i;
  const std::vector<float> v4 = frequencies(160000.0F, 65536, 16.0F);
  for (const auto& [i, wanted] :
       {std::pair{10, 2.364354e-2}, {16, 2.265625e-3}, {20, 2.969778e-4}, {24, 1.953125e-5}})
    EXPECT_NEAR(v4[static_cast<std::size_t>(i)] / wanted, 1.0, 1e-6) << i;
}

class Machine {
 public:
  explicit Machine(std::shared_ptr<const load::ModelSource> source, std::uint32_t lanes = 1,
                   kernels::CacheType type = kernels::CacheType::kF32,
                   const kernels::Kernels& kernels = kernels::best_kernels())
      : executor_(cores::Topology::of_lanes(lanes), {}),
        model_(std::move(source), kernels, executor_),
        cache_(*Cache::create(grouped_cache_shape(model_.config(), type), kBlocks)),
        table_(std::size_t{kBlocks} * cache_.shape().groups()) {
    std::iota(table_.begin(), table_.end(), 0U);
    for (const std::uint32_t block : table_) cache_.poison(block);
    cache_.poison_state(0);
  }

  // The logits of tokens [first, end), or of the last `rows` of them.
  std::vector<float> compute(std::span<const std::int32_t> tokens, std::uint32_t first,
                             std::uint32_t end, std::uint32_t rows = 0xffffffff) {
    rows = std::min(rows, end - first);
    const Segment segment{tokens.subspan(first, end - first), first, table_, rows, false};
    std::vector<float> logits(std::size_t{rows} * model_.config().vocab_size);
    model_.forward(std::span(&segment, 1), cache_, logits);
    return logits;
  }

 private:
  cores::Executor executor_;
  ModelRunner model_;
  Cache cache_;
  std::vector<std::uint32_t> table_;
};

std::shared_ptr<const load::ModelSource> compressed_model() {
  test::RandomModelOptions options;
  options.max_context = kBlocks * 16;
  options.layers = 4;
  options.change = [](load::ModelConfig& config) {
    constexpr std::uint32_t kRatios[] = {4, 128, 0, 4};
    test::make_compressed(config, 128, kRatios);
    config.draft_layer.reset();
  };
  return test::random_model(options);
}

TEST(Compressed, PromptsMayBeCutAnywhere) {
  const auto model = compressed_model();
  std::mt19937 random(1);
  std::vector<std::int32_t> tokens(400);
  for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(random() % 97);
  for (const kernels::CacheTypeInfo& type : kernels::kCacheTypes) {
    Machine whole(model, 1, type.type);
    const std::vector<float> wanted = whole.compute(tokens, 0, 400);
    for (const std::uint32_t chunk : {1U, 3U, 64U, 127U, 128U, 129U, 256U}) {
      if (chunk < 64 && type.type != kernels::CacheType::kF32) continue;
      Machine cut(model, chunk % 3 + 1, type.type);
      std::vector<float> logits;
      for (std::uint32_t first = 0; first < 400; first += chunk) {
        const auto more = cut.compute(tokens, first, std::min(first + chunk, 400U));
        logits.insert(logits.end(), more.begin(), more.end());
      }
      ASSERT_EQ(std::memcmp(logits.data(), wanted.data(), logits.size() * sizeof(float)), 0)
          << type.name << ", chunks of " << chunk;
    }
  }
}

// Rows whose scores lanes share, in parts, beside rows that have all of theirs made at once.
TEST(Compressed, SharedScoresAreThoseOfARowAlone) {
  const auto model = compressed_model();
  std::mt19937 random(4);
  std::vector<std::int32_t> tokens(1200);
  for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(random() % 97);
  for (const kernels::CacheTypeInfo& type : kernels::kCacheTypes) {
    Machine whole(model, 1, type.type);
    const std::vector<float> wanted = whole.compute(tokens, 0, 1200, 5);
    Machine shared(model, 3, type.type);
    shared.compute(tokens, 0, 1195, 1);
    const std::vector<float> logits = shared.compute(tokens, 1195, 1200);
    ASSERT_EQ(std::memcmp(logits.data(), wanted.data(), logits.size() * sizeof(float)), 0)
        << type.name;
  }
}

// Where a chunk's rows have no outputs, the last layer leaves most out.
TEST(Compressed, ChunksWithoutOutputsLeaveWhatOthersDo) {
  const auto model = compressed_model();
  std::mt19937 random(2);
  std::vector<std::int32_t> tokens(300);
  for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(random() % 97);
  Machine whole(model);
  const std::vector<float> wanted = whole.compute(tokens, 0, 300);
  for (const std::uint32_t chunk : {16U, 100U, 299U}) {
    Machine cut(model, 2);
    std::vector<float> last;
    for (std::uint32_t first = 0; first < 300; first += chunk) {
      const std::uint32_t end = std::min(first + chunk, 300U);
      last = cut.compute(tokens, first, end, end == 300 ? 1 : 0);
    }
    ASSERT_EQ(std::memcmp(last.data(), wanted.data() + wanted.size() - last.size(),
                          last.size() * sizeof(float)),
              0)
        << "chunks of " << chunk;
  }
}

// Against an independent implementation (tools/golden/deepseek_v4.py), with three lanes.
TEST(Compressed, TheReferenceSaysTheSame) {
  const auto folder =
      std::filesystem::path(test::source_dir()) / "tests/golden/models/deepseek-v4-tiny";
  const auto source = *families::open_model(folder);
  const auto golden = nlohmann::json::parse(std::ifstream(folder / "golden.json"));
  const std::size_t vocabulary = source->config.vocab_size;
  std::vector<std::vector<float>> of_prompts;
  for (const nlohmann::json& prompt : golden["prompts"]) {
    const auto tokens = prompt.get<std::vector<std::int32_t>>();
    Machine machine(source, 3, kernels::CacheType::kF32, *kernels::find_kernels("portable"));
    of_prompts.push_back(machine.compute(tokens, 0, static_cast<std::uint32_t>(tokens.size())));
  }
  test::expect_golden_rows(golden, vocabulary, of_prompts);
}

}  // namespace
}  // namespace dovetail::model::compressed
