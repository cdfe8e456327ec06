// NVFP4 as compressed-tensors and ModelOpt store it, and ModelOpt's FP8: what is read, and what is
// refused. Rows and logits of whole models are those of quantised_test.cpp and make_quantised.py.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "families/open_model.h"
#include "kernels/kernels.h"
#include "load/expect_error.h"
#include "load/model_source.h"
#include "load/quantised_builder.h"
#include "load/stored_parts.h"
#include "support/temp_folder.h"

namespace dovetail::families {
namespace {

using namespace load;

using kernels::DataType;
using nlohmann::json;

// Elements are codes times the group's scale, its sign included; a scale that is no number is 0, as
// in GGUF's type. E2M1 by its numbers, doubled.
TEST(Nvfp4, KeepsItsNumbers) {
  constexpr int kNumbers[] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  const std::string name = "model.layers.0.mlp.down_proj.weight";
  for (const auto& [made, ending] : {std::pair{nvfp4_model(), "_packed"}, {modelopt_model(), ""}}) {
    HfBuilder b = made;
    auto& codes = b.weights.tensor(name + ending);
    auto& scales = b.weights.tensor(name + "_scale");
    for (std::size_t i = 0; i < codes.data.size(); ++i)
      codes.data[i] = static_cast<std::byte>(i * 37 + i / 7);
    for (std::size_t i = 0; i < scales.data.size(); ++i) scales.data[i] = static_cast<std::byte>(i);
    test::TempFolder folder{test::kInMemory};
    b.write(folder);
    const auto source = open_model(folder.path());
    ASSERT_TRUE(source) << source.error().message;
    const TensorView& tensor = (*source)->tensors.at("blk.0.ffn_down.weight");
    std::vector<std::byte> rows(tensor.bytes());
    ASSERT_EQ(rows.size(), 32U * 2 * 36);
    write_rows(*tensor.parts, 0, tensor.rows, rows.data());
    std::vector<float> got(128);
    for (std::size_t row = 0; row < 32; ++row) {
      kernels::best_kernels().dequantize_row(DataType::kNVFP4, rows.data() + row * 72, 128,
                                             got.data());
      for (std::size_t i = 0; i < 128; ++i) {
        const auto pair = std::to_integer<unsigned>(codes.data[(row * 128 + i) / 2]);
        const auto bits = std::to_integer<int>(scales.data[(row * 128 + i) / 16]);
        const int exponent = bits >> 3 & 15;
        const int fraction = bits & 7;
        float scale = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -9)
                                    : std::ldexp(static_cast<float>(8 + fraction), exponent - 10);
        if ((bits & 127) == 127) scale = 0.0F;
        if (bits >= 128) scale = -scale;
        ASSERT_EQ(got[i], static_cast<float>(kNumbers[pair >> 4 * (i % 2) & 15]) * scale / 2)
            << row << ", " << i;
      }
    }
  }
}

// The scale of all divides in one format and multiplies in the other.
TEST(Nvfp4, HasAFactor) {
  for (const auto& [made, factor] :
       {std::pair{nvfp4_model(), 1.0F / 320}, {modelopt_model(), 0.0625F}, {int8_model(), 1.0F}}) {
    test::TempFolder folder{test::kInMemory};
    made.write(folder);
    const auto source = open_model(folder.path());
    ASSERT_TRUE(source) << source.error().message;
    EXPECT_EQ((*source)->tensors.at("blk.0.ffn_down.weight").factor, factor);
    EXPECT_EQ((*source)->tensors.at("blk.0.ffn_up.weight").factor, 1.0F);
  }
}

// Both of ModelOpt's ways in one model, each told by its tensors; none takes the other's factor.
TEST(ModelOpt, MayHaveSeveralKinds) {
  for (const char* method : {"modelopt", "modelopt_fp4"}) {
    HfBuilder b = tiny_hf({.vocabulary = 8, .hidden = 128, .inner = 128, .layers = 1});
    b.config["quantization_config"] = {
        {"quant_method", method},
        {"quant_algo", "mixed_precision"},
        {"quantized_layers",
         {{"model.layers.0.mlp.down_proj", {{"quant_algo", "NVFP4"}, {"group_size", 16}}},
          {"model.layers.0.mlp.up_proj", {{"quant_algo", "FP8"}}}}}};
    const auto add = [&](const std::string& name, const char* dtype,
                         std::vector<std::uint64_t> shape, Bytes data) {
      b.weights.erase("model.layers.0.mlp." + name);
      b.weights.tensors.push_back(
          {"model.layers.0.mlp." + name, dtype, std::move(shape), std::move(data)});
    };
    Bytes factor;
    append_number(factor, 0.25F);
    add("down_proj.weight", "U8", {128, 64}, Bytes(std::size_t{128} * 64));
    add("down_proj.weight_scale", "F8_E4M3", {128, 8}, Bytes(std::size_t{128} * 8));
    add("down_proj.weight_scale_2", "F32", {}, factor);
    add("up_proj.weight", "F8_E4M3", {128, 128}, Bytes(std::size_t{128} * 128));
    add("up_proj.weight_scale", "F32", {}, factor);
    test::TempFolder folder{test::kInMemory};
    b.write(folder);
    const auto source = open_model(folder.path());
    ASSERT_TRUE(source) << source.error().message;
    const auto& tensors = (*source)->tensors;
    EXPECT_EQ(tensors.at("blk.0.ffn_down.weight").type, DataType::kNVFP4);
    EXPECT_EQ(tensors.at("blk.0.ffn_down.weight").factor, 0.25F);
    EXPECT_EQ(tensors.at("blk.0.ffn_up.weight").type, DataType::kFP8_E4M3);
    EXPECT_EQ(tensors.at("blk.0.ffn_up.weight").factor, 1.0F);
  }
}

// Single rows are looked up without a factor.
TEST(Nvfp4, IsNoEmbedding) {
  HfBuilder b = tiny_hf({.vocabulary = 8, .hidden = 64, .layers = 1});
  b.config["quantization_config"] = {{"quant_method", "modelopt"}, {"quant_algo", "NVFP4"}};
  const std::string name = "model.embed_tokens.weight";
  b.weights.erase(name);
  const auto add = [&](const std::string& ending, const char* dtype,
                       std::vector<std::uint64_t> shape, std::size_t bytes) {
    b.weights.tensors.push_back({name + ending, dtype, std::move(shape), Bytes(bytes)});
  };
  add("", "U8", {8, 32}, std::size_t{8} * 32);
  add("_scale", "F8_E4M3", {8, 4}, std::size_t{8} * 4);
  add("_scale_2", "F32", {1}, 4);
  const float factor = 0.5F;
  std::memcpy(b.weights.tensors.back().data.data(), &factor, sizeof factor);
  test::TempFolder folder{test::kInMemory};
  b.write(folder);
  expect_error(open_model(folder.path()), "tensor 'model.embed_tokens.weight'",
               "a scale for all of the tensor beside those of its groups; valid: none");
}

// Of older exports the file beside config.json says it, which goes first where it does as well.
TEST(ModelOpt, MayHaveAFileOfItsOwn) {
  const auto opened = [](const HfBuilder& b, const json& file) {
    test::TempFolder folder{test::kInMemory};
    b.write(folder);
    folder.write("hf_quant_config.json", file.dump());
    return open_model(folder.path());
  };
  const json said = {{"producer", {{"name", "modelopt"}}},
                     {"quantization",
                      {{"quant_algo", "NVFP4"},
                       {"kv_cache_quant_algo", "FP8"},
                       {"group_size", 16},
                       {"exclude_modules", {"lm_head"}}}}};
  HfBuilder b = modelopt_model();
  b.weights.tensors.push_back({"model.layers.0.self_attn.k_proj.k_scale", "F32", {}, Bytes(4)});
  b.config.erase("quantization_config");
  const auto source = opened(b, said);
  ASSERT_TRUE(source) << source.error().message;
  const TensorView& down = (*source)->tensors.at("blk.0.ffn_down.weight");
  EXPECT_EQ(down.type, DataType::kNVFP4);
  EXPECT_EQ(down.factor, 0.0625F);
  // Only the cache; and what is no description at all.
  HfBuilder plain = tiny_hf({.vocabulary = 8, .layers = 1});
  json cache = said;
  cache["quantization"]["quant_algo"] = nullptr;
  EXPECT_TRUE(opened(plain, cache));
  cache["quantization"]["kv_cache_quant_algo"] = nullptr;
  expect_error(opened(plain, cache), "hf_quant_config.json: quantization.quant_algo: missing",
               "valid: NVFP4, ");
  expect_error(opened(plain, json::object()), "hf_quant_config.json: quantization: missing",
               "valid: an object");
  EXPECT_TRUE(opened(int8_model(), json::object()));
  json mixed = said;
  mixed["quantization"]["quant_algo"] = "MIXED_PRECISION";
  mixed["quantization"]["quantized_layers"] = {{"lm_head", {{"quant_algo", "INT4"}}}};
  expect_error(opened(b, mixed),
               "hf_quant_config.json: quantization.quantized_layers.'lm_head'.quant_algo: 'INT4'",
               "valid: NVFP4, ");
}

TEST(Nvfp4, IsRefusedByName) {
  struct Row {
    HfBuilder (*make)();
    std::function<void(HfBuilder&)> change;
    const char* message;
  };
  const Row rows[] = {
      {nvfp4_model, [](HfBuilder& b) { erase_part(b, ".weight_scale"); },
       ".weight_packed': without 'model.layers.0.mlp.down_proj.weight_scale'"},
      {nvfp4_model, [](HfBuilder& b) { erase_part(b, ".weight_global_scale"); },
       ".weight_packed': without 'model.layers.0.mlp.down_proj.weight_global_scale'"},
      {nvfp4_model,
       [](HfBuilder& b) {
         replace_part(b, ".weight_scale", "F8_E4M3", {32, 4});
       },
       ".weight_scale': shape [32, 4]; valid: [32, 8]"},
      {nvfp4_model,
       [](HfBuilder& b) {
         replace_part(b, ".weight_global_scale", "F32", {32, 1});
       },
       ".weight_global_scale': shape [32, 1]; valid: [1] or []"},
      {nvfp4_model, [](HfBuilder& b) { replace_part(b, ".weight_global_scale", "BF16", {1}); },
       ".weight_global_scale': dtype 'BF16'; valid: F32"},
      {nvfp4_model,
       [](HfBuilder& b) {
         replace_part(b, ".weight_packed", "U8", {32, 56});
         replace_part(b, ".weight_scale", "F8_E4M3", {32, 7});
       },
       ".weight_packed': 112 columns; valid: a multiple of 64"},
      {nvfp4_model, [](HfBuilder& b) { replace_part(b, ".weight_packed", "U8", {64}); },
       ".weight_packed': shape [64]; valid: 2 sizes of 1 or more"},
      {modelopt_model,
       [](HfBuilder& b) {
         replace_part(b, ".weight", "U8", {0, 64});
       },
       ".weight': shape [0, 64]; valid: 2 sizes of 1 or more"},
      {modelopt_model,
       [](HfBuilder& b) {
         replace_part(b, ".weight", "U8", {32, 32});
         replace_part(b, ".weight_scale", "F8_E4M3", {32, 4});
       },
       ".weight': shape [32, 64]; valid: [32, 128]"},
      {nvfp4_model, [](HfBuilder& b) { set_float(b, ".weight_global_scale", 0.0F); },
       ".weight_global_scale': 0; valid: a finite number above 0, of which the inverse"},
      {nvfp4_model, [](HfBuilder& b) { set_float(b, ".weight_global_scale", 1e-39F); },
       ".weight_global_scale': 1e-39; valid: a finite number above 0, of which the inverse"},
      {nvfp4_model, [](HfBuilder& b) { set_float(b, ".weight_global_scale", NAN); },
       ".weight_global_scale': nan; valid: a finite number above 0"},
      {nvfp4_model, [](HfBuilder& b) { set_float(b, ".weight_global_scale", INFINITY); },
       ".weight_global_scale': inf; valid: a finite number above 0"},
      {modelopt_model, [](HfBuilder& b) { set_float(b, ".weight_scale_2", -1.0F); },
       ".weight_scale_2': -1; valid: a finite number above 0"},
      {modelopt_model, [](HfBuilder& b) { erase_part(b, ".weight_scale_2"); },
       ".weight': without 'model.layers.0.mlp.down_proj.weight_scale_2'"},
      {modelopt_model,
       [](HfBuilder& b) {
         replace_part(b, ".weight_scale", "U8", {32, 8});
       },
       ".weight_scale': dtype 'U8'; valid: F8_E4M3"},
      {modelopt_model, [](HfBuilder& b) { set_float(b, ".weight_scale_2", INFINITY); },
       ".weight_scale_2': inf; valid: a finite number above 0"},
      {modelopt_model, [](HfBuilder& b) { add_part(b, ".pre_quant_scale", "BF16", {128}); },
       ".pre_quant_scale': not a part of the model"},
      {modelopt_fp8_model, [](HfBuilder& b) { erase_part(b, ".weight_scale"); },
       ".weight': without 'model.layers.0.mlp.down_proj.weight_scale'"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.message);
    HfBuilder b = row.make();
    row.change(b);
    test::TempFolder folder{test::kInMemory};
    b.write(folder);
    expect_error(open_model(folder.path()),
                 "model.safetensors: tensor 'model.layers.0.mlp.down_proj", row.message);
  }
}

TEST(ModelOpt, IsRefusedByName) {
  struct Row {
    json quantization;
    const char* message;
  };
  const Row rows[] = {
      {{{"quant_method", "modelopt"}, {"quant_algo", "FP8_PB_WO"}},
       ".quant_algo: 'FP8_PB_WO'; valid: NVFP4, W4A16_NVFP4, FP8, FP8_PER_CHANNEL_PER_TOKEN, "},
      {{{"quant_method", "modelopt"}}, ".quant_algo: missing; valid: NVFP4, "},
      {{{"quant_method", "modelopt"}, {"quant_algo", "MIXED_PRECISION"}},
       ".quantized_layers: missing; valid: an object of modules"},
      {{{"quant_method", "modelopt"},
        {"quant_algo", "MIXED_PRECISION"},
        {"quantized_layers", {{"lm_head", {{"quant_algo", "MXFP8"}}}}}},
       ".quantized_layers.'lm_head'.quant_algo: 'MXFP8'; valid: NVFP4, "},
      {{{"quant_method", "modelopt"},
        {"quant_algo", "MIXED_PRECISION"},
        {"quantized_layers", {{"lm_head", 3}}}},
       ".quantized_layers.'lm_head': 3; valid: an object"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.message);
    HfBuilder b = modelopt_model();
    b.config["quantization_config"] = row.quantization;
    test::TempFolder folder{test::kInMemory};
    b.write(folder);
    expect_error(open_model(folder.path()), "config.json: quantization_config", row.message);
  }
}

}  // namespace
}  // namespace dovetail::families
