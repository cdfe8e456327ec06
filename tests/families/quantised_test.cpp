// Quantised safetensors: the weights that tools/golden/make_quantised.py made, and what is refused.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "families/names.h"
#include "families/open_model.h"
#include "families/registry.h"
#include "kernels/kernels.h"
#include "load/expect_error.h"
#include "load/model_source.h"
#include "load/quantised_builder.h"
#include "load/stored_parts.h"
#include "support/places.h"
#include "support/temp_folder.h"

namespace dovetail::families {
namespace {

using namespace load;

using kernels::DataType;
using nlohmann::json;

const std::filesystem::path kQuantised =
    std::filesystem::path(test::source_dir()) / "tests/golden/quantised";

const std::map<std::string, DataType> kTypeOf = {{"pack-int4-32", DataType::kINT4_32},
                                                 {"pack-int4-128-zeros", DataType::kINT4_128},
                                                 {"pack-int8-64", DataType::kINT8},
                                                 {"int8", DataType::kINT8},
                                                 {"float8", DataType::kFP8_E4M3},
                                                 {"pack-mxfp4", DataType::kMXFP4},
                                                 {"awq-64", DataType::kINT4_32},
                                                 {"awq-128", DataType::kINT4_128},
                                                 {"gptq-128", DataType::kINT4_128},
                                                 {"gptq-v2-rows", DataType::kINT4_128},
                                                 {"gptq-32-ordered", DataType::kINT4_32},
                                                 {"gptq-int8-64-ordered", DataType::kINT8},
                                                 {"gptq-int8-rows", DataType::kINT8},
                                                 {"pack-int4-64-ordered", DataType::kINT4_32},
                                                 {"pack-int8-32-ordered", DataType::kINT8},
                                                 {"fp8", DataType::kFP8_E4M3},
                                                 {"fp8-static", DataType::kFP8_E4M3},
                                                 {"fp8-static-experts", DataType::kFP8_E4M3},
                                                 {"fp8-block-experts", DataType::kFP8_E4M3},
                                                 {"pack-nvfp4", DataType::kNVFP4},
                                                 {"modelopt-nvfp4-experts", DataType::kNVFP4},
                                                 {"modelopt-fp8", DataType::kFP8_E4M3}};

std::vector<std::string> quantised_cases() {
  std::vector<std::string> names;
  for (const auto& [name, type] : kTypeOf) names.push_back(name);
  return names;
}

std::vector<float> floats_from_hex(const std::string& hex) {
  std::vector<float> floats(hex.size() / 8);
  auto* bytes = reinterpret_cast<unsigned char*>(floats.data());
  for (std::size_t i = 0; i < hex.size() / 2; ++i) {
    bytes[i] = static_cast<unsigned char>(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
  }
  return floats;
}

class Quantised : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    auto opened = open_model(kQuantised / GetParam());
    ASSERT_TRUE(opened.has_value()) << opened.error().message;
    source_ = *std::move(opened);
    std::ifstream(kQuantised / GetParam() / "golden.json") >> golden_;
  }

  // By the name that it would have in a folder that is not quantised.
  const TensorView& tensor(const std::string& name) const {
    const auto families = all_families();
    const auto family = std::find_if(families.begin(), families.end(), [&](const Family& one) {
      return one.name == source_->config.family;
    });
    const auto own = rename(name, family->reader.hf_names);
    return source_->tensors.at(own ? *own : rename(name, kCommonHfNames).value());
  }

  // One that is quantised: the gate's, of an expert where there are some.
  const TensorView& gate() const {
    const bool experts = source_->config.layers.front().experts() != nullptr;
    return source_->tensors.at(experts ? "blk.0.ffn_gate.1.weight" : "blk.0.ffn_gate.weight");
  }

  std::shared_ptr<const ModelSource> source_;
  json golden_;
};

TEST_P(Quantised, RowsAreReadAsTheFormatSays) {
  // Of experts three are looked at, of three matrices each.
  const bool experts = source_->config.layers.front().experts() != nullptr;
  ASSERT_EQ(golden_["rows"].size(), experts ? 8U + 3 * 3 : 7U);
  for (const auto& [name, rows] : golden_["rows"].items()) {
    SCOPED_TRACE(name);
    const TensorView& tensor = this->tensor(name);
    ASSERT_EQ(tensor.type, kTypeOf.at(GetParam()));
    ASSERT_NE(tensor.parts, nullptr);
    ASSERT_TRUE(tensor.data.empty());
    EXPECT_EQ(tensor.factor,
              golden_.contains("factors") ? golden_["factors"][name].get<float>() : 1);
    std::vector<std::byte> bytes(tensor.bytes());
    write_rows(*tensor.parts, 0, tensor.rows, bytes.data());
    const std::size_t row_bytes = kernels::row_bytes(tensor.type, tensor.columns);
    for (const auto& [number, hex] : rows.items()) {
      const std::vector<float> expected = floats_from_hex(hex);
      ASSERT_EQ(expected.size(), tensor.columns);
      std::vector<float> got(tensor.columns, NAN);
      kernels::best_kernels().dequantize_row(
          tensor.type, bytes.data() + std::stoul(number) * row_bytes, tensor.columns, got.data());
      // Columns as the file has them.
      if (tensor.parts->order) {
        const std::vector<float> ordered = got;
        for (std::size_t c = 0; c < got.size(); ++c) got[tensor.parts->order->at(c)] = ordered[c];
      }
      EXPECT_EQ(got, expected) << "row " << number;
    }
  }
}

// Rows are the same wherever the piece begins and ends.
TEST_P(Quantised, RowsCanBeWrittenInPieces) {
  const TensorView& tensor = gate();
  std::vector<std::byte> whole(tensor.bytes());
  write_rows(*tensor.parts, 0, tensor.rows, whole.data());
  const std::size_t row_bytes = kernels::row_bytes(tensor.type, tensor.columns);
  std::vector<std::byte> pieces(tensor.bytes());
  std::size_t row = 0;
  for (std::size_t some = 1; row < tensor.rows; row += some, some = some * 3 % 41 + 1) {
    some = std::min(some, tensor.rows - row);
    write_rows(*tensor.parts, row, some, pieces.data() + row * row_bytes);
  }
  EXPECT_EQ(pieces, whole);
}

// Every other row from the third on is a weight of its own, as gates and ups that are stored in
// turn.
TEST_P(Quantised, RowsCanBeRowsOfALargerTensor) {
  const TensorView& tensor = gate();
  std::vector<std::byte> whole(tensor.bytes());
  write_rows(*tensor.parts, 0, tensor.rows, whole.data());
  const std::size_t row_bytes = kernels::row_bytes(tensor.type, tensor.columns);
  for (const std::size_t step : {1, 2}) {
    StoredParts part = *tensor.parts;
    part.first_row += 3;
    part.row_step = step;
    part.rows = (tensor.rows - 3) / step;
    std::vector<std::byte> rows(part.rows * row_bytes);
    write_rows(part, 0, part.rows, rows.data());
    for (std::size_t r = 0; r < part.rows; ++r) {
      EXPECT_TRUE(
          std::equal(rows.begin() + static_cast<std::ptrdiff_t>(r * row_bytes),
                     rows.begin() + static_cast<std::ptrdiff_t>((r + 1) * row_bytes),
                     whole.begin() + static_cast<std::ptrdiff_t>((3 + r * step) * row_bytes)))
          << "row " << r << ", step " << step;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Quantised, testing::ValuesIn(quantised_cases()), [](const auto& run) {
  std::string name = run.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

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
