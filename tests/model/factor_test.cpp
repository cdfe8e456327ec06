// Matrices with a factor: products with it are those of rows that have it in their elements.

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "cores/executor.h"
#include "kernels/kernels.h"
#include "model/cpu/cache.h"
#include "model/cpu/model_runner.h"
#include "model/cpu/pack_weights.h"
#include "support/random_model.h"

namespace dovetail::model::factors {
namespace {

constexpr std::uint32_t kBlocks = 8;

// Whether the loader gives the matrix a factor at all: tables have none.
bool may_have_factor(const std::string& name, const load::TensorView& tensor) {
  for (const char* ending : {"_embd.weight", ".fn", "_ape.weight", "ffn_token_experts.weight"}) {
    if (name.ends_with(ending)) return false;
  }
  return tensor.rows > 1;
}

// A power of two of each name's own, by which a float's product is exact.
float factor_of(const std::string& name) {
  return std::ldexp(1.0F, 1 + static_cast<int>(std::hash<std::string>()(name) % 7));
}

// The same model with a factor for each matrix of floats, and its elements without it.
std::shared_ptr<load::ModelSource> factored(std::shared_ptr<load::ModelSource> source) {
  auto out = std::make_shared<load::ModelSource>(*source);
  for (auto& [name, tensor] : out->tensors) {
    if (tensor.type != kernels::DataType::kF32 || !may_have_factor(name, tensor)) continue;
    tensor.factor = factor_of(name);
    auto floats = std::make_shared<std::vector<float>>(tensor.rows * tensor.columns);
    std::memcpy(floats->data(), tensor.data.data(), tensor.data.size());
    for (float& value : *floats) value /= tensor.factor;
    tensor.data = std::as_bytes(std::span(*floats));
    out->mappings.push_back(std::move(floats));
  }
  out->mappings.push_back(std::move(source));
  return out;
}

// Of a prompt, of which the last positions come one by one, as generated tokens.
std::vector<float> logits_of(std::shared_ptr<const load::ModelSource> source, std::uint32_t lanes,
                             bool pack = false) {
  constexpr std::uint32_t kTokens = 40, kPrompt = 35;
  const kernels::Kernels& kernels = kernels::best_kernels();
  cores::Executor executor(cores::Topology::of_lanes(lanes), {});
  ModelWeights weights = bind_weights(std::move(source), kernels);
  if (pack) {
    EXPECT_TRUE(pack_weights(weights, kernels, {}));
  }
  ModelRunner model(std::make_shared<const ModelWeights>(std::move(weights)), kernels, executor);
  const Cache cache = *Cache::create(model.cache_shape(kernels::CacheType::kF32), kBlocks);
  std::vector<std::uint32_t> table(kBlocks);
  std::iota(table.begin(), table.end(), 0U);
  std::mt19937 random(5);
  std::vector<std::int32_t> tokens(kTokens);
  for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(random() % 97);
  std::vector<float> logits(std::size_t{kTokens} * model.config().vocab_size);
  for (std::uint32_t first = 0; first < kTokens; first += first == 0 ? kPrompt : 1) {
    const std::uint32_t count = first == 0 ? kPrompt : 1;
    Segment segment{std::span(tokens).subspan(first, count), first, table, count, first > 0};
    segment.generated = first == 0 ? Segment::kNoneGenerated : first;
    model.forward(std::span(&segment, 1), cache,
                  std::span(logits).subspan(std::size_t{first} * model.config().vocab_size,
                                            std::size_t{count} * model.config().vocab_size));
  }
  return logits;
}

struct Row {
  const char* name;
  test::RandomModelOptions options;
};

void make_latent(load::ModelConfig& config, bool split) {
  for (load::LayerConfig& layer : config.layers) {
    load::LatentConfig latent;
    latent.heads = 6;
    latent.latent_dim = 32;
    latent.rope_dim = 8;
    latent.key_dim = 16;
    latent.value_dim = 24;
    latent.query_rank = split ? 20 : 0;
    latent.scale = 0.25F;
    latent.norm = {.kind = load::NormKind::kRms};
    latent.split = split;
    layer.mixer = latent;
  }
}

std::vector<Row> models() {
  const auto changed = [](auto change) {
    test::RandomModelOptions options;
    options.change = change;
    return options;
  };
  test::RandomModelOptions experts = test::options_of("qwen3_moe");
  test::RandomModelOptions compressed;
  compressed.change = [](load::ModelConfig& config) {
    constexpr std::array<std::uint32_t, 2> kRatios = {0, 4};
    test::make_compressed(config, 32, kRatios);
  };
  return {{"llama", test::options_of("llama")},
          {"experts", std::move(experts)},
          {"latent", changed([](load::ModelConfig& config) { make_latent(config, false); })},
          {"split latent", changed([](load::ModelConfig& config) { make_latent(config, true); })},
          {"compressed", std::move(compressed)}};
}

// Each matrix by itself, so that none that is forgotten hides behind others, and all at once.
TEST(Factor, IsThatOfTheProducts) {
  for (const Row& row : models()) {
    const auto source = test::random_model(row.options);
    const std::vector<float> wanted = logits_of(source, 1);
    ASSERT_FALSE(std::isnan(wanted.back())) << row.name;
    const auto whole = factored(source);
    for (const std::uint32_t lanes : {1U, 3U}) {
      const std::vector<float> got = logits_of(whole, lanes);
      EXPECT_EQ(std::memcmp(got.data(), wanted.data(), wanted.size() * sizeof(float)), 0)
          << row.name << ", " << lanes << " lanes";
    }
    std::set<std::string> seen;
    const std::string drafts = source->config.draft_layer ? source->config.draft_prefix() : "none";
    for (const auto& [name, tensor] : whole->tensors) {
      if (tensor.factor == 1.0F || name.starts_with(drafts)) continue;
      // What an indexer picks does not change with the size of its scores.
      if (name.find("indexer") != std::string::npos) continue;
      // One layer, and one expert of it, stands for all.
      std::string kind = name;
      std::erase_if(kind, [](char c) { return c >= '0' && c <= '9'; });
      if (!seen.insert(kind).second) continue;
      auto one = std::make_shared<load::ModelSource>(*whole);
      one->tensors.at(name).factor *= 2.0F;
      const std::vector<float> other = logits_of(one, 1);
      EXPECT_NE(std::memcmp(other.data(), wanted.data(), wanted.size() * sizeof(float)), 0)
          << row.name << ": the factor of " << name << " changes nothing";
    }
    EXPECT_GE(seen.size(), 6U) << row.name;
  }
}

// Panels and rows of NVFP4 give the same bits; twice the factor of the last product, twice the
// logits.
TEST(Factor, IsThatOfPackedProductsToo) {
  test::RandomModelOptions options;
  options.type = kernels::DataType::kNVFP4;
  options.intermediate_size = 128;
  const auto source = test::random_model(options);
  source->tensors.at("blk.0.attn_q.weight").factor = 0.75F;
  source->tensors.at("output.weight").factor = 0.3F;
  const std::vector<float> rows = logits_of(source, 2);
  const std::vector<float> panels = logits_of(source, 2, true);
  EXPECT_EQ(std::memcmp(rows.data(), panels.data(), rows.size() * sizeof(float)), 0);
  source->tensors.at("output.weight").factor = 0.6F;
  const std::vector<float> twice = logits_of(source, 1, true);
  for (std::size_t i = 0; i < rows.size(); ++i) ASSERT_EQ(twice[i], 2 * rows[i]) << i;
}

}  // namespace
}  // namespace dovetail::model::factors
