#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "model/cpu/weight_bytes.h"
#include "support/places.h"

namespace dovetail::model {
namespace {

constexpr std::size_t kDocRows = 4096, kDocColumns = 4096;

struct PackedSize {
  kernels::DataType type;
  double stored, packed;  // bits per weight

  double growth() const { return packed / stored; }
};

std::vector<PackedSize> packed_sizes() {
  constexpr double kWeights = double{kDocRows} * kDocColumns;
  std::vector<PackedSize> sizes;
  for (std::size_t i = 0; i < kernels::kDataTypes; ++i) {
    const auto type = static_cast<kernels::DataType>(i);
    const std::size_t packed = packed_bytes(kernels::best_kernels(), type, kDocRows, kDocColumns);
    if (packed == 0) continue;
    const std::size_t stored = kDocRows * kernels::row_bytes(type, kDocColumns);
    sizes.push_back({type, 8.0 * static_cast<double>(stored) / kWeights,
                     8.0 * static_cast<double>(packed) / kWeights});
  }
  std::stable_sort(sizes.begin(), sizes.end(), [](const PackedSize& left, const PackedSize& right) {
    return left.growth() > right.growth();
  });
  return sizes;
}

// The table of docs/models.md and what follows it.
std::string packed_size_text() {
  constexpr double kSame = 1.005;
  std::string text =
      "| Type | Bits of a weight in the file | Packed | Times |\n| --- | --- | --- | --- |\n";
  std::string same;
  for (const PackedSize& size : packed_sizes()) {
    const std::string_view name = kernels::info(size.type).name;
    if (size.growth() < kSame) {
      same += fmt::format("{}{}", same.empty() ? "" : ", ", name);
    } else {
      text += fmt::format("| {} | {:.2f} | {:.2f} | {:.2f} |\n", name, size.stored, size.packed,
                          size.growth());
    }
  }
  return text + "\nAs many as in the file: " + same + ".\n";
}

constexpr const char* kBegin = "<!-- packed sizes -->\n";
constexpr const char* kEnd = "<!-- end of packed sizes -->\n";

// With DOVETAIL_WRITE_DOCS=1 the part is written anew.
TEST(PackedSizes, AreInTheDocuments) {
  const std::string path = test::source_dir() + "/docs/models.md";
  std::ifstream file(path);
  const std::string all{std::istreambuf_iterator<char>(file), {}};
  const std::size_t begin = all.find(kBegin), end = all.find(kEnd);
  ASSERT_NE(begin, std::string::npos);
  ASSERT_NE(end, std::string::npos);
  const std::size_t from = begin + std::string_view(kBegin).size();
  if (std::getenv("DOVETAIL_WRITE_DOCS") != nullptr) {
    std::ofstream(path) << all.substr(0, from) << packed_size_text() << all.substr(end);
    return;
  }
  EXPECT_EQ(all.substr(from, end - from), packed_size_text())
      << "write it anew with DOVETAIL_WRITE_DOCS=1";
}

}  // namespace
}  // namespace dovetail::model
