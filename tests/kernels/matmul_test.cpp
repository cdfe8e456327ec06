#include <fmt/core.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/aligned_buffer.h"
#include "kernels/fixture.h"
#include "kernels/reference.h"

namespace dovetail::kernels {
namespace {

class Matmul : public EachKernels {};

struct Shape {
  std::size_t m, n, k;
};

bool takes(DataType type, std::size_t k) { return k % info(type).elements_per_block == 0; }

// Relative to the length of the terms |x| |w|: rounding of the inputs (8 bits: 1/254 of a block's
// largest, bf16: 2^-9), which averages out over k, and of the sum.
double tolerance(DataType type, const Kernels& kernels) {
  switch (type) {
    case DataType::kF32:
    case DataType::kF16:
    case DataType::kFP8_E4M3:
      return 2e-6;
    case DataType::kBF16:
      // A prepared row smaller than its floats was rounded to bf16.
      return kernels.activation_bytes(type, 1024) < 4096 ? 4e-3 : 2e-6;
    default:
      return 1.2e-2;
  }
}

TEST_P(Matmul, IsNearTheSumInDouble) {
  const Shape shapes[] = {{1, 1, 1},      {1, 17, 7},    {2, 3, 31},    {3, 5, 32},
                          {1, 33, 64},    {5, 16, 96},   {17, 19, 256}, {16, 48, 512},
                          {33, 37, 1024}, {7, 50, 2816}, {64, 21, 768}, {1, 8, 8192},
                          {40, 9, 14336}};
  std::mt19937 random(7);
  for (const DataType type : kAllTypes) {
    for (const auto [m, n, k] : shapes) {
      if (!takes(type, k)) continue;
      SCOPED_TRACE(fmt::format("{} m={} n={} k={}", info(type).name, m, n, k));
      const auto weights = reference::random_weights(type, n, k, random);
      const auto x = reference::random_floats(m * k, random);
      const Prepared prepared(kernels(), type, x.data(), m, k);
      std::vector<float> y(m * n, NAN);
      kernels().matmul({.type = type,
                        .weights = weights.data(),
                        .activations = prepared.data,
                        .activation_stride = prepared.stride,
                        .output = y.data(),
                        .output_stride = n,
                        .m = m,
                        .k = k,
                        .n_begin = 0,
                        .n_end = n});
      for (std::size_t j = 0; j < n; ++j) {
        const auto row = reference::row_of(type, weights.data() + j * row_bytes(type, k), k);
        for (std::size_t i = 0; i < m; ++i) {
          double sum = 0;
          double xx = 0;
          double ww = 0;
          for (std::size_t e = 0; e < k; ++e) {
            const double v = x[i * k + e];
            const double w = row[e];
            sum += w * v;
            xx += v * v;
            ww += w * w;
          }
          ASSERT_NEAR(y[i * n + j], sum, tolerance(type, kernels()) * std::sqrt(xx * ww))
              << "at " << i << ", " << j;
        }
      }
    }
  }
}

// The law: what an element is does not depend on what is computed beside it, nor on where its
// inputs and output lie.
TEST_P(Matmul, HasTheSameBitsInEveryCompany) {
  for (const DataType type : kAllTypes) {
    EXPECT_TRUE(rc::check(fmt::format("{} {}", kernels().name, info(type).name), [&] {
      const std::size_t unit = info(type).elements_per_block;
      const std::size_t most = unit == 1 ? 200 : unit == 32 ? 12 : unit == 256 ? 3 : 6;
      const std::size_t k = unit * *rc::gen::inRange<std::size_t>(1, most);
      const std::size_t m = *rc::gen::inRange<std::size_t>(1, 70);
      const std::size_t n = *rc::gen::inRange<std::size_t>(1, 70);
      const std::size_t m0 = *rc::gen::inRange<std::size_t>(0, m);
      const std::size_t m1 = *rc::gen::inRange<std::size_t>(m0 + 1, m + 1);
      const std::size_t n0 = *rc::gen::inRange<std::size_t>(0, n);
      const std::size_t n1 = *rc::gen::inRange<std::size_t>(n0 + 1, n + 1);
      std::mt19937 random(*rc::gen::arbitrary<unsigned>());
      const auto weights = reference::random_weights(type, n, k, random);
      const auto x = reference::random_floats(m * k, random);
      const Prepared all(kernels(), type, x.data(), m, k);
      MatmulArgs args{.type = type,
                      .weights = weights.data(),
                      .activations = all.data,
                      .activation_stride = all.stride,
                      .output_stride = n,
                      .m = m,
                      .k = k,
                      .n_begin = 0,
                      .n_end = n};
      std::vector<float> whole(m * n, NAN);
      args.output = whole.data();
      kernels().matmul(args);

      // The same weights one byte further, rows [m0, m1) prepared anew, columns [n0, n1).
      reference::Bytes moved(weights.size() + 1);
      std::copy(weights.begin(), weights.end(), moved.begin() + 1);
      const Prepared some(kernels(), type, x.data() + m0 * k, m1 - m0, k);
      std::vector<float> part(m * n + 1, NAN);
      args.weights = moved.data() + 1;
      args.activations = some.data;
      args.output = part.data() + 1;
      args.m = m1 - m0;
      args.n_begin = n0;
      args.n_end = n1;
      kernels().matmul(args);
      for (std::size_t i = 0; i < m1 - m0; ++i) {
        for (std::size_t j = 0; j < n; ++j) {
          const float value = part[1 + i * n + j];
          if (j < n0 || j >= n1) {
            RC_ASSERT(std::isnan(value));  // outside the range nothing is written
          } else {
            RC_ASSERT(value == whole[(m0 + i) * n + j]);
          }
        }
      }
    }));
  }
}

// A fault upstream shows in every product of the row, wherever it lies, and in no other row.
TEST_P(Matmul, KeepsWhatIsNotANumber) {
  std::mt19937 random(17);
  const std::size_t m = 3, n = 5, k = 512;
  for (const DataType type : kAllTypes) {
    const auto weights = reference::random_weights(type, n, k, random);
    for (const float fault :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      for (std::size_t at = 0; at < k; at += 13) {
        auto x = reference::random_floats(m * k, random);
        x[k + at] = fault;
        const Prepared prepared(kernels(), type, x.data(), m, k);
        std::vector<float> y(m * n);
        kernels().matmul({.type = type,
                          .weights = weights.data(),
                          .activations = prepared.data,
                          .activation_stride = prepared.stride,
                          .output = y.data(),
                          .output_stride = n,
                          .m = m,
                          .k = k,
                          .n_begin = 0,
                          .n_end = n});
        for (std::size_t i = 0; i < y.size(); ++i) {
          ASSERT_EQ(std::isfinite(y[i]), i / n != 1)
              << info(type).name << ", " << fault << " at " << at << ", element " << i;
        }
      }
    }
  }
}

// Types with blocks have the same bits on every instruction set, and from packed panels, where
// there are any, as from the file's rows: few rows, rows enough for expanded panels and for three
// at a time, one beyond these, and a last panel that is not full.
TEST_P(Matmul, HasTheSameBitsPackedAndOnEveryInstructionSet) {
  std::mt19937 random(23);
  // Of an inner dimension beyond what one strip of weights holds.
  const std::size_t n = 75, k = 1536;
  const Kernels& plain = *find_kernels("portable");
  for (const DataType type : kAllTypes) {
    if (info(type).elements_per_block == 1) continue;
    const auto weights = reference::random_weights(type, n, k, random);
    for (const std::size_t m : {1, 2, 3, 5, 8, 16, 20, 31, 35, 50}) {
      SCOPED_TRACE(fmt::format("{} m={}", info(type).name, m));
      const auto x = reference::random_floats(m * k, random);
      MatmulArgs args{
          .type = type, .weights = weights.data(), .output_stride = n, .m = m, .k = k, .n_end = n};
      const Prepared for_plain(plain, type, x.data(), m, k);
      std::vector<float> expected(m * n, NAN);
      args.activations = for_plain.data;
      args.activation_stride = for_plain.stride;
      args.output = expected.data();
      plain.matmul(args);

      const Prepared prepared(kernels(), type, x.data(), m, k);
      std::vector<float> y(m * n, NAN);
      args.activations = prepared.data;
      args.activation_stride = prepared.stride;
      args.output = y.data();
      kernels().matmul(args);
      EXPECT_EQ(y, expected);
      if (is_float(type)) continue;

      const std::size_t bytes =
          kernels().panel_bytes(type, k) * ((n + kPanelRows - 1) / kPanelRows);
      AlignedBuffer panels;
      panels.reserve(bytes);
      kernels().pack(type, weights.data(), n, k, panels.data());
      args.weights = panels.data();
      args.packed = true;
      std::fill(y.begin(), y.end(), NAN);
      kernels().matmul(args);
      EXPECT_EQ(y, expected) << "packed";
      AlignedBuffer again;
      again.reserve(bytes);
      plain.pack(type, weights.data(), n, k, again.data());
      EXPECT_EQ(std::memcmp(panels.data(), again.data(), bytes), 0);
    }
  }
}

// The largest whole numbers that blocks may hold, of either sign: a sum that does not fit shows.
TEST_P(Matmul, HoldsTheLargestWholeNumbers) {
  std::mt19937 random(31);
  const std::size_t n = 53, k = 1280;
  const Kernels& plain = *find_kernels("portable");
  for (const DataType type : kAllTypes) {
    if (is_float(type) || k % info(type).elements_per_block != 0) continue;
    const std::size_t bytes = info(type).bytes_per_block;
    for (const unsigned fill : {0x00U, 0x7fU, 0x80U, 0xffU}) {
      auto weights = reference::random_weights(type, n, k, random);
      for (std::size_t at = 0; at < weights.size(); ++at) {
        if (at / bytes % 3 != 2) weights[at] = static_cast<std::byte>(fill);
      }
      for (std::size_t at = 0; at < weights.size(); at += bytes) {
        test::set_block_scales(type, weights.data() + at, [&](float) {
          return static_cast<std::uint16_t>(0x1c00 | (random() & 0x3ffU));
        });
      }
      for (const std::size_t m : {3, 8, 17, 29}) {
        std::vector<float> x(m * k);
        for (float& value : x) value = random() % 5 == 0 ? -1.0F : 1.0F;
        std::vector<float> results[2];
        const Kernels* both[2] = {&plain, &kernels()};
        for (int i = 0; i < 2; ++i) {
          const Prepared prepared(*both[i], type, x.data(), m, k);
          results[i].resize(m * n);
          both[i]->matmul({.type = type,
                           .weights = weights.data(),
                           .activations = prepared.data,
                           .activation_stride = prepared.stride,
                           .output = results[i].data(),
                           .output_stride = n,
                           .m = m,
                           .k = k,
                           .n_begin = 0,
                           .n_end = n});
        }
        ASSERT_EQ(results[1], results[0]) << info(type).name << ", " << fill << ", m " << m;
      }
    }
  }
}

// Rows beyond what a set takes in one pass have the bits that they have alone.
TEST_P(Matmul, HasTheSameBitsWithVeryManyRows) {
  std::mt19937 random(29);
  const std::size_t m = 1037, n = 17, k = 512;
  for (const DataType type : kAllTypes) {
    const auto weights = reference::random_weights(type, n, k, random);
    const auto x = reference::random_floats(m * k, random);
    const Prepared prepared(kernels(), type, x.data(), m, k);
    std::vector<float> whole(m * n, NAN);
    MatmulArgs args{.type = type,
                    .weights = weights.data(),
                    .activations = prepared.data,
                    .activation_stride = prepared.stride,
                    .output = whole.data(),
                    .output_stride = n,
                    .m = m,
                    .k = k,
                    .n_begin = 0,
                    .n_end = n};
    kernels().matmul(args);
    std::vector<float> alone(n, NAN);
    args.output = alone.data();
    args.m = 1;
    for (std::size_t i = 0; i < m; i += i < 30 || i > 1000 ? 1 : 31) {
      args.activations = prepared.data + i * prepared.stride;
      kernels().matmul(args);
      ASSERT_TRUE(std::equal(alone.begin(), alone.end(), whole.begin() + i * n))
          << info(type).name << ", row " << i;
    }
  }
}

// The same across the blocks of columns that a large product is cut into.
TEST_P(Matmul, HasTheSameBitsInALargeProduct) {
  std::mt19937 random(13);
  const std::size_t m = 37, n = 301, k = 1536;
  for (const DataType type : kAllTypes) {
    const auto weights = reference::random_weights(type, n, k, random);
    const auto x = reference::random_floats(m * k, random);
    const Prepared prepared(kernels(), type, x.data(), m, k);
    std::vector<float> whole(m * n, NAN);
    std::vector<float> parts(m * n, NAN);
    MatmulArgs args{.type = type,
                    .weights = weights.data(),
                    .activations = prepared.data,
                    .activation_stride = prepared.stride,
                    .output = whole.data(),
                    .output_stride = n,
                    .m = m,
                    .k = k,
                    .n_begin = 0,
                    .n_end = n};
    kernels().matmul(args);
    args.m = 1;
    for (std::size_t i = 0; i < m; ++i) {
      args.activations = prepared.data + i * prepared.stride;
      args.output = parts.data() + i * n;
      for (args.n_begin = 0; args.n_begin < n; args.n_begin = args.n_end) {
        args.n_end = std::min(n, args.n_begin + 1 + (i * 29 + args.n_begin) % 83);
        kernels().matmul(args);
      }
    }
    ASSERT_EQ(parts, whole) << info(type).name;
  }
}

// Two instruction sets agree but for the last bits; products of quantised blocks are whole numbers.
TEST_P(Matmul, AgreesWithThePortablePath) {
  const Kernels& portable = *find_kernels("portable");
  std::mt19937 random(11);
  const std::size_t m = 19, n = 37, k = 1536;
  for (const DataType type : kAllTypes) {
    const bool rounds = kernels().activation_bytes(type, k) != portable.activation_bytes(type, k);
    const auto weights = reference::random_weights(type, n, k, random);
    const auto x = reference::random_floats(m * k, random);
    std::vector<float> results[2];
    const Kernels* both[2] = {&portable, &kernels()};
    for (int i = 0; i < 2; ++i) {
      const Prepared prepared(*both[i], type, x.data(), m, k);
      results[i].resize(m * n);
      both[i]->matmul({.type = type,
                       .weights = weights.data(),
                       .activations = prepared.data,
                       .activation_stride = prepared.stride,
                       .output = results[i].data(),
                       .output_stride = n,
                       .m = m,
                       .k = k,
                       .n_begin = 0,
                       .n_end = n});
    }
    double largest = 0;
    for (const float value : results[0]) largest = std::max(largest, std::abs(double{value}));
    for (std::size_t i = 0; i < m * n; ++i) {
      ASSERT_NEAR(results[0][i], results[1][i], largest * (rounds ? 4e-3 : 2e-6))
          << info(type).name << " at " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Matmul,
                         ::testing::ValuesIn(available_kernels().begin(),
                                             available_kernels().end()),
                         kernels_name);

}  // namespace
}  // namespace dovetail::kernels
