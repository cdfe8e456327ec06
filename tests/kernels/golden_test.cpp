#include <gtest/gtest.h>

#include <boost/crc.hpp>
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

// As make_quants.py has it.
reference::Bytes random_bytes(std::size_t count) {
  reference::Bytes bytes;
  std::uint64_t state = 0;
  while (bytes.size() < count) {
    std::uint64_t z = state += 0x9E3779B97F4A7C15U;
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    z ^= z >> 31U;
    for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<std::byte>(z >> 8 * i));
  }
  bytes.resize(count);
  return bytes;
}

// So many blocks that every entry of every codebook is met.
TEST_P(Golden, CodebooksAreThoseOfTheGgufPackage) {
  std::ifstream file(test::source_dir() + "/tests/kernels/golden/quants.json");
  ASSERT_TRUE(file.is_open());
  const auto golden = nlohmann::json::parse(file)["codebooks"];
  const auto blocks = golden["blocks"].get<std::size_t>();
  std::size_t met = 0;
  for (const DataType type : kAllTypes) {
    const DataTypeInfo its = info(type);
    const auto expected = golden["crc32"].find(its.name);
    if (expected == golden["crc32"].end()) continue;
    ++met;
    reference::Bytes bytes = random_bytes(blocks * its.bytes_per_block);
    for (std::size_t i = 0; i < blocks; ++i) {
      bytes[i * its.bytes_per_block] = std::byte{0x00};  // the scale: 1
      bytes[i * its.bytes_per_block + 1] = std::byte{0x3C};
    }
    std::vector<float> out(blocks * its.elements_per_block, NAN);
    kernels().dequantize_row(type, bytes.data(), out.size(), out.data());
    for (float& value : out) value += 0.0F;
    boost::crc_32_type crc;
    crc.process_bytes(out.data(), out.size() * sizeof(float));
    EXPECT_EQ(crc.checksum(), expected->get<std::uint32_t>()) << its.name;
  }
  EXPECT_EQ(met, golden["crc32"].size());
}

INSTANTIATE_TEST_SUITE_P(All, Golden,
                         ::testing::ValuesIn(available_kernels().begin(),
                                             available_kernels().end()),
                         kernels_name);

}  // namespace
}  // namespace dovetail::kernels
