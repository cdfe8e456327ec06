// Quantised safetensors: the weights that tools/golden/make_quantised.py made.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "families/names.h"
#include "families/open_model.h"
#include "families/registry.h"
#include "kernels/kernels.h"
#include "load/model_source.h"
#include "load/stored_parts.h"
#include "support/places.h"

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

}  // namespace
}  // namespace dovetail::families
