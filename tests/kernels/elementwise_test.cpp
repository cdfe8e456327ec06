#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "kernels/fixture.h"
#include "kernels/reference.h"

namespace dovetail::kernels {
namespace {

class Elementwise : public EachKernels {};

constexpr std::size_t kSizes[] = {1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 64, 100, 257, 2048, 2817};

TEST_P(Elementwise, RmsNorm) {
  std::mt19937 random(1);
  for (const std::size_t n : kSizes) {
    const auto x = reference::random_floats(n, random, 3);
    const auto weight = reference::random_floats(n, random);
    double sum = 0;
    for (const float v : x) sum += double{v} * v;
    const double scale = 1 / std::sqrt(sum / static_cast<double>(n) + 1e-5);
    std::vector<float> out(n, NAN);
    kernels().rms_norm(x.data(), weight.data(), n, 1e-5F, out.data());
    for (std::size_t i = 0; i < n; ++i) {
      EXPECT_NEAR(out[i], x[i] * scale * weight[i], 1e-6 * std::abs(x[i] * scale * weight[i]));
    }
    // In place and from another alignment: the same bits.
    std::vector<float> moved(n + 1);
    std::copy(x.begin(), x.end(), moved.begin() + 1);
    kernels().rms_norm(moved.data() + 1, weight.data(), n, 1e-5F, moved.data() + 1);
    for (std::size_t i = 0; i < n; ++i) EXPECT_EQ(moved[i + 1], out[i]);
    // Without weights as with ones.
    std::vector<float> bare(n, NAN);
    kernels().rms_norm(x.data(), nullptr, n, 1e-5F, bare.data());
    kernels().rms_norm(x.data(), std::vector<float>(n, 1.0F).data(), n, 1e-5F, out.data());
    EXPECT_EQ(bare, out);
  }
}

TEST_P(Elementwise, LayerNorm) {
  std::mt19937 random(11);
  for (const std::size_t n : kSizes) {
    SCOPED_TRACE(n);
    auto x = reference::random_floats(n, random, 3);
    for (float& v : x) v += 5.0F;
    const auto weight = reference::random_floats(n, random);
    const auto bias = reference::random_floats(n, random);
    const auto count = static_cast<double>(n);
    double mean = 0;
    for (const float v : x) mean += v / count;
    double variance = 0;
    for (const float v : x) variance += (v - mean) * (v - mean) / count;
    const double scale = 1 / std::sqrt(variance + 1e-5);
    for (const float* b : {bias.data(), static_cast<const float*>(nullptr)}) {
      for (const float* w : {weight.data(), static_cast<const float*>(nullptr)}) {
        std::vector<float> out(n, NAN);
        kernels().layer_norm(x.data(), w, b, n, 1e-5F, out.data());
        for (std::size_t i = 0; i < n; ++i) {
          const double product = (x[i] - mean) * scale * (w == nullptr ? 1 : w[i]);
          EXPECT_NEAR(out[i], product + (b == nullptr ? 0 : b[i]), 2e-6 * (1 + std::abs(product)));
        }
        std::vector<float> moved(n + 1);
        std::copy(x.begin(), x.end(), moved.begin() + 1);
        kernels().layer_norm(moved.data() + 1, w, b, n, 1e-5F, moved.data() + 1);
        for (std::size_t i = 0; i < n; ++i) EXPECT_EQ(moved[i + 1], out[i]);
      }
    }
  }
}

TEST_P(Elementwise, L2Norm) {
  std::mt19937 random(12);
  for (const std::size_t n : kSizes) {
    const auto x = reference::random_floats(n, random, 3);
    double sum = 0;
    for (const float v : x) sum += double{v} * v;
    std::vector<float> out(n, NAN);
    kernels().l2_norm(x.data(), n, 1e-6F, out.data());
    for (std::size_t i = 0; i < n; ++i) {
      const double expected = x[i] / std::sqrt(sum + 1e-6);
      EXPECT_NEAR(out[i], expected, 1e-6 * std::abs(expected));
    }
    std::vector<float> moved(n + 1);
    std::copy(x.begin(), x.end(), moved.begin() + 1);
    kernels().l2_norm(moved.data() + 1, n, 1e-6F, moved.data() + 1);
    for (std::size_t i = 0; i < n; ++i) EXPECT_EQ(moved[i + 1], out[i]);
    // Nothing is divided by zero.
    kernels().l2_norm(std::vector<float>(n, 0.0F).data(), n, 1e-6F, out.data());
    EXPECT_EQ(out, std::vector<float>(n, 0.0F));
  }
}

TEST_P(Elementwise, Rope) {
  std::mt19937 random(2);
  for (const std::size_t dim : {2, 8, 12, 64, 80, 128}) {
    for (const bool interleaved : {false, true}) {
      const auto head = reference::random_floats(dim, random);
      std::vector<float> cos(dim / 2);
      std::vector<float> sin(dim / 2);
      for (std::size_t i = 0; i < dim / 2; ++i) {
        cos[i] = std::cos(static_cast<float>(i) * 0.7F);
        sin[i] = std::sin(static_cast<float>(i) * 0.7F);
      }
      auto out = head;
      kernels().rope(out.data(), cos.data(), sin.data(), dim, interleaved);
      for (std::size_t i = 0; i < dim / 2; ++i) {
        const std::size_t a = interleaved ? 2 * i : i;
        const std::size_t b = interleaved ? 2 * i + 1 : i + dim / 2;
        EXPECT_NEAR(out[a], double{head[a]} * cos[i] - double{head[b]} * sin[i], 1e-6);
        EXPECT_NEAR(out[b], double{head[a]} * sin[i] + double{head[b]} * cos[i], 1e-6);
      }
    }
  }
}

TEST_P(Elementwise, SiluOverTheWholeRange) {
  // silu(g) with up = 1 + e^-g gives g back but for the exponential's error.
  std::vector<float> gate;
  for (float g = -104.0F; g < 104.0F; g += 0.0007F) gate.push_back(g);
  std::vector<float> up(gate.size(), 1.0F);
  std::vector<float> out(gate.size(), NAN);
  kernels().gate(Activation::kSilu, gate.data(), up.data(), gate.size(), out.data());
  double worst = 0;
  for (std::size_t i = 0; i < gate.size(); ++i) {
    const double expected = gate[i] / (1 + std::exp(-double{gate[i]}));
    if (std::abs(expected) < 1e-35) {
      EXPECT_NEAR(out[i], expected, 1e-35);
    } else {
      worst = std::max(worst, std::abs(out[i] / expected - 1));
    }
  }
  // The exponential's 2e-7, and three roundings of 6e-8.
  EXPECT_LT(worst, 3.8e-7);
  RecordProperty("worst", std::to_string(worst * 1e9));

  for (const std::size_t n : kSizes) {
    std::vector<float> moved(n + 1, 1.0F);
    kernels().gate(Activation::kSilu, gate.data() + gate.size() / 2, moved.data() + 1, n,
                   moved.data() + 1);
    for (std::size_t i = 0; i < n; ++i) EXPECT_EQ(moved[i + 1], out[gate.size() / 2 + i]);
  }
  const float ends[] = {-std::numeric_limits<float>::infinity(), -1e30F, 1e30F, NAN, 0.0F};
  float result[5];
  kernels().gate(Activation::kSilu, ends, std::vector<float>(5, 1.0F).data(), 5, result);
  EXPECT_TRUE(std::isnan(result[3]));
  EXPECT_EQ(result[1], 0.0F);
  EXPECT_EQ(result[2], 1e30F);
  EXPECT_EQ(result[4], 0.0F);
}

struct GateCase {
  Activation activation;
  long double (*exact)(long double gate, long double up);
};

long double clamped(long double x) { return std::clamp(x, -7.0L, 7.0L); }

constexpr GateCase kGates[] = {
    {Activation::kSilu, [](long double g, long double u) { return g / (1 + std::exp(-g)) * u; }},
    {Activation::kGeluTanh,
     [](long double g, long double u) {
       const long double root = std::sqrt(2 / std::acos(-1.0L));
       return g / 2 * (1 + std::tanh(root * (g + 0.044715L * g * g * g))) * u;
     }},
    {Activation::kGelu,
     [](long double g, long double u) { return g / 2 * (1 + std::erf(g / std::sqrt(2.0L))) * u; }},
    {Activation::kRelu2,
     [](long double g, long double u) { return std::max(g, 0.0L) * std::max(g, 0.0L) * u; }},
    {Activation::kClampedSwiglu,
     [](long double g, long double u) {
       g = std::min(g, 7.0L);
       return g / (1 + std::exp(-1.702L * g)) * (clamped(u) + 1);
     }},
};

TEST_P(Elementwise, GatesAreNearTheirDefinitions) {
  std::mt19937 random(13);
  std::vector<float> gate;
  for (float g = -60.0F; g < 60.0F; g += 0.0013F) gate.push_back(g);
  const auto up = reference::random_floats(gate.size(), random, 4);
  for (const GateCase& c : kGates) {
    SCOPED_TRACE(static_cast<int>(c.activation));
    std::vector<float> out(gate.size(), NAN);
    kernels().gate(c.activation, gate.data(), up.data(), gate.size(), out.data());
    double worst = 0;
    for (std::size_t i = 0; i < gate.size(); ++i) {
      double size = std::abs(double{gate[i]} * up[i]);
      if (c.activation == Activation::kRelu2) size *= std::abs(gate[i]);
      if (c.activation == Activation::kClampedSwiglu)
        size = std::abs(gate[i]) * (std::abs(static_cast<double>(clamped(up[i]))) + 1);
      const auto exact = static_cast<double>(c.exact(gate[i], up[i]));
      worst = std::max(worst, std::abs(out[i] - exact) / size);
    }
    EXPECT_LT(worst, 2e-7);
    RecordProperty("worst" + std::to_string(static_cast<int>(c.activation)),
                   std::to_string(worst * 1e9));
  }
}

// Not gated is gated with what changes nothing; in place and with any length: the same bits.
TEST_P(Elementwise, GatesWithoutUpAndInPlace) {
  std::mt19937 random(14);
  for (const GateCase& c : kGates) {
    SCOPED_TRACE(static_cast<int>(c.activation));
    for (const std::size_t n : kSizes) {
      const auto gate = reference::random_floats(n, random, 5);
      const float nothing = c.activation == Activation::kClampedSwiglu ? 0.0F : 1.0F;
      std::vector<float> out(n, NAN);
      std::vector<float> bare(n, NAN);
      std::vector<float> up(n, nothing);
      kernels().gate(c.activation, gate.data(), up.data(), n, out.data());
      kernels().gate(c.activation, gate.data(), nullptr, n, bare.data());
      EXPECT_EQ(bare, out);
      kernels().gate(c.activation, gate.data(), up.data(), n, up.data());
      EXPECT_EQ(up, out);
      std::vector<float> moved(n + 1);
      std::copy(gate.begin(), gate.end(), moved.begin() + 1);
      kernels().gate(c.activation, moved.data() + 1, nullptr, n, moved.data() + 1);
      for (std::size_t i = 0; i < n; ++i) EXPECT_EQ(moved[i + 1], out[i]);
    }
  }
}

TEST_P(Elementwise, GatesKeepWhatIsNoNumber) {
  for (const GateCase& c : kGates) {
    SCOPED_TRACE(static_cast<int>(c.activation));
    const float gate[] = {NAN, 1.0F, -1.0F, NAN, 1e30F, -1e30F};
    const float up[] = {1.0F, NAN, NAN, -9.0F, 1.0F, 1.0F};
    float out[6];
    kernels().gate(c.activation, gate, up, 6, out);
    for (const int i : {0, 1, 2, 3}) EXPECT_TRUE(std::isnan(out[i])) << i;
    EXPECT_GT(out[4], 6.0F);
    EXPECT_EQ(out[5], 0.0F);
    kernels().gate(c.activation, gate, nullptr, 1, out);
    EXPECT_TRUE(std::isnan(out[0]));
  }
}

long double xielu(const Xielu& curve, long double x) {
  const long double linear = curve.linear * x;
  if (x > 0) return curve.positive * x * x + linear;
  const long double m = std::min<long double>(x, curve.edge);
  return (std::expm1(m) - x) * curve.negative + linear;
}

TEST_P(Elementwise, XieluIsNearItsDefinition) {
  std::vector<float> x;
  for (float v = -60.0F; v < 60.0F; v += 0.0013F) x.push_back(v);
  for (float v = 1e-9F; v < 2.0F; v *= 1.01F) x.insert(x.end(), {v, -v});
  for (const Xielu curve : {Xielu(), Xielu{.positive = 3.0F, .negative = 0.3F, .linear = 0.2F},
                            Xielu{.positive = 0.01F, .negative = 5.0F, .edge = -0.25F}}) {
    std::vector<float> out(x.size(), NAN);
    kernels().xielu(curve, x.data(), x.size(), out.data());
    double worst = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double size = std::abs(x[i]);
      const double bound =
          x[i] > 0 ? size * (curve.positive * size + curve.linear)
                   : (curve.negative + curve.linear) * (size + std::abs(double{curve.edge}));
      const auto exact = static_cast<double>(xielu(curve, x[i]));
      worst = std::max(worst, std::abs(out[i] - exact) / bound);
    }
    EXPECT_LT(worst, 3e-7);
    RecordProperty("worst", std::to_string(worst * 1e9));
  }
}

TEST_P(Elementwise, XieluInPlaceOfAnyLength) {
  std::mt19937 random(17);
  const Xielu curve;
  for (const std::size_t n : kSizes) {
    const auto x = reference::random_floats(n, random, 3);
    std::vector<float> out(n, NAN);
    kernels().xielu(curve, x.data(), n, out.data());
    std::vector<float> moved(n + 1);
    std::copy(x.begin(), x.end(), moved.begin() + 1);
    kernels().xielu(curve, moved.data() + 1, n, moved.data() + 1);
    for (std::size_t i = 0; i < n; ++i) EXPECT_EQ(moved[i + 1], out[i]);
  }
  const float ends[] = {NAN, 1e15F, -1e15F, 0.0F};
  float out[4];
  kernels().xielu(curve, ends, 4, out);
  EXPECT_TRUE(std::isnan(out[0]));
  EXPECT_FLOAT_EQ(out[1], 8e29F);
  EXPECT_FLOAT_EQ(out[2], 3e14F);
  EXPECT_NEAR(out[3], -8e-7, 1e-12);  // e^edge - 1
}

TEST_P(Elementwise, MultiplyAndScale) {
  std::mt19937 random(15);
  for (const std::size_t n : kSizes) {
    const auto x = reference::random_floats(n, random);
    const auto y = reference::random_floats(n, random);
    auto product = x;
    kernels().multiply(product.data(), y.data(), n);
    auto scaled = x;
    kernels().scale(scaled.data(), 0.3F, n);
    for (std::size_t i = 0; i < n; ++i) {
      EXPECT_EQ(product[i], x[i] * y[i]);
      EXPECT_EQ(scaled[i], x[i] * 0.3F);
    }
  }
}

TEST_P(Elementwise, Add) {
  std::mt19937 random(3);
  for (const std::size_t n : kSizes) {
    const auto x = reference::random_floats(n, random);
    const auto y = reference::random_floats(n, random);
    auto out = x;
    kernels().add(out.data(), y.data(), n);
    for (std::size_t i = 0; i < n; ++i) EXPECT_EQ(out[i], x[i] + y[i]);
  }
}

TEST_P(Elementwise, AddScaled) {
  std::mt19937 random(4);
  for (const std::size_t n : kSizes) {
    const auto x = reference::random_floats(n, random);
    const auto y = reference::random_floats(n, random);
    auto out = x;
    kernels().add_scaled(out.data(), y.data(), 0.3F, n);
    for (std::size_t i = 0; i < n; ++i) EXPECT_EQ(out[i], x[i] + y[i] * 0.3F);
  }
}

// What a tile's first position has of these values, more of them than it has dimensions.
std::vector<double> through_cache(const Kernels& kernels, CacheType type,
                                  const std::vector<float>& x) {
  constexpr std::size_t kDims = 256;
  std::vector<double> out;
  for (std::size_t i = 0; i < x.size(); i += kDims) {
    const std::size_t n = std::min(kDims, x.size() - i);
    std::vector<std::byte> tile(cache_tile_bytes(type, n));
    kernels.store_value(type, x.data() + i, n, 0, tile.data());
    for (std::size_t d = 0; d < n; ++d)
      out.push_back(reference::cached(type, reference::Tile::kValues, tile.data(), n, 0, d));
  }
  return out;
}

TEST_P(Elementwise, StoreF32) {
  const std::vector<float> x = {1.0F, -0.0F, 3.25F};
  const auto out = through_cache(kernels(), CacheType::kF32, x);
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(out[i], x[i]);
}

// The definition: of the two that enclose a float, the nearer one, or the even one.
TEST_P(Elementwise, StoreBF16RoundsToNearestEven) {
  std::vector<float> x;
  std::vector<double> expected;
  const auto at = [](std::uint32_t bits) { return std::bit_cast<float>(bits << 16U); };
  for (std::uint32_t bits = 0; bits < 0x7f7f; bits += 3) {
    for (const float sign : {1.0F, -1.0F}) {
      const float low = sign * at(bits);
      const float high = sign * at(bits + 1);
      const float middle = std::bit_cast<float>(std::bit_cast<std::uint32_t>(low) + 0x8000U);
      x.insert(x.end(), {low, std::nextafter(middle, 0.0F), middle,
                         std::nextafter(middle, sign * std::numeric_limits<float>::max())});
      expected.insert(expected.end(), {low, low, bits % 2 == 0 ? low : high, high});
    }
  }
  x.insert(x.end(), {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::max()});
  expected.insert(expected.end(), 2, std::numeric_limits<double>::infinity());
  const auto out = through_cache(kernels(), CacheType::kBF16, x);
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(out[i], expected[i]) << x[i];
  EXPECT_TRUE(std::isnan(through_cache(kernels(), CacheType::kBF16, {NAN}).front()));
}

// A group whose largest number is 448 has a scale of 1: all codes come back, and what lies between
// two goes to the nearer one, or the even one.
TEST_P(Elementwise, StoreFP8RoundsToNearestEven) {
  std::vector<float> x;
  std::vector<double> expected;
  const auto put = [&](float value, double wanted) {
    if (x.size() % 64 == 0) {
      x.push_back(x.size() % 128 == 0 ? 448.0F : -448.0F);
      expected.push_back(x.back());
    }
    x.push_back(value);
    expected.push_back(wanted);
  };
  for (unsigned code = 0; code < 0x7e; ++code) {
    for (const float sign : {1.0F, -1.0F}) {
      const double low = reference::e4m3(code), high = reference::e4m3(code + 1);
      const auto middle = static_cast<float>((low + high) / 2);
      put(sign * static_cast<float>(low), sign * low);
      put(sign * std::nextafter(middle, 0.0F), sign * low);
      put(sign * middle, sign * (code % 2 == 0 ? low : high));
      put(sign * std::nextafter(middle, 1e9F), sign * high);
    }
  }
  while (x.size() % 64 != 0) put(0.0F, 0.0);
  const auto out = through_cache(kernels(), CacheType::kFP8, x);
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(out[i], expected[i]) << i << ": " << x[i];
}

// Within a sixteenth of each number, or half the smallest step of the largest's group of 64.
TEST_P(Elementwise, StoreFP8KeepsEachNumbersDigits) {
  std::mt19937 random(9);
  for (const std::size_t n : {1, 63, 64, 65, 80, 128, 200}) {
    auto x = reference::random_floats(n, random);
    for (std::size_t i = 0; i < n; ++i) x[i] *= std::ldexp(1.0F, static_cast<int>(i / 64) * 3 - 6);
    const auto out = through_cache(kernels(), CacheType::kFP8, x);
    for (std::size_t g = 0; g < n; g += 64) {
      double largest = 0;
      const std::size_t end = std::min(n, g + 64);
      for (std::size_t i = g; i < end; ++i) largest = std::max(largest, std::abs(double{x[i]}));
      for (std::size_t i = g; i < end; ++i) {
        const double step = largest / 448 * 1.001;
        ASSERT_NEAR(out[i], x[i], std::max(std::abs(double{x[i]}) / 15.9, step * 0x1p-10)) << i;
      }
    }
    EXPECT_EQ(through_cache(kernels(), CacheType::kFP8, std::vector<float>(n, 0.0F)),
              std::vector<double>(n, 0.0));
    x[0] = n % 2 == 0 ? NAN : std::numeric_limits<float>::infinity();
    const auto undefined = through_cache(kernels(), CacheType::kFP8, x);
    for (std::size_t i = 0; i < n; ++i) {
      if (i < 64)
        EXPECT_TRUE(std::isnan(undefined[i]));
      else
        EXPECT_EQ(undefined[i], out[i]);
    }
  }
}

// Within half a step of the largest's 127th, for every 32; a step is a half, which may be off by
// 2^-11 of it.
TEST_P(Elementwise, StoreQ8KeepsEachGroupsDigits) {
  std::mt19937 random(8);
  for (const std::size_t n : {1, 31, 32, 33, 80, 128, 256}) {
    auto x = reference::random_floats(n, random);
    for (std::size_t i = 0; i < n; ++i) x[i] *= std::ldexp(1.0F, static_cast<int>(i / 32) * 3 - 6);
    const auto out = through_cache(kernels(), CacheType::kQ8_0, x);
    for (std::size_t g = 0; g < n; g += 32) {
      double largest = 0;
      const std::size_t end = std::min(n, g + 32);
      for (std::size_t i = g; i < end; ++i) largest = std::max(largest, std::abs(double{x[i]}));
      for (std::size_t i = g; i < end; ++i)
        ASSERT_NEAR(out[i], x[i], largest / 127 * 0.502 + largest * 0x1p-11) << i;
    }
    // A group of zeros; one with what is no number, which the groups beside it do not show.
    EXPECT_EQ(through_cache(kernels(), CacheType::kQ8_0, std::vector<float>(n, 0.0F)),
              std::vector<double>(n, 0.0));
    x[0] = n % 2 == 0 ? NAN : std::numeric_limits<float>::infinity();
    const auto undefined = through_cache(kernels(), CacheType::kQ8_0, x);
    for (std::size_t i = 0; i < n; ++i) {
      if (i < 32)
        EXPECT_TRUE(std::isnan(undefined[i]));
      else
        EXPECT_EQ(undefined[i], out[i]);
    }
  }
}

// Round to nearest even, against the definition: no half is nearer, and of two equally near ones
// the even is taken. All halves, the points between them and the floats beside those.
TEST_P(Elementwise, StoreF16RoundsToNearestEven) {
  const auto half = [](unsigned bits) {
    std::byte bytes[2];
    reference::put_half(bytes, bits);
    return reference::half_at(bytes);
  };
  std::vector<float> x;
  std::vector<std::uint16_t> expected;
  for (unsigned bits = 0; bits < 0x7c00; ++bits) {
    const double next = bits == 0x7bff ? 65536.0 : half(bits + 1);
    const auto middle = static_cast<float>((half(bits) + next) / 2);  // exact
    for (const unsigned sign : {0U, 0x8000U}) {
      const float s = sign != 0 ? -1.0F : 1.0F;
      x.insert(x.end(), {s * static_cast<float>(half(bits)), s * std::nextafter(middle, 0.0F),
                         s * middle, s * std::nextafter(middle, 1e9F)});
      const auto even = static_cast<std::uint16_t>(sign | (bits + (bits & 1)));
      expected.insert(expected.end(), {static_cast<std::uint16_t>(sign | bits),
                                       static_cast<std::uint16_t>(sign | bits), even,
                                       static_cast<std::uint16_t>(sign | (bits + 1))});
    }
  }
  x.insert(x.end(), {std::numeric_limits<float>::infinity(), 1e30F});
  expected.insert(expected.end(), {0x7c00, 0x7c00});
  constexpr std::size_t kDims = 256;
  std::vector<std::uint16_t> out(kBlockSize * kDims);
  const auto store = [&](const float* from, std::size_t n) {
    kernels().store_value(CacheType::kF16, from, n, 0, reinterpret_cast<std::byte*>(out.data()));
  };
  for (std::size_t i = 0; i < x.size(); i += kDims) {
    const std::size_t n = std::min(kDims, x.size() - i);
    store(x.data() + i, n);
    for (std::size_t d = 0; d < n; ++d) ASSERT_EQ(out[d], expected[i + d]) << x[i + d];
  }
  const float nan = NAN;
  store(&nan, 1);
  EXPECT_GT(out[0] & 0x7fff, 0x7c00);
}

// Block types: see golden_test.cpp.
TEST_P(Elementwise, DequantizeRow) {
  std::mt19937 random(4);
  const auto floats = reference::random_floats(77, random);
  std::vector<float> same(77, NAN);
  kernels().dequantize_row(DataType::kF32, reinterpret_cast<const std::byte*>(floats.data()), 77,
                           same.data());
  ASSERT_EQ(same, floats);
  // Every half.
  std::vector<std::byte> halves(2 * 65536);
  for (unsigned i = 0; i < 65536; ++i) reference::put_half(halves.data() + 2 * i, i);
  std::vector<float> out(65536);
  kernels().dequantize_row(DataType::kF16, halves.data(), 65536, out.data());
  for (unsigned i = 0; i < 65536; ++i) {
    if ((i & 0x7fff) > 0x7c00) {
      ASSERT_TRUE(std::isnan(out[i]));
    } else if ((i & 0x7fff) == 0x7c00) {
      ASSERT_TRUE(std::isinf(out[i]));
    } else {
      ASSERT_EQ(out[i], reference::half_at(halves.data() + 2 * i)) << i;
    }
  }
}

TEST(Select, OffersThePortablePathLastAndFindsByName) {
  const auto all = available_kernels();
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all.back()->name, "portable");
  EXPECT_EQ(&best_kernels(), all.front());
  for (const Kernels* kernels : all) EXPECT_EQ(find_kernels(kernels->name), kernels);
  EXPECT_EQ(find_kernels("abacus"), nullptr);
}

INSTANTIATE_TEST_SUITE_P(All, Elementwise,
                         ::testing::ValuesIn(available_kernels().begin(),
                                             available_kernels().end()),
                         kernels_name);

}  // namespace
}  // namespace dovetail::kernels
