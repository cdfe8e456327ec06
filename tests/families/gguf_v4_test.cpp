// DeepSeek-V4 as a GGUF file: keys and names of tensors as llama.cpp's converter writes them.

#include <gtest/gtest.h>

#include <cstring>

#include "families/gguf_converter.h"
#include "families/open_model.h"
#include "support/places.h"

namespace dovetail::families {
namespace {

constexpr std::pair<std::string_view, std::string_view> kStoredNames[] = {
    {"output_hc.fn", "output_hc_fn.weight"},
    {"output_hc.base", "output_hc_base.weight"},
    {"output_hc.scale", "output_hc_scale.weight"},
    {"hc_attn.fn", "hc_attn_fn.weight"},
    {"hc_attn.base", "hc_attn_base.weight"},
    {"hc_attn.scale", "hc_attn_scale.weight"},
    {"hc_ffn.fn", "hc_ffn_fn.weight"},
    {"hc_ffn.base", "hc_ffn_base.weight"},
    {"hc_ffn.scale", "hc_ffn_scale.weight"},
    {"attn_kv_norm.weight", "attn_kv_a_norm.weight"},
    {"attn_output.weight", "attn_output_b.weight"},
    {"indexer.compress_kv.weight", "indexer_compressor_kv.weight"},
    {"indexer.compress_gate.weight", "indexer_compressor_gate.weight"},
    {"indexer.compress_ape.weight", "indexer_compressor_ape.weight"},
    {"indexer.compress_norm.weight", "indexer_compressor_norm.weight"},
    {"compress_kv.weight", "attn_compressor_kv.weight"},
    {"compress_gate.weight", "attn_compressor_gate.weight"},
    {"compress_ape.weight", "attn_compressor_ape.weight"},
    {"compress_norm.weight", "attn_compressor_norm.weight"},
    {"ffn_token_experts.weight", "ffn_gate_tid2eid.weight"},
};

// "blk.0.hc_attn.fn" and so on; others as they are.
std::string stored_name(const std::string& name) {
  for (const auto& [ours, stored] : kStoredNames) {
    if (name == ours) return std::string(stored);
    const std::string ending = fmt::format(".{}", ours);
    if (name.ends_with(ending))
      return name.substr(0, name.size() - ours.size()) + std::string(stored);
  }
  return name;
}

void add_experts_of_one(GgufBuilder& out, const ModelSource& source, const std::string& stem,
                        std::uint32_t count, std::set<std::string>& done) {
  Bytes all;
  const TensorView* one = nullptr;
  for (std::uint32_t e = 0; e < count; ++e) {
    const std::string name = fmt::format("{}.{}.weight", stem, e);
    one = &source.tensors.at(name);
    append_raw(all, one->data.data(), one->data.size());
    done.insert(name);
  }
  out.tensors.push_back({stem + "_exps.weight",
                         {one->columns, one->rows, count},
                         ggml_number(one->type),
                         std::move(all),
                         {}});
}

GgufBuilder as_gguf(const ModelSource& source) {
  const ModelConfig& config = source.config;
  const CompressedConfig& picks = *config.layers[1].compressed();
  const ExpertsConfig& experts = *config.layers.front().experts();
  const RopeConfig& rope = config.ropes.back();
  const auto layers = static_cast<std::uint32_t>(config.layers.size());
  const std::string prefix = "deepseek4.";
  GgufBuilder out;
  const auto count = [&](const char* key, std::uint32_t value) {
    out.set_u32(prefix + key, value);
  };
  const auto number = [&](const char* key, float value) { out.set_f32(prefix + key, value); };
  out.set_string("general.architecture", "deepseek4");
  count("block_count", layers);
  count("context_length", config.max_context);
  count("embedding_length", config.hidden_size);
  count("embedding_length_out", config.hidden_size * config.hyper.streams);
  count("vocab_size", config.vocab_size);
  count("attention.head_count", picks.heads);
  count("attention.head_count_kv", 1);
  count("attention.key_length", picks.head_dim);
  count("attention.value_length", picks.head_dim);
  count("attention.q_lora_rank", picks.query_rank);
  count("attention.sliding_window", picks.window);
  count("attention.output_group_count", picks.groups);
  count("attention.output_lora_rank", picks.group_rank);
  count("attention.indexer.head_count", picks.index_heads);
  count("attention.indexer.key_length", picks.index_dim);
  count("attention.indexer.top_k", picks.index_top);
  std::vector<std::int32_t> ratios;
  for (const LayerConfig& layer : config.layers)
    ratios.push_back(static_cast<std::int32_t>(layer.compressed()->ratio));
  ratios.push_back(0);  // of the layer that drafts
  out.set_numbers<std::int32_t>(prefix + "attention.compress_ratios", GgufType::kInt32, ratios);
  number("attention.compress_rope_freq_base", rope.theta);
  number("attention.layer_norm_rms_epsilon", config.output_norm.epsilon);
  count("rope.dimension_count", picks.rope_dim);
  number("rope.freq_base", config.ropes.front().theta);
  out.set_string(prefix + "rope.scaling.type", "yarn");
  number("rope.scaling.factor", rope.factor);
  count("rope.scaling.original_context_length", rope.original_context);
  number("rope.scaling.yarn_beta_fast", rope.beta_fast);
  number("rope.scaling.yarn_beta_slow", rope.beta_slow);
  count("expert_count", experts.count);
  count("expert_used_count", experts.used);
  count("expert_shared_count", experts.shared_size / experts.size);
  count("expert_feed_forward_length", experts.size);
  count("expert_gating_func", 4);
  number("expert_weights_scale", experts.scale);
  out.set_bool(prefix + "expert_weights_norm", experts.normalized);
  const std::vector<float> limits(layers, experts.limit);
  out.set_numbers<float>(prefix + "swiglu_clamp_exp", GgufType::kFloat32, limits);
  out.set_numbers<float>(prefix + "swiglu_clamp_shexp", GgufType::kFloat32, limits);
  count("hyper_connection.count", config.hyper.streams);
  count("hyper_connection.sinkhorn_iterations", config.hyper.iterations);
  number("hyper_connection.epsilon", config.hyper.epsilon);
  count("hash_layer_count", 2);

  std::set<std::string> done;
  for (std::uint32_t i = 0; i < layers; ++i) {
    for (const char* stem : {"ffn_gate", "ffn_up", "ffn_down"})
      add_experts_of_one(out, source, fmt::format("blk.{}.{}", i, stem), experts.count, done);
  }
  for (const auto& [name, tensor] : source.tensors) {
    if (done.contains(name) || name.starts_with(config.draft_prefix())) continue;
    std::vector<std::uint64_t> dimensions = {tensor.columns};
    if (tensor.rows > 1) dimensions.push_back(tensor.rows);
    std::uint32_t type = ggml_number(tensor.type);
    Bytes data(tensor.data.begin(), tensor.data.end());
    if (name.ends_with("ffn_token_experts.weight")) {
      type = 26;  // I32
      for (std::size_t at = 0; at < data.size(); at += sizeof(float)) {
        float expert = 0.0F;
        std::memcpy(&expert, data.data() + at, sizeof expert);
        const auto whole = static_cast<std::int32_t>(expert);
        std::memcpy(data.data() + at, &whole, sizeof whole);
      }
    }
    out.tensors.push_back({stored_name(name), std::move(dimensions), type, std::move(data), {}});
  }
  return out;
}

class GgufV4 : public testing::Test {
 protected:
  std::shared_ptr<const ModelSource> folder = *open_model(
      std::filesystem::path(test::source_dir()) / "tests/golden/models/deepseek-v4-tiny");
  GgufBuilder builder = as_gguf(*folder);

  Result<ModelSource> read() {
    bytes_ = builder.bytes();
    return read_model(std::vector{NamedBytes{"m.gguf", bytes_}});
  }

 private:
  Bytes bytes_;
};

TEST_F(GgufV4, DescribesTheModelOfTheFolder) {
  const auto model = read();
  ASSERT_TRUE(model) << model.error().message;
  const ModelConfig& wanted = folder->config;
  EXPECT_EQ(model->config.family, wanted.family);
  EXPECT_EQ(model->config.layers, wanted.layers);
  EXPECT_EQ(model->config.ropes, wanted.ropes);
  EXPECT_EQ(model->config.hyper, wanted.hyper);
  EXPECT_EQ(model->config.max_context, wanted.max_context);
  EXPECT_FALSE(model->config.draft_layer);
  for (const auto& [name, tensor] : folder->tensors) {
    if (name.starts_with(wanted.draft_prefix())) continue;
    ASSERT_TRUE(model->tensors.contains(name)) << name;
    const TensorView& got = model->tensors.at(name);
    EXPECT_EQ(got.type, tensor.type) << name;
    ASSERT_EQ(got.data.size(), tensor.data.size()) << name;
    EXPECT_EQ(std::memcmp(got.data.data(), tensor.data.data(), got.data.size()), 0) << name;
  }
}

TEST_F(GgufV4, RefusesWhatDoesNotFit) {
  struct Row {
    const char* key;
    std::uint32_t value;
    const char* words;
  };
  const Row rows[] = {
      {"attention.head_count_kv", 2, "1"},
      {"attention.value_length", 32, "64"},
      {"attention.indexer.head_count", 3, "shape"},
      {"expert_gating_func", 2, "4, which is roots of softplus"},
      {"embedding_length_out", 64, "256"},
      {"rope.dimension_count", 7, "an even number"},
      {"hyper_connection.count", 3, "embedding_length_out"},
  };
  for (const Row& row : rows) {
    builder = as_gguf(*folder);
    builder.set_u32(fmt::format("deepseek4.{}", row.key), row.value);
    const auto model = read();
    ASSERT_FALSE(model) << row.key;
    EXPECT_NE(model.error().message.find(row.words), std::string::npos) << model.error().message;
  }
}

TEST_F(GgufV4, HasOneLimitForAllLayers) {
  const std::vector<float> limits = {2.0F, 2.0F, 3.0F, 2.0F, 2.0F};
  builder.set_numbers<float>("deepseek4.swiglu_clamp_shexp", GgufType::kFloat32, limits);
  const auto model = read();
  ASSERT_FALSE(model);
  EXPECT_NE(model.error().message.find("swiglu_clamp_shexp': 3; valid: one number"),
            std::string::npos)
      << model.error().message;
}

TEST_F(GgufV4, HasARatioForEachLayer) {
  builder.set_numbers<std::int32_t>("deepseek4.attention.compress_ratios", GgufType::kInt32,
                                    {0, 4});
  const auto model = read();
  ASSERT_FALSE(model);
  EXPECT_NE(model.error().message.find("one for each of 5 layers"), std::string::npos)
      << model.error().message;
}

// Whole numbers are for tables alone.
TEST_F(GgufV4, HasNoWeightsOfWholeNumbers) {
  for (GgufBuilder::Tensor& tensor : builder.tensors) {
    if (tensor.name == "blk.0.hc_attn_fn.weight") tensor.type = 26;
  }
  const auto model = read();
  ASSERT_FALSE(model);
  EXPECT_NE(model.error().message.find("'blk.0.hc_attn_fn.weight': type 'I32'; valid: F32"),
            std::string::npos)
      << model.error().message;
}

}  // namespace
}  // namespace dovetail::families
