// Quantised safetensors: tensors that say something of their own.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
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

TEST(QuantisedTensors, AreTakenAsTheyAreMade) {
  const std::pair<std::function<HfBuilder()>, DataType> models[] = {
      {awq_model, DataType::kINT4_32},
      {gptq_model, DataType::kINT4_128},
      {packed_model, DataType::kINT4_32},
      {int8_model, DataType::kINT8},
      {[] { return fp8_model(); }, DataType::kFP8_E4M3},
      {[] { return fp8_model_of_exponents(); }, DataType::kFP8_E4M3},
      {fp4_model, DataType::kMXFP4},
      {mxfp4_model, DataType::kMXFP4},
      {nvfp4_model, DataType::kNVFP4},
      {modelopt_model, DataType::kNVFP4},
      {modelopt_fp8_model, DataType::kFP8_E4M3},
  };
  for (const auto& [make, type] : models) {
    test::TempFolder folder{test::kInMemory};
    make().write(folder);
    const auto source = open_model(folder.path());
    ASSERT_TRUE(source) << source.error().message;
    EXPECT_EQ((*source)->tensors.at("blk.0.ffn_down.weight").type, type);
    EXPECT_EQ((*source)->tensors.at("blk.0.ffn_up.weight").type, DataType::kF32);
  }
}

// A bias of zeros changes nothing; another does.
TEST(QuantisedTensors, MayHaveABiasOfZeros) {
  for (const bool zeros : {true, false}) {
    HfBuilder b = gptq_model();
    add_part(b, ".bias", "F16", {32});
    if (!zeros) b.weights.tensors.back().data[5] = std::byte{60};
    test::TempFolder folder{test::kInMemory};
    b.write(folder);
    const auto source = open_model(folder.path());
    ASSERT_EQ(source.has_value(), zeros);
    if (!zeros) expect_error(source, "down_proj.bias'", "not a part of the model");
  }
}

// A NaN makes its block NaN, so that it is not taken for a number.
TEST(QuantisedTensors, KeepANaN) {
  HfBuilder b = fp8_model(256);
  auto& codes = b.weights.tensor("model.layers.0.mlp.down_proj.weight");
  codes.data[256 + 130] = std::byte{0xff};
  test::TempFolder folder{test::kInMemory};
  b.write(folder);
  const auto source = open_model(folder.path());
  ASSERT_TRUE(source) << source.error().message;
  const TensorView& tensor = (*source)->tensors.at("blk.0.ffn_down.weight");
  std::vector<std::byte> bytes(tensor.bytes());
  write_rows(*tensor.parts, 0, tensor.rows, bytes.data());
  for (std::size_t row = 0; row < 3; ++row) {
    std::vector<float> out(256);
    kernels::best_kernels().dequantize_row(tensor.type, bytes.data() + row * 2 * 132, 256,
                                           out.data());
    for (std::size_t i = 0; i < 256; ++i) {
      ASSERT_EQ(std::isnan(out[i]), row == 1 && i >= 128) << row << ", " << i;
    }
  }
}

// compressed-tensors' -1: no group was set, and columns are in groups as they come.
TEST(QuantisedTensors, MayHaveGroupsThatWereNotSet) {
  HfBuilder b = packed_model();
  add_part(b, ".weight_g_idx", "I32", {128});
  set_integers(b, ".weight_g_idx", std::vector<std::int64_t>(128, -1));
  test::TempFolder folder{test::kInMemory};
  b.write(folder);
  const auto source = open_model(folder.path());
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_EQ((*source)->tensors.at("blk.0.ffn_down.weight").parts->order, nullptr);
}

// Rows of an embedding are looked up, not multiplied: they stay as they are.
TEST(QuantisedTensors, OfAnEmbeddingKeepTheirOrder) {
  for (const bool ordered : {false, true}) {
    HfBuilder b = tiny_hf({.vocabulary = 8, .hidden = 64, .inner = 64, .layers = 1});
    b.config["quantization_config"] = {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 32}};
    const std::string name = "model.embed_tokens";
    b.weights.erase(name + ".weight");
    const auto add = [&](const char* ending, const char* dtype, std::vector<std::uint64_t> shape,
                         std::size_t bytes) {
      b.weights.tensors.push_back({name + ending, dtype, std::move(shape), Bytes(bytes)});
    };
    add(".qweight", "I32", {8, 8}, 256);
    add(".qzeros", "I32", {2, 1}, 8);
    add(".scales", "F16", {2, 8}, 32);
    add(".g_idx", "I32", {64}, 256);
    for (std::size_t i = 0; i < 64; ++i) {
      const std::size_t group = ordered ? i % 2 : i / 32;
      b.weights.tensors.back().data[4 * i] = static_cast<std::byte>(group);
    }
    test::TempFolder folder{test::kInMemory};
    b.write(folder);
    const auto source = open_model(folder.path());
    ASSERT_EQ(source.has_value(), !ordered) << source.error().message;
    if (ordered) {
      expect_error(source, "model.embed_tokens.qweight'",
                   "columns in an order of their own (desc_act, actorder)");
    }
  }
}

// What the rows are made of, of the model's quantised matrix.
std::vector<std::byte> rows_of_down(const HfBuilder& builder) {
  test::TempFolder folder{test::kInMemory};
  builder.write(folder);
  const auto source = open_model(folder.path());
  if (!source) return {};
  const TensorView& tensor = (*source)->tensors.at("blk.0.ffn_down.weight");
  std::vector<std::byte> bytes(tensor.bytes());
  write_rows(*tensor.parts, 0, tensor.rows, bytes.data());
  return bytes;
}

// Exponents are powers of two, the least of which is no normal number, and 255 is none at all.
TEST(QuantisedTensors, MayHaveScalesOfExponents) {
  for (const char* dtype : {"F8_E8M0", "U8"}) {
    for (const unsigned exponent : {0U, 1U, 120U, 127U, 128U, 254U, 255U}) {
      HfBuilder b = fp8_model_of_exponents(256);
      auto& scales = b.weights.tensor("model.layers.0.mlp.down_proj.scale");
      scales.dtype = dtype;
      scales.data = {std::byte{127}, static_cast<std::byte>(exponent)};
      const std::vector<std::byte> rows = rows_of_down(b);
      ASSERT_EQ(rows.size(), 32U * 2 * 132);
      for (const std::size_t row : {0U, 31U}) {
        float first = 0.0F, second = 0.0F;
        std::memcpy(&first, rows.data() + row * 264, sizeof first);
        std::memcpy(&second, rows.data() + row * 264 + 132, sizeof second);
        EXPECT_EQ(first, 1.0F);
        if (exponent == 255) {
          EXPECT_TRUE(std::isnan(second));
        } else {
          EXPECT_EQ(second, std::ldexp(1.0F, static_cast<int>(exponent) - 127)) << exponent;
        }
      }
    }
  }
}

// Of a byte the low bits are the first of two neighbours; in rows they are half a block apart.
TEST(QuantisedTensors, OfFp4KeepTheirBits) {
  HfBuilder b = fp4_model();
  auto& codes = b.weights.tensor("model.layers.0.mlp.down_proj.weight");
  auto& scales = b.weights.tensor("model.layers.0.mlp.down_proj.scale");
  for (std::size_t i = 0; i < codes.data.size(); ++i)
    codes.data[i] = static_cast<std::byte>(i * 37 + i / 7);
  for (std::size_t i = 0; i < scales.data.size(); ++i)
    scales.data[i] = static_cast<std::byte>(2 * i + 1);  // 255 as well
  const std::vector<std::byte> rows = rows_of_down(b);
  ASSERT_EQ(rows.size(), 32U * 4 * 17);
  const auto code_of = [&](std::size_t element) {
    const auto pair = std::to_integer<unsigned>(codes.data[element / 2]);
    return element % 2 == 0 ? pair & 15U : pair >> 4U;
  };
  for (std::size_t block = 0; block < 32U * 4; ++block) {
    EXPECT_EQ(rows[block * 17], scales.data[block]);
    for (std::size_t i = 0; i < 16; ++i) {
      const unsigned wanted = code_of(block * 32 + i) | code_of(block * 32 + 16 + i) << 4U;
      EXPECT_EQ(std::to_integer<unsigned>(rows[block * 17 + 1 + i]), wanted) << block << ", " << i;
    }
  }
}

// Scales of a cache are no part of the weights: they may be there where the configuration asks for
// such a cache, and nowhere else.
TEST(QuantisedCache, LeavesTheWeightsAsTheyAre) {
  const auto with_scales = [](HfBuilder b) {
    for (const char* name : {"k_scale", "v_scale", "k_proj.output_scale", "v_proj.output_scale",
                             "k_proj.k_scale", "v_proj.v_scale"})
      b.weights.tensors.push_back(
          {fmt::format("model.layers.0.self_attn.{}", name), "BF16", {1}, Bytes(2)});
    return b;
  };
  for (const HfBuilder& plain : {int8_model(), fp8_model()}) {
    HfBuilder b = with_scales(plain);
    b.config["quantization_config"]["kv_cache_scheme"] = {{"num_bits", 8}, {"type", "float"}};
    EXPECT_EQ(rows_of_down(b), rows_of_down(plain));
    EXPECT_FALSE(rows_of_down(b).empty());
    test::TempFolder folder{test::kInMemory};
    with_scales(plain).write(folder);
    expect_error(open_model(folder.path()), "self_attn.k_", "not a part of the model");
  }
}

}  // namespace
}  // namespace dovetail::families
