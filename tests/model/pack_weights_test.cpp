#include "model/cpu/pack_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/kernels.h"
#include "load/mapped_file.h"
#include "load/stored_parts.h"
#include "model/cpu/weight_bytes.h"
#include "support/sanitized.h"
#include "support/temp_folder.h"

namespace dovetail::model {
namespace {

using kernels::DataType;

#define DOVETAIL_TYPE(name) DataType::k##name,
constexpr auto kWeightTypes = std::to_array<DataType>({DOVETAIL_WEIGHT_TYPES(DOVETAIL_TYPE)});
#undef DOVETAIL_TYPE

constexpr std::size_t kWeightRows = 2048, kWeightColumns = 1024;
constexpr std::size_t kWeightMatrices = 21;

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

std::size_t matrix_bytes(DataType type) {
  return kWeightRows * kernels::row_bytes(type, kWeightColumns);
}

// A model of nothing but matrices of one type, one after another in the file.
std::shared_ptr<const load::ModelSource> source_in(const load::MappedFile& file, DataType type) {
  auto source = std::make_shared<load::ModelSource>();
  for (std::size_t i = 0; i < kWeightMatrices; ++i) {
    source->tensors[std::to_string(i)] = {
        type, kWeightRows, kWeightColumns,
        file.bytes().subspan(i * matrix_bytes(type), matrix_bytes(type))};
  }
  return source;
}

std::string file_of_weights(std::size_t bytes) {
  std::string data(bytes, '\0');
  std::uint32_t state = 1;
  for (char& byte : data) byte = static_cast<char>((state = state * 1664525U + 1013904223U) >> 24U);
  return data;
}

using TypeAndThreads = std::tuple<DataType, std::uint32_t>;

class PackWeights : public testing::TestWithParam<TypeAndThreads> {
 protected:
  static DataType type() { return std::get<0>(GetParam()); }
  static std::uint32_t threads() { return std::get<1>(GetParam()); }
};

std::string pack_case_name(const testing::TestParamInfo<TypeAndThreads>& run) {
  return std::string(kernels::info(std::get<0>(run.param)).name) + "_" +
         std::to_string(std::get<1>(run.param));
}

INSTANTIATE_TEST_SUITE_P(Types, PackWeights,
                         testing::Combine(testing::ValuesIn(kWeightTypes), testing::Values(1U)),
                         pack_case_name);
INSTANTIATE_TEST_SUITE_P(Threads, PackWeights,
                         testing::Combine(testing::Values(DataType::kQ8_0, DataType::kIQ1_S),
                                          testing::Values(3U)),
                         pack_case_name);

// While weights move from the file's pages into panels, at most the panels, one matrix per thread
// and what is still to come of the file are in memory; and what is said of them in advance is what
// packing takes.
TEST_P(PackWeights, NeedsTheMemoryThatIsSaidAndOneMatrixPerThread) {
  if (test::kSanitized) GTEST_SKIP() << "sanitizers have memory of their own";
  const test::TempFolder folder;
  const std::size_t rows = kWeightMatrices * matrix_bytes(type());
  const auto path = folder.write("weights", file_of_weights(rows));
  const auto file = *load::MappedFile::open(path);
  const auto& kernels = kernels::best_kernels();
  const auto source = source_in(*file, type());
  const WeightBytes said = weight_bytes(*source, kernels, true);
  const HeldBytes held = held_bytes(said, TypeSet::all());
  EXPECT_EQ(held_bytes(said, {}).all(), rows);
  EXPECT_EQ(held_bytes(said, {}).mapped, rows);

  ModelWeights weights = bind_weights(source, kernels);
  const std::size_t before = resident_bytes();
  std::size_t most = 0, last = 0;
  PackOptions options;
  options.threads = threads();
  options.progress = [&](std::size_t done, std::size_t of) {
    EXPECT_GT(done, last);
    EXPECT_LE(done, of);
    last = done;
    most = std::max(most, resident_bytes());
  };
  ASSERT_TRUE(pack_weights(weights, kernels, options));
  EXPECT_EQ(last, held.own);
  const bool packs = !kernels::is_float(type());
  EXPECT_EQ(held.mapped, packs ? 0 : rows);
  for (const auto& [name, matrix] : weights.matrices) EXPECT_EQ(matrix.packed, packs) << name;
  // Pages come in large pieces.
  constexpr std::size_t kSlack = std::size_t{6} << 20;
  const std::size_t now = resident_bytes();
  EXPECT_LE(now - std::min(now, before), held.own + kSlack);
  EXPECT_GE(now - std::min(now, before) + kSlack, held.own);
  if (!packs) return;
  EXPECT_LE(most - before, held.own + options.threads * matrix_bytes(type()) + kSlack);
  // Else a file whose pages are not given back would fit as well.
  EXPECT_GT(rows, options.threads * matrix_bytes(type()) + kSlack);
}

// The file's own bytes remain what they were, for what still reads them.
TEST_P(PackWeights, LeavesTheFileAsItIs) {
  const test::TempFolder folder;
  const std::string data = file_of_weights(kWeightMatrices * matrix_bytes(type()));
  const auto file = *load::MappedFile::open(folder.write("weights", data));
  const auto& kernels = kernels::best_kernels();
  ModelWeights weights = bind_weights(source_in(*file, type()), kernels);
  PackOptions options;
  options.threads = threads();
  ASSERT_TRUE(pack_weights(weights, kernels, options));
  EXPECT_EQ(std::memcmp(file->bytes().data(), data.data(), data.size()), 0);
}

// Of which threads take pieces, the last one smaller: rows, and parts that become panels or rows.
TEST(PackWeightsInPieces, AreThoseOfTheWhole) {
  constexpr std::size_t kRows = 10007, kColumns = 1056;
  const auto& kernels = kernels::best_kernels();
  const std::size_t row_bytes = kernels::row_bytes(DataType::kQ8_0, kColumns);
  const std::string blocks = file_of_weights(kRows * row_bytes);
  const std::string codes = file_of_weights(kRows * kColumns);
  std::vector<float> scales(kRows);
  for (std::size_t i = 0; i < kRows; ++i) scales[i] = 0.5F + static_cast<float>(i % 7);
  auto parts = std::make_shared<load::StoredParts>();
  parts->type = DataType::kINT8;
  parts->rows = kRows;
  parts->columns = kColumns;
  parts->codes = load::StoredParts::Codes::kSigned;
  parts->bytes = std::as_bytes(std::span(codes));
  parts->scales = std::as_bytes(std::span(scales));
  parts->group_columns = kColumns;
  parts->scale_row_stride = 1;
  auto source = std::make_shared<load::ModelSource>();
  source->tensors["rows"] = {DataType::kQ8_0, kRows, kColumns, std::as_bytes(std::span(blocks))};
  source->tensors["parts"] = {DataType::kINT8, kRows, kColumns, {}, parts};

  std::vector<std::byte> made(kRows * kernels::row_bytes(DataType::kINT8, kColumns));
  load::write_rows(*parts, 0, kRows, made.data());
  const auto panels = [&](DataType type, const std::byte* rows) {
    std::vector<std::byte> out(packed_bytes(kernels, type, kRows, kColumns));
    kernels.pack(type, rows, kRows, kColumns, out.data());
    return out;
  };
  const auto whole = panels(DataType::kQ8_0, std::as_bytes(std::span(blocks)).data());
  const auto whole_parts = panels(DataType::kINT8, made.data());
  for (const std::uint32_t threads : {1U, 3U}) {
    for (const bool packs : {false, true}) {
      ModelWeights weights = bind_weights(source, kernels);
      PackOptions options;
      options.threads = threads;
      if (!packs) options.types.remove(DataType::kINT8);
      ASSERT_TRUE(pack_weights(weights, kernels, options));
      const auto& expected = packs ? whole_parts : made;
      const Matrix& rows = weights.matrices.at("rows");
      const Matrix& of_parts = weights.matrices.at("parts");
      EXPECT_EQ(of_parts.packed, packs);
      EXPECT_EQ(std::memcmp(rows.data, whole.data(), whole.size()), 0) << threads;
      EXPECT_EQ(std::memcmp(of_parts.data, expected.data(), expected.size()), 0) << threads;
    }
  }
}

TEST(PackWeightsOfSomeTypes, LeavesTheOthersInTheFile) {
  const test::TempFolder folder;
  const auto file = *load::MappedFile::open(
      folder.write("weights", file_of_weights(kWeightMatrices * matrix_bytes(DataType::kQ4_K))));
  const auto source = source_in(*file, DataType::kQ4_K);
  const auto& kernels = kernels::best_kernels();
  PackOptions options;
  options.types.remove(DataType::kQ4_K);
  options.progress = [](std::size_t, std::size_t) { ADD_FAILURE() << "nothing is to be packed"; };
  ModelWeights weights = bind_weights(source, kernels);
  ASSERT_TRUE(pack_weights(weights, kernels, options));
  for (const auto& [name, matrix] : weights.matrices) {
    EXPECT_FALSE(matrix.packed) << name;
    EXPECT_EQ(matrix.data, source->tensors.at(name).data.data()) << name;
  }
  EXPECT_FALSE(weights.packs.has(DataType::kQ4_K));
  EXPECT_TRUE(weights.packs.has(DataType::kQ8_0));
}

}  // namespace
}  // namespace dovetail::model
