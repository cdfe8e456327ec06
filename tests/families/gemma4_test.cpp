// What files of Gemma 4 may have and may not, beyond the goldens.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "families/converted_models.h"
#include "families/golden_folder.h"
#include "families/open_model.h"
#include "families/read_config.h"
#include "load/expect_error.h"
#include "support/temp_folder.h"

namespace dovetail::families {
namespace {

GgufBuilder gemma4_gguf(const std::string& golden) {
  const auto folder = open_model(kFoldersOfGoldens / golden);
  const auto* how = std::find_if(std::begin(kConverted), std::end(kConverted),
                                 [&](const Converted& one) { return one.folder == golden; });
  return Converter(**folder, *how).convert();
}

struct BadGemma4 {
  const char* name;
  const char* golden;
  void (*change)(GgufBuilder& b);
  const char* message;
};

void PrintTo(const BadGemma4& row, std::ostream* out) { *out << row.name; }

class Gemma4Gguf : public testing::TestWithParam<BadGemma4> {};

TEST_P(Gemma4Gguf, IsRefusedByName) {
  GgufBuilder builder = gemma4_gguf(GetParam().golden);
  GetParam().change(builder);
  const Bytes bytes = builder.bytes();
  expect_error(read_model(std::vector{NamedBytes{"m.gguf", bytes}}), "m.gguf", GetParam().message);
}

const BadGemma4 kBadGemma4[] = {
    {"NoDivisors", "gemma4-tiny", [](GgufBuilder& b) { b.erase_tensor("rope_freqs.weight"); },
     "tensor 'rope_freqs.weight': missing; valid: the divisors"},
    {"NoSlidingHead", "gemma4-tiny",
     [](GgufBuilder& b) { b.erase("gemma4.attention.key_length_swa"); },
     "'gemma4.attention.key_length_swa': missing"},
    {"OtherValues", "gemma4-tiny",
     [](GgufBuilder& b) { b.set_u32("gemma4.attention.value_length_swa", 16); },
     "'gemma4.attention.value_length_swa': 16; valid: the head size 8"},
    {"PartOfSlidingHead", "gemma4-tiny",
     [](GgufBuilder& b) { b.set_u32("gemma4.rope.dimension_count_swa", 4); },
     "'gemma4.rope.dimension_count_swa': 4; valid: the head size 8"},
    {"NoWindow", "gemma4-tiny", [](GgufBuilder& b) { b.erase("gemma4.attention.sliding_window"); },
     "'gemma4.attention.sliding_window': none; valid: a number of positions"},
    {"TooFewHeads", "gemma4-tiny",
     [](GgufBuilder& b) {
       b.set_numbers<std::int32_t>("gemma4.attention.head_count_kv", GgufType::kInt32, {2, 1});
     },
     "'gemma4.attention.head_count_kv': 2 values; valid: one for each of 4 layers"},
    {"NoHeads", "gemma4-tiny",
     [](GgufBuilder& b) {
       b.set_numbers<std::int32_t>("gemma4.attention.head_count_kv", GgufType::kInt32,
                                   {2, 1, 0, 1});
     },
     "number of key-value heads: 0; valid: 1 to"},
    {"OtherKeysShared", "gemma4-ple-tiny",
     [](GgufBuilder& b) {
       b.set_numbers<std::int32_t>("gemma4.attention.head_count_kv", GgufType::kInt32,
                                   {2, 2, 2, 4, 2, 2});
     },
     "layer whose keys and values layer 3 has: 1; valid: an earlier one with its own, heads and "
     "window the same"},
    {"AllShared", "gemma4-ple-tiny",
     [](GgufBuilder& b) { b.set_u32("gemma4.attention.shared_kv_layers", 6); },
     "'gemma4.attention.shared_kv_layers': 6; valid: an integer from 0 to 5"},
    {"NoTable", "gemma4-ple-tiny",
     [](GgufBuilder& b) { b.erase_tensor("per_layer_token_embd.weight"); },
     "tensor 'per_layer_token_embd.weight': missing; valid: a tensor of shape [128, 72]"},
    {"NoRouterNorm", "gemma4-moe-tiny",
     [](GgufBuilder& b) { b.erase_tensor("blk.0.ffn_gate_inp.scale"); },
     "tensor 'blk.0.ffn_gate_inp_norm.weight': missing"},
    {"KeysTooMany", "gemma4-tiny",
     [](GgufBuilder& b) { b.add_tensor("blk.0.attn_v_norm.weight", kernels::DataType::kF32, {8}); },
     "'blk.0.attn_v_norm.weight': not a part of the model"},
};

INSTANTIATE_TEST_SUITE_P(All, Gemma4Gguf, testing::ValuesIn(kBadGemma4),
                         [](const auto& run) { return std::string(run.param.name); });

// A file may leave out what multiplies nothing.
TEST(Gemma4Gguf, MayHaveNoScales) {
  GgufBuilder builder = gemma4_gguf("gemma4-moe-tiny");
  for (const char* layer : {"blk.0.", "blk.1."}) {
    builder.erase_tensor(std::string(layer) + "ffn_down_exps.scale");
    builder.erase_tensor(std::string(layer) + "layer_output_scale.weight");
  }
  const Bytes bytes = builder.bytes();
  const auto model = read_model(std::vector{NamedBytes{"m.gguf", bytes}});
  ASSERT_TRUE(model) << model.error().message;
  for (const LayerConfig& layer : model->config.layers) {
    EXPECT_FALSE(layer.scaled);
    EXPECT_FALSE(layer.experts()->scaled);
  }
}

// As published: layers that have another one's keys and values come with their own, too.
TEST(Gemma4Folder, MayHaveKeysThatNothingReads) {
  HfBuilder builder = golden_folder("gemma4-ple-tiny");
  const std::string layer = "model.layers.3.self_attn.";
  builder.weights.add(layer + "k_proj.weight", {32, 32});
  builder.weights.add(layer + "v_proj.weight", {32, 32});
  builder.weights.add(layer + "k_norm.weight", {16});
  const test::TempFolder folder(test::kInMemory);
  builder.write(folder);
  const auto opened = open_model(folder.path());
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_FALSE((*opened)->tensors.contains("blk.3.attn_k.weight"));
  // Those of a layer that has its own are called for.
  std::erase_if(builder.weights.tensors, [](const auto& tensor) {
    return tensor.name.find("1.self_attn.k_proj") != std::string::npos;
  });
  const test::TempFolder without(test::kInMemory);
  builder.write(without);
  expect_error(open_model(without.path()), "tensor 'blk.1.attn_k.weight'", "missing");
}

// Quantised checkpoints have a tensor for each matrix of an expert.
TEST(Gemma4Folder, MayHaveExpertsOneByOne) {
  HfBuilder builder = golden_folder("gemma4-moe-tiny");
  HfBuilder apart = builder;
  apart.weights.tensors.clear();
  for (const auto& tensor : builder.weights.tensors) {
    const std::size_t at = tensor.name.find("experts.");
    if (at == std::string::npos) {
      apart.weights.tensors.push_back(tensor);
      continue;
    }
    const bool both = tensor.name.ends_with("gate_up_proj");
    const std::size_t experts = tensor.shape[0], rows = tensor.shape[1] / (both ? 2 : 1);
    const std::size_t bytes = tensor.data.size() / experts / (both ? 2 : 1);
    for (std::size_t i = 0; i < experts * (both ? 2 : 1); ++i) {
      const char* part = !both ? "down" : i % 2 == 0 ? "gate" : "up";
      const auto begin = tensor.data.begin() + static_cast<std::ptrdiff_t>(i * bytes);
      apart.weights.tensors.push_back(
          {fmt::format("{}experts.{}.{}_proj.weight", tensor.name.substr(0, at), both ? i / 2 : i,
                       part),
           tensor.dtype,
           {rows, tensor.shape[2]},
           Bytes(begin, begin + static_cast<std::ptrdiff_t>(bytes))});
    }
  }
  const test::TempFolder folder(test::kInMemory);
  apart.write(folder);
  const auto got = open_model(folder.path());
  const auto wanted = open_model(kFoldersOfGoldens / "gemma4-moe-tiny");
  ASSERT_TRUE(got) << got.error().message;
  ASSERT_EQ((*got)->tensors.size(), (*wanted)->tensors.size());
  for (const auto& [name, tensor] : (*wanted)->tensors)
    EXPECT_EQ(data_of((*got)->tensors.at(name)), data_of(tensor)) << name;
}

TEST(Gemma4Folder, HasContextsOfItsKind) {
  for (const auto& [kind, name, context] :
       {std::tuple{"gemma4_text", "Gemma4ForCausalLM", 131072U},
        std::tuple{"gemma4_unified_text", "Gemma4UnifiedForCausalLM", 262144U}}) {
    nlohmann::json config = golden_config("gemma4-tiny");
    config.erase("max_position_embeddings");
    config["model_type"] = kind;
    config["architectures"] = {name};
    const auto read = read_hf_config(config.dump(), "config.json");
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->max_context, context);
  }
}

}  // namespace
}  // namespace dovetail::families
