#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "kernels/fixture.h"
#include "kernels/reference.h"
#include "support/places.h"

namespace dovetail::kernels {
namespace {

class Golden : public EachKernels {};

reference::Bytes from_hex(const std::string& hex) {
  reference::Bytes bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

// Blocks that tools/golden/make_quants.py let the gguf package read.
TEST_P(Golden, BlocksAreReadAsTheGgufPackageReadsThem) {
  std::ifstream file(test::source_dir() + "/tests/kernels/golden/quants.json");
  ASSERT_TRUE(file.is_open());
  const auto golden = nlohmann::json::parse(file);
  for (const DataType type : kAllTypes) {
    if (type == DataType::kF32) continue;
    const std::string name(info(type).name);
    SCOPED_TRACE(name);
    ASSERT_TRUE(golden.contains(name));
    const auto blocks = from_hex(golden[name]["blocks"]);
    const auto floats = from_hex(golden[name]["floats"]);
    const std::size_t k = floats.size() / 4;
    ASSERT_EQ(row_bytes(type, k), blocks.size());
    std::vector<float> expected(k);
    std::memcpy(expected.data(), floats.data(), floats.size());
    std::vector<float> out(k, NAN);
    kernels().dequantize_row(type, blocks.data(), k, out.data());
    for (std::size_t i = 0; i < k; ++i) ASSERT_EQ(out[i], expected[i]) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Golden,
                         ::testing::ValuesIn(available_kernels().begin(),
                                             available_kernels().end()),
                         kernels_name);

}  // namespace
}  // namespace dovetail::kernels
