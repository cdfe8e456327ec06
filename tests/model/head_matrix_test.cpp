#include "model/blocks/head_matrix.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "support/block_scales.h"

namespace dovetail::model {
namespace {

using kernels::DataType;

// Rows of random bits with finite scales, or random floats.
std::vector<std::byte> random_rows(DataType type, std::size_t rows, std::size_t columns,
                                   std::minstd_rand& random) {
  std::vector<std::byte> bytes(rows * kernels::row_bytes(type, columns));
  if (type == DataType::kF32) {
    for (std::size_t at = 0; at < bytes.size(); at += 4) {
      const float value = std::uniform_real_distribution<float>(-1.0F, 1.0F)(random);
      std::memcpy(bytes.data() + at, &value, sizeof value);
    }
    return bytes;
  }
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() >> 8);
  for (std::size_t at = 0; at < bytes.size(); at += kernels::info(type).bytes_per_block) {
    test::set_block_scales(type, bytes.data() + at, [&](float) {
      return static_cast<std::uint16_t>(0x2000 + random() % 0x800);
    });
  }
  return bytes;
}

// Each head's outputs are those of its own rows in the file, whether or not they have panels, and
// wherever among the matrix's rows they begin.
TEST(HeadMatrix, MultipliesRowsOfItsHead) {
  constexpr std::size_t kColumns = 256, kHeads = 3;
  const kernels::Kernels& kernels = kernels::best_kernels();
  std::minstd_rand random(7);
  for (const DataType type : {DataType::kQ4_0, DataType::kQ8_0, DataType::kF32}) {
    for (const HeadRows& of : {HeadRows{32, 32, 0}, HeadRows{24, 40, 0}, HeadRows{16, 40, 24}}) {
      const std::size_t all = kHeads * of.stride;
      const std::vector<std::byte> stored = random_rows(type, all, kColumns, random);
      const Matrix matrix = {.type = type, .rows = all, .columns = kColumns, .data = stored.data()};
      const HeadMatrix packed(matrix, kHeads, of, true, kernels);
      const HeadMatrix plain(matrix, kHeads, of, false, kernels);
      for (const std::size_t rows : {1U, 3U, 20U}) {
        AlignedBuffer prepared;
        prepared.reserve(rows * packed.row_bytes());
        std::vector<float> x(kColumns);
        for (std::size_t row = 0; row < rows; ++row) {
          for (float& value : x) value = std::uniform_real_distribution<float>(-1.0F, 1.0F)(random);
          kernels.prepare(type, x.data(), kColumns, prepared.data() + row * packed.row_bytes());
        }
        std::vector<float> wanted(rows * all);
        kernels::MatmulArgs args;
        args.type = type;
        args.weights = stored.data();
        args.activations = prepared.data();
        args.activation_stride = packed.row_bytes();
        args.output = wanted.data();
        args.output_stride = all;
        args.m = rows;
        args.k = kColumns;
        args.n_end = all;
        kernels.matmul(args);
        // What lies beyond a head's outputs stays as it is.
        const std::size_t stride = of.rows + 5;
        for (const HeadMatrix* heads : {&packed, &plain}) {
          for (std::uint32_t head = 0; head < kHeads; ++head) {
            std::vector<float> got(rows * stride, 77.0F);
            heads->multiply(head, rows, prepared.data(), got.data(), stride);
            for (std::size_t row = 0; row < rows; ++row) {
              for (std::size_t i = 0; i < stride; ++i) {
                const float expected =
                    i < of.rows ? wanted[row * all + of.first + head * of.stride + i] : 77.0F;
                ASSERT_EQ(got[row * stride + i], expected)
                    << kernels::info(type).name << ", head " << head << ", row " << row
                    << ", output " << i << (heads == &packed ? ", packed" : "");
              }
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace dovetail::model
