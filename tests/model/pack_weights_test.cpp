#include "model/cpu/pack_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <mutex>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "load/mapped_file.h"
#include "support/sanitized.h"
#include "support/temp_folder.h"

namespace dovetail::model {
namespace {

constexpr std::size_t kWeightRows = 2048, kWeightColumns = 1024;
constexpr auto kWeightType = kernels::DataType::kQ8_0;
constexpr std::size_t kWeightLayers = 3;  // with seven matrices each

// Memory of this process that is in RAM, in bytes: mapped files and its own.
std::size_t resident_bytes() {
  std::ifstream status("/proc/self/status");
  std::size_t sum = 0;
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssAnon:") || line.starts_with("RssFile:"))
      sum += std::stoul(line.substr(8)) << 10;
  }
  return sum;
}

std::size_t matrix_bytes() { return kWeightRows * kernels::row_bytes(kWeightType, kWeightColumns); }

// Weights without a model: matrices one after another in a file.
ModelWeights weights_in(const load::MappedFile& file) {
  ModelWeights weights;
  const std::byte* at = file.bytes().data();
  const auto next = [&] {
    const Matrix matrix = {kWeightType, kWeightRows, kWeightColumns, at, false};
    at += matrix_bytes();
    return matrix;
  };
  for (std::size_t i = 0; i < kWeightLayers * 7; ++i) weights.matrices[std::to_string(i)] = next();
  return weights;
}

std::string file_of_weights(std::size_t bytes) {
  std::string data(bytes, '\0');
  std::uint32_t state = 1;
  for (char& byte : data) byte = static_cast<char>((state = state * 1664525U + 1013904223U) >> 24U);
  return data;
}

class PackWeights : public testing::TestWithParam<std::uint32_t> {};

INSTANTIATE_TEST_SUITE_P(Threads, PackWeights, testing::Values(1U, 3U));

// While weights move from the file's pages into panels, one or the other is in memory, and at most
// one matrix per thread is both.
TEST_P(PackWeights, NeedsTheMemoryOfTheWeightsAndOneMatrixPerThread) {
  if (test::kSanitized) GTEST_SKIP() << "sanitizers have memory of their own";
  const test::TempFolder folder;
  const std::size_t all = kWeightLayers * 7 * matrix_bytes();
  const auto path = folder.write("weights", file_of_weights(all));
  const auto file = *load::MappedFile::open(path);
  ModelWeights weights = weights_in(*file);
  const std::size_t before = resident_bytes();
  std::size_t most = 0, last = 0;
  PackOptions options;
  options.threads = GetParam();
  options.progress = [&](std::size_t done, std::size_t of) {
    EXPECT_GT(done, last);
    EXPECT_LE(done, of);
    last = done;
    most = std::max(most, resident_bytes());
  };
  const auto& kernels = kernels::best_kernels();
  ASSERT_TRUE(pack_weights(weights, kernels, options));
  const std::size_t packed = kWeightLayers * 7 * (kWeightRows / kernels::kPanelRows) *
                             kernels.panel_bytes(kWeightType, kWeightColumns);
  EXPECT_EQ(last, packed);
  // Panels take no more than the file, but for rounding; pages come in large pieces.
  EXPECT_LE(packed, all + all / 16);
  constexpr std::size_t kSlack = std::size_t{6} << 20;
  EXPECT_LE(most - before, packed + options.threads * matrix_bytes() + kSlack);
  EXPECT_LE(resident_bytes() - before, packed + kSlack);
  for (const auto& [name, matrix] : weights.matrices) EXPECT_TRUE(matrix.packed) << name;
}

// The file's own bytes remain what they were, for what still reads them.
TEST_P(PackWeights, LeavesTheFileAsItIs) {
  const test::TempFolder folder;
  const std::string data = file_of_weights(kWeightLayers * 7 * matrix_bytes());
  const auto file = *load::MappedFile::open(folder.write("weights", data));
  ModelWeights weights = weights_in(*file);
  PackOptions options;
  options.threads = GetParam();
  ASSERT_TRUE(pack_weights(weights, kernels::best_kernels(), options));
  EXPECT_EQ(std::memcmp(file->bytes().data(), data.data(), data.size()), 0);
}

}  // namespace
}  // namespace dovetail::model
