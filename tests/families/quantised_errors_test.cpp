// What is refused of quantised safetensors: parts that do not fit, and what a configuration asks
// for.

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "families/open_model.h"
#include "load/expect_error.h"
#include "load/quantised_builder.h"
#include "support/temp_folder.h"

namespace dovetail::families {
namespace {

using namespace load;

using nlohmann::json;

struct BadParts {
  std::string name;
  std::function<HfBuilder()> make;
  std::function<void(HfBuilder&)> change;
  std::string message;
};

class QuantisedParts : public testing::TestWithParam<BadParts> {};

TEST_P(QuantisedParts, AreRefusedByName) {
  HfBuilder builder = GetParam().make();
  GetParam().change(builder);
  test::TempFolder folder{test::kInMemory};
  builder.write(folder);
  expect_error(open_model(folder.path()), "model.safetensors: tensor 'model.layers.0.mlp.down_proj",
               GetParam().message);
}

const BadParts kBadParts[] = {
    {"AwqWithoutScales", awq_model, [](HfBuilder& b) { erase_part(b, ".scales"); },
     ".qweight': without 'model.layers.0.mlp.down_proj.scales'; valid: a weight with its scales"},
    {"AwqWithoutZeros", awq_model, [](HfBuilder& b) { erase_part(b, ".qzeros"); },
     ".qweight': without 'model.layers.0.mlp.down_proj.qzeros'"},
    {"AwqType", awq_model,
     [](HfBuilder& b) {
       replace_part(b, ".qweight", "F32", {128, 4});
     },
     ".qweight': dtype 'F32'; valid: I32"},
    {"AwqRank", awq_model, [](HfBuilder& b) { replace_part(b, ".qweight", "I32", {512}); },
     ".qweight': shape [512]; valid: 2 sizes of 1 or more"},
    {"AwqEmpty", awq_model,
     [](HfBuilder& b) {
       replace_part(b, ".qweight", "I32", {0, 4});
     },
     ".qweight': shape [0, 4]; valid: 2 sizes of 1 or more"},
    {"AwqScales", awq_model,
     [](HfBuilder& b) {
       replace_part(b, ".scales", "F16", {32, 2});
     },
     ".scales': shape [32, 2]; valid: [2, 32]"},
    {"AwqScaleType", awq_model,
     [](HfBuilder& b) {
       replace_part(b, ".scales", "I32", {2, 32});
     },
     ".scales': dtype 'I32'; valid: F32, F16, BF16"},
    {"AwqZeros", awq_model,
     [](HfBuilder& b) {
       replace_part(b, ".qzeros", "I32", {2, 5});
     },
     ".qzeros': shape [2, 5]; valid: [2, 4]"},
    {"AwqGroup", awq_model,
     [](HfBuilder& b) { b.config["quantization_config"]["group_size"] = 96; },
     ".qweight': 128 columns; valid: a multiple of the group_size 96"},
    {"AwqOfAnotherShape", awq_model,
     [](HfBuilder& b) {
       replace_part(b, ".qweight", "I32", {128, 8});
       replace_part(b, ".qzeros", "I32", {2, 8});
       replace_part(b, ".scales", "F16", {2, 64});
     },
     ".qweight': shape [64, 128]; valid: [32, 128]"},
    {"GptqOrder", gptq_model,
     [](HfBuilder& b) {
       set_integers(b, ".g_idx", {0, 0, 1});
     },
     ".g_idx': column 2 in group 1; valid: 0 to 0"},
    {"GptqOrderUnset", gptq_model, [](HfBuilder& b) { set_integers(b, ".g_idx", {-1}); },
     ".g_idx': column 0 in group -1; valid: 0 to 0"},
    {"GptqOrderUneven", gptq_model,
     [](HfBuilder& b) {
       b.config["quantization_config"]["group_size"] = 64;
       replace_part(b, ".qzeros", "I32", {2, 4});
       replace_part(b, ".scales", "F16", {2, 32});
     },
     ".g_idx': 128 columns in group 0; valid: 64"},
    {"GptqOrderShape", gptq_model, [](HfBuilder& b) { replace_part(b, ".g_idx", "I32", {127}); },
     ".g_idx': shape [127]; valid: [128]"},
    {"GptqRows", gptq_model,
     [](HfBuilder& b) {
       replace_part(b, ".qweight", "I32", {16, 31});
       replace_part(b, ".scales", "F16", {1, 31});
     },
     ".qweight': 31 rows; valid: a multiple of 8"},
    {"GptqZerosOfBytes", gptq_model,
     [](HfBuilder& b) {
       b.config["quantization_config"]["bits"] = 8;
       replace_part(b, ".qweight", "I32", {32, 32});
       replace_part(b, ".qzeros", "I32", {1, 8});
       set_integers(b, ".qzeros", {0x7f7f7f7f, 0x7f7e7f7f});
     },
     ".qzeros': a zero point of 126; valid: 127: symmetric weights of 8 bits"},
    {"GptqZerosOfBytesShape", gptq_model,
     [](HfBuilder& b) {
       b.config["quantization_config"]["bits"] = 8;
       replace_part(b, ".qweight", "I32", {32, 32});
     },
     ".qzeros': shape [1, 4]; valid: [1, 8]"},
    {"PackedWithoutShape", packed_model, [](HfBuilder& b) { erase_part(b, ".weight_shape"); },
     ".weight_packed': without 'model.layers.0.mlp.down_proj.weight_shape'"},
    {"PackedOfThreeBits", packed_model,
     [](HfBuilder& b) {
       replace_part(b, ".weight_packed", "I32", {32, 12});
     },
     ".weight_shape': [32, 128]; valid: [32, 96] for 4 bits or [32, 48] for 8, by the shape of"},
    {"PackedShapeNegative", packed_model,
     [](HfBuilder& b) {
       set_integers(b, ".weight_shape", {32, -128});
     },
     ".weight_shape': [32, -128]; valid: [32, 128]"},
    {"PackedGroups", packed_model,
     [](HfBuilder& b) {
       replace_part(b, ".weight_scale", "BF16", {32, 3});
     },
     ".weight_scale': shape [32, 3]; valid: [32, columns / size of a group], [32, 1] or [1] for a "
     "weight of [32, 128]"},
    {"PackedGroupsOfSixteen", packed_model,
     [](HfBuilder& b) {
       replace_part(b, ".weight_scale", "BF16", {32, 8});
     },
     ".weight_packed': groups of 16 columns; valid: a multiple of 32"},
    {"PackedZeros", packed_model,
     [](HfBuilder& b) {
       add_part(b, ".weight_zero_point", "I32", {4, 3});
     },
     ".weight_zero_point': shape [4, 3]; valid: [4, 4]"},
    {"PackedOrder", packed_model, [](HfBuilder& b) { add_part(b, ".weight_g_idx", "I32", {128}); },
     ".weight_g_idx': 128 columns in group 0; valid: 32"},
    {"Int8Zeros", int8_model,
     [](HfBuilder& b) {
       add_part(b, ".weight_zero_point", "I8", {32, 1});
       b.weights.tensors.back().data[3] = std::byte{1};
     },
     ".weight_zero_point': zero points other than 0; valid: symmetric weights of 8 bits"},
    {"Int8WithoutScale", int8_model, [](HfBuilder& b) { erase_part(b, ".weight_scale"); },
     ".weight': without 'model.layers.0.mlp.down_proj.weight_scale'"},
    {"Int8Columns", int8_model,
     [](HfBuilder& b) {
       replace_part(b, ".weight", "I8", {32, 120});
     },
     ".weight': 120 columns; valid: a multiple of 32"},
    {"Fp8Scales", [] { return fp8_model(256); },
     [](HfBuilder& b) {
       replace_part(b, ".weight_scale_inv", "F32", {2, 2});
     },
     ".weight_scale_inv': shape [2, 2]; valid: [1, 2], "},
    {"Fp8Columns", [] { return fp8_model(192); }, [](HfBuilder&) {},
     ".weight': 192 columns; valid: a multiple of 128"},
    {"Fp8OfAnotherKind", [] { return fp8_model(); },
     [](HfBuilder& b) {
       replace_part(b, ".weight", "F8_E5M2", {32, 128});
     },
     ".weight': type 'F8_E5M2'; valid: F32, F16 or BF16"},
    {"Fp8WithoutScales", [] { return fp8_model(); },
     [](HfBuilder& b) { erase_part(b, ".weight_scale_inv"); },
     ".weight': without 'model.layers.0.mlp.down_proj.weight_scale_inv' or "
     "'model.layers.0.mlp.down_proj.weight_scale' or 'model.layers.0.mlp.down_proj.scale'; "
     "valid: "},
    {"Fp8ScalesOfWholeNumbers", [] { return fp8_model_of_exponents(); },
     [](HfBuilder& b) {
       replace_part(b, ".scale", "I8", {1, 1});
     },
     ".scale': dtype 'I8'; valid: F32, F16, BF16, F8_E8M0, U8"},
    {"Fp8Exponents", [] { return fp8_model_of_exponents(256); },
     [](HfBuilder& b) {
       replace_part(b, ".scale", "F8_E8M0", {2, 2});
     },
     ".scale': shape [2, 2]; valid: [1, 2], "},
    {"Fp8ExponentsOfThirtyTwo", [] { return fp8_model_of_exponents(); },
     [](HfBuilder& b) {
       replace_part(b, ".scale", "F8_E8M0", {32, 4});
     },
     ".weight': groups of 32 columns; valid: a multiple of 128"},
    {"Fp8ExponentsTwice", [] { return fp8_model_of_exponents(); },
     [](HfBuilder& b) {
       add_part(b, ".weight_scale_inv", "F32", {1, 1});
     },
     ".scale': not a part of the model"},
    {"Fp4Scales", fp4_model,
     [](HfBuilder& b) {
       replace_part(b, ".scale", "F8_E8M0", {32, 2});
     },
     ".scale': shape [32, 2]; valid: [32, 4]"},
    {"Fp4ScalesOfBlocks", fp4_model,
     [](HfBuilder& b) {
       replace_part(b, ".scale", "F8_E8M0", {1, 1});
     },
     ".scale': shape [1, 1]; valid: [32, 4]"},
    {"Fp4ScaleType", fp4_model,
     [](HfBuilder& b) {
       replace_part(b, ".scale", "F32", {32, 4});
     },
     ".scale': dtype 'F32'; valid: U8, F8_E8M0"},
    {"Fp4WithoutScales", fp4_model, [](HfBuilder& b) { erase_part(b, ".scale"); },
     ".weight': without 'model.layers.0.mlp.down_proj.weight_scale_inv' or "},
    {"Fp4Columns", fp4_model,
     [](HfBuilder& b) {
       replace_part(b, ".weight", "I8", {32, 60});
     },
     ".weight': 120 columns; valid: a multiple of 32"},
    {"Fp4Rank", fp4_model, [](HfBuilder& b) { replace_part(b, ".weight", "I8", {2048}); },
     ".weight': shape [2048]; valid: 2 sizes of 1 or more"},
    {"Fp4Empty", fp4_model,
     [](HfBuilder& b) {
       replace_part(b, ".weight", "I8", {0, 64});
     },
     ".weight': shape [0, 64]; valid: 2 sizes of 1 or more"},
    {"Fp4OfAnotherShape", fp4_model,
     [](HfBuilder& b) {
       replace_part(b, ".weight", "I8", {32, 32});
       replace_part(b, ".scale", "F8_E8M0", {32, 2});
     },
     ".weight': shape [32, 64]; valid: [32, 128]"},
    {"Mxfp4Blocks", mxfp4_model,
     [](HfBuilder& b) {
       replace_part(b, ".weight_blocks", "U8", {32, 4, 8});
     },
     ".weight_blocks': shape [32, 4, 8]; valid: [..., rows, blocks, 16]"},
    {"Mxfp4Scales", mxfp4_model,
     [](HfBuilder& b) {
       replace_part(b, ".weight_scales", "U8", {32, 3});
     },
     ".weight_scales': shape [32, 3]; valid: [32, 4]"},
};

INSTANTIATE_TEST_SUITE_P(Bad, QuantisedParts, testing::ValuesIn(kBadParts),
                         [](const auto& run) { return run.param.name; });

// Experts of a layer that are one tensor.
TEST(QuantisedExperts, AreRefusedByName) {
  struct Row {
    const char* ending;
    const char* dtype;  // none: the tensor is not there
    std::vector<std::uint64_t> shape;
    const char* message;
  };
  const Row rows[] = {
      {"_scale_inv", nullptr, {}, "without 'model.layers.0.mlp.experts.down_proj_scale_inv'"},
      {"_scale_inv", "I8", {3, 1, 1}, "_scale_inv': dtype 'I8'; valid: F32, F16, BF16"},
      {"_scale_inv",
       "BF16",
       {2, 1, 1},
       "_scale_inv': shape [2, 1, 1]; valid: [3, 1, 1], [3, 128, columns / size of a group], "
       "[3, 128, 1] or [1] for a weight of [128, 128]"},
      {"_scale_inv", "BF16", {3}, "_scale_inv': shape [3]; valid: [3, 1, 1], "},
      {"_scale_inv", "BF16", {3, 2, 1}, "_scale_inv': shape [3, 2, 1]; valid: [3, 1, 1], "},
      {"_scale_inv", "BF16", {3, 128, 2}, "down_proj': groups of 64 columns; valid: a multiple"},
      {"", "F8_E4M3", {384, 128}, "down_proj': shape [384, 128]; valid: 3 sizes of 1 or more"},
      {"", "F8_E4M3", {3, 0, 128}, "down_proj': shape [3, 0, 128]; valid: 3 sizes of 1 or more"},
      {"", "F8_E5M2", {3, 128, 128}, "down_proj': type 'F8_E5M2'; valid: F32, F16 or BF16"},
  };
  const std::string name = "model.layers.0.mlp.experts.down_proj";
  for (const Row& row : rows) {
    SCOPED_TRACE(row.message);
    HfBuilder b = fp8_expert_model();
    b.weights.erase(name + row.ending);
    if (row.dtype != nullptr) {
      std::size_t bytes = row.dtype[0] == 'B' ? 2 : 1;
      for (const std::uint64_t size : row.shape) bytes *= size;
      b.weights.tensors.push_back({name + row.ending, row.dtype, row.shape, Bytes(bytes)});
    }
    test::TempFolder folder{test::kInMemory};
    b.write(folder);
    expect_error(open_model(folder.path()), "model.safetensors: tensor '" + name, row.message);
  }
  HfBuilder b = fp8_expert_model();
  b.config["quantization_config"]["weight_block_size"] = {96, 128};
  b.weights.erase(name + "_scale_inv");
  b.weights.tensors.push_back({name + "_scale_inv", "BF16", {3, 2, 1}, Bytes(12)});
  test::TempFolder folder{test::kInMemory};
  b.write(folder);
  expect_error(open_model(folder.path()), "down_proj_scale_inv': blocks of 96 rows for matrices of",
               " 128; valid: blocks that end where a matrix does");
}

struct BadQuantization {
  std::string name;
  std::function<void(json&)> change;  // of quantization_config
  std::string message;
};

class QuantisedConfig : public testing::TestWithParam<BadQuantization> {};

TEST_P(QuantisedConfig, IsRefusedByName) {
  HfBuilder builder = packed_model();
  GetParam().change(builder.config["quantization_config"]);
  test::TempFolder folder{test::kInMemory};
  builder.write(folder);
  expect_error(open_model(folder.path()), "config.json: quantization_config", GetParam().message);
}

const BadQuantization kBadQuantizations[] = {
    {"NotAnObject", [](json& q) { q = "awq"; }, ": 'awq'; valid: an object or null"},
    {"Method", [](json& q) { q["quant_method"] = "bitsandbytes"; },
     ".quant_method: 'bitsandbytes'; valid: fp8, compressed-tensors, awq, gptq, mxfp4, modelopt"},
    {"NoMethod", [](json& q) { q.erase("quant_method"); }, ".quant_method: missing"},
    {"Format", [](json& q) { q["format"] = "marlin-24"; },
     ".format: 'marlin-24'; valid: pack-quantized, int-quantized, "},
    {"Sparse",
     [](json& q) {
       q["sparsity_config"] = {{"format", "sparse-24-bitmask"}};
     },
     ".sparsity_config: given; valid: none"},
    {"NoGroups", [](json& q) { q.erase("config_groups"); }, ".config_groups: missing"},
    {"NoWeights", [](json& q) { q["config_groups"]["group_0"].erase("weights"); },
     ".config_groups.'group_0': no weights"},
    {"Bits", [](json& q) { q["config_groups"]["group_0"]["weights"]["num_bits"] = 3; },
     ".config_groups.'group_0'.weights.num_bits: 3; valid: 4 or 8 of type int"},
    {"Strategy", [](json& q) { q["config_groups"]["group_0"]["weights"]["strategy"] = "token"; },
     ".weights.strategy: 'token'; valid: tensor, channel, group, tensor_group, block"},
    {"AwqBits",
     [](json& q) {
       q = {{"quant_method", "awq"}, {"bits", 3}, {"group_size", 128}};
     },
     ".bits: 3; valid: 4"},
    {"AwqVersion",
     [](json& q) {
       q = {{"quant_method", "awq"}, {"bits", 4}, {"group_size", 128}, {"version", "gemv"}};
     },
     ".version: 'gemv'; valid: 'gemm'"},
    {"GptqBits",
     [](json& q) {
       q = {{"quant_method", "gptq"}, {"bits", 3}, {"group_size", 128}};
     },
     ".bits: 3; valid: 4, 8"},
    {"GptqGroup",
     [](json& q) {
       q = {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 24}};
     },
     ".group_size: 24; valid: a multiple of 32, or -1"},
    {"GptqFormat",
     [](json& q) {
       q = {{"quant_method", "gptq"},
            {"bits", 4},
            {"group_size", 128},
            {"checkpoint_format", "marlin"}};
     },
     ".checkpoint_format: 'marlin'; valid: gptq, gptq_v2"},
    {"Fp8Block",
     [](json& q) {
       q = {{"quant_method", "fp8"}, {"weight_block_size", {64, 64}}};
     },
     ".weight_block_size: [64, 64]; valid: a multiple of 128 columns"},
    {"Fp8BlockOfNothing",
     [](json& q) {
       q = {{"quant_method", "fp8"}, {"weight_block_size", {0, 128}}};
     },
     ".weight_block_size: an array of 2; valid: a list of two sizes"},
    {"Fp8Format",
     [](json& q) {
       q = {{"quant_method", "fp8"}, {"fmt", "e5m2"}};
     },
     ".fmt: 'e5m2'; valid: 'e4m3'"},
};

INSTANTIATE_TEST_SUITE_P(Bad, QuantisedConfig, testing::ValuesIn(kBadQuantizations),
                         [](const auto& run) { return run.param.name; });

}  // namespace
}  // namespace dovetail::families
