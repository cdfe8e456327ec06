// The same bits in every instruction set of this machine: what README.md of src/kernels promises
// under "One canon". Any NaN counts as the same as any other.
#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <span>

#include "kernels/fixture.h"
#include "kernels/reference.h"

namespace dovetail::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// What arithmetic may stumble over; no infinity and no NaN, which would drown the rest of a sum.
constexpr float kEdges[] = {0.0F,     -0.0F,    0x1p-149F, -0x1p-149F, 0x1.8p-130F,    -0x1p-126F,
                            0x1p-70F, 0x1p-64F, 0x1p60F,   -0x1p60F,   0x1.fffffep63F, 1.0F};

// Random floats of many magnitudes; with edges, each seventh is one of those.
std::vector<float> mixed(std::size_t n, std::mt19937& random, bool edges) {
  auto values = reference::random_floats(n, random);
  for (std::size_t i = 0; i < n; ++i) {
    values[i] = std::ldexp(values[i], static_cast<int>(random() % 12) - 6);
    if (edges && random() % 7 == 0) values[i] = kEdges[random() % std::size(kEdges)];
  }
  return values;
}

std::uint32_t bits_of(float value) {
  return value == value ? std::bit_cast<std::uint32_t>(value) : 0x7fc00000U;
}

// Index of the first difference, or the size.
std::size_t difference(const std::vector<float>& a, const std::vector<float>& b) {
  std::size_t i = 0;
  while (i < a.size() && i < b.size() && bits_of(a[i]) == bits_of(b[i])) ++i;
  return i;
}

// The results of `sets` for one function, which must be alike.
template <class Compute>
void expect_one_result(const std::string& what, const Compute& compute,
                       std::span<const Kernels* const> sets = available_kernels()) {
  if (sets.empty()) return;
  const Kernels& reference = *sets.back();
  const std::vector<float> expected = compute(reference);
  for (const Kernels* kernels : sets.first(sets.size() - 1)) {
    const std::vector<float> got = compute(*kernels);
    ASSERT_EQ(got.size(), expected.size());
    const std::size_t at = difference(got, expected);
    ASSERT_EQ(at, expected.size())
        << what << ", " << kernels->name << ", element " << at << ": "
        << std::bit_cast<std::uint32_t>(got[at]) << " (" << got[at] << "), " << reference.name
        << " " << std::bit_cast<std::uint32_t>(expected[at]) << " (" << expected[at] << ")";
  }
}

// The sets that multiply BF16 weights with rounded activations, or those that do not.
std::vector<const Kernels*> sets_of_bf16(bool rounds) {
  std::vector<const Kernels*> sets;
  for (const Kernels* kernels : available_kernels()) {
    if (kernels->rounds_bf16 == rounds) sets.push_back(kernels);
  }
  return sets;
}

constexpr std::size_t kLengths[] = {1,  2,  7,  8,  15,  16,  17,   31,
                                    33, 63, 64, 65, 100, 257, 1023, 2817};

class FloatProducts : public ::testing::TestWithParam<DataType> {};

TEST_P(FloatProducts, HaveTheSameBitsInEverySet) {
  const DataType type = GetParam();
  std::mt19937 random(21);
  for (const bool edges : {false, true}) {
    for (const std::size_t k : kLengths) {
      const std::size_t m = 1 + random() % 30;
      const std::size_t n = 1 + random() % 23;
      auto weights = reference::random_weights(type, n, k, random);
      if (edges && type == DataType::kF32) {
        const auto values = mixed(n * k, random, true);
        std::memcpy(weights.data(), values.data(), weights.size());
      }
      if (edges && type == DataType::kF16) {
        // Any half but infinities and NaNs: denormals, too.
        for (std::size_t i = 0; i < n * k; ++i) {
          const auto bits = static_cast<unsigned>(random() & 0xffffU);
          reference::put_half(weights.data() + 2 * i, (bits & 0x7c00U) == 0x7c00U ? 1U : bits);
        }
      }
      auto x = mixed(m * k, random, edges);
      if (edges && m > 2) {
        x[k - 1] = kInfinity;
        x[k + k / 2] = NAN;
      }
      const auto compute = [&](const Kernels& kernels) {
        const Prepared prepared(kernels, type, x.data(), m, k);
        std::vector<float> y(m * n);
        kernels.matmul({.type = type,
                        .weights = weights.data(),
                        .activations = prepared.data,
                        .activation_stride = prepared.stride,
                        .output = y.data(),
                        .output_stride = n,
                        .m = m,
                        .k = k,
                        .n_begin = 0,
                        .n_end = n});
        return y;
      };
      const std::string what = std::string(info(type).name) + ", k " + std::to_string(k);
      if (type == DataType::kBF16) {
        expect_one_result(what, compute, sets_of_bf16(false));
        expect_one_result(what, compute, sets_of_bf16(true));
      } else {
        expect_one_result(what, compute);
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(All, FloatProducts,
                         ::testing::Values(DataType::kF32, DataType::kF16, DataType::kBF16),
                         [](const auto& test) {
                           return std::string(kernels::info(test.param).name);
                         });

// Tiles of a context that a set wrote.
struct Tiles {
  Tiles(const Kernels& kernels, CacheType type, std::size_t dim, const std::vector<float>& keys,
        const std::vector<float>& values) {
    const std::size_t bytes = cache_tile_bytes(type, dim);
    const std::size_t blocks = keys.size() / dim / kBlockSize;
    for (auto& tiles : stored) tiles.resize(blocks * bytes);
    for (std::size_t p = 0; p < blocks * kBlockSize; ++p) {
      const std::size_t tile = p / kBlockSize * bytes;
      kernels.store_key(type, keys.data() + p * dim, dim, p % kBlockSize, stored[0].data() + tile);
      kernels.store_value(type, values.data() + p * dim, dim, p % kBlockSize,
                          stored[1].data() + tile);
    }
    for (std::size_t b = 0; b < blocks; ++b) {
      for (int i : {0, 1}) of[i].push_back(stored[i].data() + b * bytes);
    }
  }

  reference::Bytes stored[2];
  std::vector<const std::byte*> of[2];
};

class CacheTypes : public ::testing::TestWithParam<CacheTypeInfo> {};

TEST_P(CacheTypes, HaveTheSameAttentionInEverySet) {
  const CacheType type = GetParam().type;
  std::mt19937 random(22);
  for (const std::size_t dim : {1, 7, 16, 40, 64, 72, 80, 128, 256}) {
    for (const int number : {0, 1, 2, 3, 4, 5, 6, 7}) {
      // The second half has caps, sinks and, half the time, no causal mask.
      const int variant = number % 4;
      const bool more = number >= 4;
      const std::size_t rows = 1 + random() % 9;
      const std::size_t heads = 1 + random() % 5;
      // The last variant's contexts have several segments.
      const std::size_t before = variant == 3 ? kAttentionSegment - 4 : 0;
      if (variant == 3 && dim > 40) continue;
      const std::size_t positions = before + rows + random() % 90;
      const std::size_t blocks = (positions + kBlockSize - 1) / kBlockSize;
      auto keys = mixed(blocks * kBlockSize * dim, random, false);
      auto values = mixed(blocks * kBlockSize * dim, random, variant > 0);
      auto query = reference::random_floats(rows * heads * dim, random);
      if (variant == 2) {  // overflowing and undefined scores
        for (int i = 0; i < 3; ++i) keys[random() % keys.size()] = 0x1p14F;
        query[random() % query.size()] = kInfinity;
        query[random() % query.size()] = NAN;
        query[random() % query.size()] = -0x1p120F;
      }
      const bool causal = !more || random() % 2 == 0;
      const auto sinks = reference::random_floats(heads, random, 5);
      expect_one_result("head_dim " + std::to_string(dim) + ", number " + std::to_string(number),
                        [&](const Kernels& kernels) {
                          const Tiles tiles(kernels, type, dim, keys, values);
                          std::vector<float> output(query.size());
                          kernels.attention({.cache_type = type,
                                             .key_blocks = tiles.of[0].data(),
                                             .value_blocks = tiles.of[1].data(),
                                             .query = query.data(),
                                             .query_stride = heads * dim,
                                             .output = output.data(),
                                             .output_stride = heads * dim,
                                             .rows = rows,
                                             .heads = heads,
                                             .head_dim = dim,
                                             .first_position = positions - rows,
                                             .window = positions % 3 == 0 ? positions / 2 + 1 : 0,
                                             .scale = 0.3F,
                                             .causal = causal,
                                             .end = positions,
                                             .softcap = more ? 5.0F : 0.0F,
                                             .sinks = more ? sinks.data() : nullptr});
                          return output;
                        });
    }
  }
}

// Every rounding, with edges, and what is no number.
TEST_P(CacheTypes, AreStoredAlikeByEverySet) {
  const CacheType type = GetParam().type;
  std::mt19937 random(25);
  for (const std::size_t dim : {1, 16, 31, 80, 256}) {
    for (const int variant : {0, 1, 2}) {
      auto keys = mixed(kBlockSize * dim, random, variant > 0);
      if (variant == 2) {
        keys[random() % keys.size()] = kInfinity;
        keys[random() % keys.size()] = NAN;
      }
      expect_one_result("head_dim " + std::to_string(dim), [&](const Kernels& kernels) {
        const Tiles tiles(kernels, type, dim, keys, keys);
        std::vector<float> out;
        for (std::size_t p = 0; p < kBlockSize; ++p) {
          for (std::size_t d = 0; d < dim; ++d) {
            using reference::Tile;
            for (const Tile which : {Tile::kKeys, Tile::kValues}) {
              const std::byte* tile = tiles.stored[static_cast<int>(which)].data();
              out.push_back(static_cast<float>(reference::cached(type, which, tile, dim, p, d)));
            }
          }
        }
        return out;
      });
    }
  }
}
INSTANTIATE_TEST_SUITE_P(All, CacheTypes, ::testing::ValuesIn(kCacheTypes),
                         [](const auto& test) { return std::string(test.param.name); });

constexpr Activation kActivations[] = {Activation::kSilu, Activation::kGeluTanh, Activation::kGelu,
                                       Activation::kRelu2, Activation::kClampedSwiglu};

TEST(AcrossSets, NormsRotationsAndGates) {
  std::mt19937 random(23);
  for (const bool edges : {false, true}) {
    for (const std::size_t n : kLengths) {
      auto x = mixed(n, random, edges);
      const auto y = mixed(n, random, edges);
      if (edges && n % 3 == 0) x[n / 2] = n % 2 == 0 ? NAN : -kInfinity;
      const std::string what = "n " + std::to_string(n);
      expect_one_result("rms_norm, " + what, [&](const Kernels& kernels) {
        std::vector<float> out(n);
        kernels.rms_norm(x.data(), y.data(), n, 1e-5F, out.data());
        return out;
      });
      expect_one_result("norms without weights, " + what, [&](const Kernels& kernels) {
        std::vector<float> out(3 * n);
        kernels.rms_norm(x.data(), nullptr, n, 1e-5F, out.data());
        kernels.l2_norm(x.data(), n, 1e-6F, out.data() + n);
        kernels.layer_norm(x.data(), nullptr, nullptr, n, 1e-5F, out.data() + 2 * n);
        return out;
      });
      expect_one_result("layer_norm, " + what, [&](const Kernels& kernels) {
        std::vector<float> out(n);
        kernels.layer_norm(x.data(), y.data(), x.data(), n, 1e-5F, out.data());
        return out;
      });
      for (const Activation activation : kActivations) {
        for (const float* up : {y.data(), static_cast<const float*>(nullptr)}) {
          expect_one_result("gate, " + what, [&](const Kernels& kernels) {
            std::vector<float> out(n);
            kernels.gate(activation, x.data(), up, n, out.data());
            return out;
          });
        }
      }
      expect_one_result("xielu, " + what, [&](const Kernels& kernels) {
        std::vector<float> out(n);
        kernels.xielu({.positive = 0.7F, .negative = 1.3F, .linear = 0.4F}, x.data(), n,
                      out.data());
        return out;
      });
      expect_one_result("add, " + what, [&](const Kernels& kernels) {
        auto out = x;
        kernels.add(out.data(), y.data(), n);
        kernels.add_scaled(out.data(), y.data(), 0.3F, n);
        kernels.multiply(out.data(), y.data(), n);
        kernels.scale(out.data(), 0.3F, n);
        return out;
      });
      for (const bool interleaved : {false, true}) {
        expect_one_result("rope, " + what, [&](const Kernels& kernels) {
          auto out = x;
          kernels.rope(out.data(), y.data(), y.data() + n / 2, n / 2 * 2, interleaved);
          return out;
        });
      }
    }
  }
}

TEST(AcrossSets, Functions) {
  // A stride through all floats: every magnitude, both signs, infinities and NaNs.
  std::vector<float> x;
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 9973)
    x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  x.insert(x.end(),
           {0.0F, -0.0F, kInfinity, -kInfinity, 88.72283F, -87.33655F, -103.97208F, 0.625F});
  for (const Function function :
       {Function::kExp, Function::kSigmoid, Function::kTanh, Function::kErf, Function::kSoftplus}) {
    expect_one_result("function " + std::to_string(static_cast<int>(function)),
                      [&](const Kernels& kernels) {
                        std::vector<float> out(x.size());
                        kernels.apply(function, x.data(), x.size(), out.data());
                        return out;
                      });
  }
  for (const Activation activation : kActivations) {
    expect_one_result("activation " + std::to_string(static_cast<int>(activation)),
                      [&](const Kernels& kernels) {
                        std::vector<float> out(x.size());
                        kernels.gate(activation, x.data(), nullptr, x.size(), out.data());
                        return out;
                      });
  }
}

TEST(AcrossSets, DeltaRules) {
  std::mt19937 random(26);
  for (const bool edges : {false, true}) {
    for (const std::size_t key_dim : {1, 3, 64, 128}) {
      for (const std::size_t value_dim : {1, 16, 31, 33, 64, 128, 200}) {
        const auto state = mixed(key_dim * value_dim, random, edges);
        const auto query = mixed(key_dim, random, edges);
        auto key = mixed(key_dim, random, false);
        const auto value = mixed(value_dim, random, edges);
        if (edges && key_dim == 3) key[1] = value_dim % 2 == 0 ? NAN : kInfinity;
        expect_one_result(
            "delta_rule, " + std::to_string(key_dim) + " x " + std::to_string(value_dim),
            [&](const Kernels& kernels) {
              auto out = state;
              out.resize(state.size() + value_dim);
              kernels.delta_rule({.state = out.data(),
                                  .query = query.data(),
                                  .key = key.data(),
                                  .value = value.data(),
                                  .decay = 0.93F,
                                  .beta = 0.7F,
                                  .key_dim = key_dim,
                                  .value_dim = value_dim,
                                  .output = out.data() + state.size()});
              return out;
            });
      }
    }
  }
}

TEST(AcrossSets, StateSpaces) {
  std::mt19937 random(28);
  for (const bool edges : {false, true}) {
    for (const std::size_t state_dim : {1, 3, 64, 128}) {
      for (const std::size_t head_dim : {1, 16, 31, 33, 64, 128, 200}) {
        const auto state = mixed(state_dim * head_dim, random, edges);
        const auto input = mixed(head_dim, random, edges);
        auto write = mixed(state_dim, random, false);
        const auto read = mixed(state_dim, random, edges);
        if (edges && state_dim == 3) write[1] = head_dim % 2 == 0 ? NAN : kInfinity;
        expect_one_result(
            "state_space, " + std::to_string(state_dim) + " x " + std::to_string(head_dim),
            [&](const Kernels& kernels) {
              auto out = state;
              out.resize(state.size() + head_dim);
              kernels.state_space({.state = out.data(),
                                   .input = input.data(),
                                   .write = write.data(),
                                   .read = read.data(),
                                   .decay = 0.93F,
                                   .step = 0.7F,
                                   .skip = 1.3F,
                                   .state_dim = state_dim,
                                   .head_dim = head_dim,
                                   .output = out.data() + state.size()});
              return out;
            });
      }
    }
  }
}

TEST(AcrossSets, ShortConvolutions) {
  std::mt19937 random(27);
  for (const bool edges : {false, true}) {
    for (const std::size_t width : {1, 2, 3, 4, 8}) {
      for (const std::size_t channels : kLengths) {
        const auto inputs = mixed(width * channels, random, edges);
        const auto weights = mixed(width * channels, random, edges);
        const auto bias = mixed(channels, random, edges);
        std::vector<const float*> rows;
        for (std::size_t j = 0; j < width; ++j)
          rows.push_back(j == 0 && channels % 2 == 0 ? nullptr : inputs.data() + j * channels);
        expect_one_result("short_conv, " + std::to_string(width) + " x " + std::to_string(channels),
                          [&](const Kernels& kernels) {
                            std::vector<float> out(channels);
                            kernels.short_conv({.rows = rows.data(),
                                                .weights = weights.data(),
                                                .bias = channels % 3 == 0 ? nullptr : bias.data(),
                                                .width = width,
                                                .channels = channels,
                                                .output = out.data()});
                            return out;
                          });
      }
    }
  }
}

// Bytes and scales of prepared rows; the sums that follow them may differ in form.
TEST(AcrossSets, QuantisedActivations) {
  std::mt19937 random(24);
  for (const DataType type :
       {DataType::kQ8_0, DataType::kQ4_0, DataType::kQ4_K, DataType::kQ5_K, DataType::kQ6_K}) {
    const std::size_t block = info(type).elements_per_block;
    for (const std::size_t blocks : {1, 2, 3, 8, 11}) {
      const std::size_t k = block * blocks;
      for (const int variant : {0, 1, 2, 3}) {
        auto x = mixed(k, random, variant == 1);
        if (variant == 2) x[random() % k] = kInfinity;
        if (variant == 2) x[random() % k] = NAN;
        if (variant == 3) {
          for (float& value : x) value *= 0x1p-126F;
        }
        expect_one_result(
            std::string(info(type).name) + ", variant " + std::to_string(variant),
            [&](const Kernels& kernels) {
              const Prepared prepared(kernels, type, x.data(), 1, k);
              std::vector<float> out;
              for (std::size_t i = 0; i < k; ++i) {
                out.push_back(static_cast<float>(static_cast<std::int8_t>(prepared.data[i])));
              }
              const std::size_t scales = (k + 63) / 64 * 64;
              out.resize(k + blocks);
              std::memcpy(out.data() + k, prepared.data + scales, 4 * blocks);
              return out;
            });
      }
    }
  }
}

}  // namespace
}  // namespace dovetail::kernels
