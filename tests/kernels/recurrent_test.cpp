// Layers whose state has one size: gated delta rules, state spaces and short convolutions.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include "kernels/fixture.h"
#include "kernels/reference.h"

namespace dovetail::kernels {
namespace {

class Recurrent : public EachKernels {};

std::vector<float> unit(std::size_t n, std::mt19937& random) {
  auto x = reference::random_floats(n, random);
  double sum = 0;
  for (const float v : x) sum += double{v} * v;
  for (float& v : x) v = static_cast<float>(v / std::sqrt(sum));
  return x;
}

// Some tokens after each other against the definition in double.
TEST_P(Recurrent, DeltaRuleIsNearItsDefinition) {
  struct Case {
    std::size_t key_dim, value_dim;
  };
  std::mt19937 random(31);
  for (const Case& c : std::initializer_list<Case>{
           {1, 1}, {4, 7}, {16, 16}, {5, 33}, {64, 128}, {128, 128}, {128, 200}}) {
    SCOPED_TRACE(fmt::format("{} x {}", c.key_dim, c.value_dim));
    std::vector<float> state(c.key_dim * c.value_dim, 0.0F);
    std::vector<double> expected(state.size(), 0.0);
    for (int token = 0; token < 20; ++token) {
      const auto query = unit(c.key_dim, random);
      const auto key = unit(c.key_dim, random);
      const auto value = reference::random_floats(c.value_dim, random);
      const float decay = 1.0F - static_cast<float>(random() % 100) * 0.002F;
      const float beta = static_cast<float>(random() % 100) * 0.01F;
      std::vector<float> output(c.value_dim, NAN);
      kernels().delta_rule({.state = state.data(),
                            .query = query.data(),
                            .key = key.data(),
                            .value = value.data(),
                            .decay = decay,
                            .beta = beta,
                            .key_dim = c.key_dim,
                            .value_dim = c.value_dim,
                            .output = output.data()});
      for (double& s : expected) s *= decay;
      for (std::size_t v = 0; v < c.value_dim; ++v) {
        double known = 0;
        for (std::size_t k = 0; k < c.key_dim; ++k) known += expected[k * c.value_dim + v] * key[k];
        const double change = (value[v] - known) * beta;
        double read = 0;
        for (std::size_t k = 0; k < c.key_dim; ++k) {
          double& s = expected[k * c.value_dim + v];
          s += key[k] * change;
          read += s * query[k];
        }
        ASSERT_NEAR(output[v], read, 1e-5) << "token " << token << " value " << v;
      }
    }
    for (std::size_t i = 0; i < state.size(); ++i) ASSERT_NEAR(state[i], expected[i], 1e-5) << i;
  }
}

// A column has the same bits alone, at any address, and where the output is the value.
TEST_P(Recurrent, DeltaRuleColumnsHaveTheSameBitsAlone) {
  std::mt19937 random(32);
  constexpr std::size_t kKeyDim = 40;
  constexpr std::size_t kValueDim = 203;
  const auto state = reference::random_floats(kKeyDim * kValueDim, random);
  const auto query = unit(kKeyDim, random);
  const auto key = unit(kKeyDim, random);
  const auto value = reference::random_floats(kValueDim, random);
  auto whole = state;
  auto output = value;
  DeltaRuleArgs args{.state = whole.data(),
                     .query = query.data(),
                     .key = key.data(),
                     .value = output.data(),
                     .decay = 0.9F,
                     .beta = 0.6F,
                     .key_dim = kKeyDim,
                     .value_dim = kValueDim,
                     .output = output.data()};
  kernels().delta_rule(args);
  for (const std::size_t begin : {0, 1, 15, 64, 128, 202}) {
    for (const std::size_t width : {1, 3, 16, 70}) {
      if (begin + width > kValueDim) continue;
      std::vector<float> part(1);  // one float off whatever alignment there is
      for (std::size_t k = 0; k < kKeyDim; ++k) {
        for (std::size_t v = 0; v < width; ++v) part.push_back(state[k * kValueDim + begin + v]);
      }
      std::vector<float> out(width + 1, NAN);
      args.state = part.data() + 1;
      args.value = value.data() + begin;
      args.value_dim = width;
      args.output = out.data();
      kernels().delta_rule(args);
      EXPECT_TRUE(std::isnan(out[width]));
      for (std::size_t v = 0; v < width; ++v) {
        ASSERT_EQ(out[v], output[begin + v]);
        for (std::size_t k = 0; k < kKeyDim; ++k)
          ASSERT_EQ(part[1 + k * width + v], whole[k * kValueDim + begin + v]);
      }
    }
  }
}

// Some tokens after each other against the definition in double.
TEST_P(Recurrent, StateSpaceIsNearItsDefinition) {
  struct Case {
    std::size_t state_dim, head_dim;
  };
  std::mt19937 random(34);
  for (const Case& c : std::initializer_list<Case>{
           {1, 1}, {4, 7}, {16, 16}, {5, 33}, {128, 64}, {64, 128}, {256, 200}}) {
    SCOPED_TRACE(fmt::format("{} x {}", c.state_dim, c.head_dim));
    std::vector<float> state(c.state_dim * c.head_dim, 0.0F);
    std::vector<double> expected(state.size(), 0.0);
    for (int token = 0; token < 20; ++token) {
      const auto write = unit(c.state_dim, random);
      const auto read = unit(c.state_dim, random);
      const auto input = reference::random_floats(c.head_dim, random);
      const float decay = 1.0F - static_cast<float>(random() % 100) * 0.005F;
      const float step = static_cast<float>(random() % 100) * 0.01F;
      const float skip = static_cast<float>(random() % 100) * 0.02F - 1.0F;
      std::vector<float> output(c.head_dim, NAN);
      kernels().state_space({.state = state.data(),
                             .input = input.data(),
                             .write = write.data(),
                             .read = read.data(),
                             .decay = decay,
                             .step = step,
                             .skip = skip,
                             .state_dim = c.state_dim,
                             .head_dim = c.head_dim,
                             .output = output.data()});
      for (std::size_t h = 0; h < c.head_dim; ++h) {
        double sum = double{skip} * input[h];
        for (std::size_t k = 0; k < c.state_dim; ++k) {
          double& s = expected[k * c.head_dim + h];
          s = s * decay + double{write[k]} * step * input[h];
          sum += s * read[k];
        }
        ASSERT_NEAR(output[h], sum, 1e-5) << "token " << token << " element " << h;
      }
    }
    for (std::size_t i = 0; i < state.size(); ++i) ASSERT_NEAR(state[i], expected[i], 1e-5) << i;
  }
}

// An element has the same bits alone, at any address, and where the output is the input.
TEST_P(Recurrent, StateSpaceColumnsHaveTheSameBitsAlone) {
  std::mt19937 random(35);
  constexpr std::size_t kStateDim = 40;
  constexpr std::size_t kHeadDim = 203;
  const auto state = reference::random_floats(kStateDim * kHeadDim, random);
  const auto write = unit(kStateDim, random);
  const auto read = unit(kStateDim, random);
  const auto input = reference::random_floats(kHeadDim, random);
  auto whole = state;
  auto output = input;
  StateSpaceArgs args{.state = whole.data(),
                      .input = output.data(),
                      .write = write.data(),
                      .read = read.data(),
                      .decay = 0.9F,
                      .step = 0.6F,
                      .skip = 0.3F,
                      .state_dim = kStateDim,
                      .head_dim = kHeadDim,
                      .output = output.data()};
  kernels().state_space(args);
  for (const std::size_t begin : {0, 1, 15, 64, 128, 202}) {
    for (const std::size_t width : {1, 3, 16, 70}) {
      if (begin + width > kHeadDim) continue;
      std::vector<float> part(1);  // one float off whatever alignment there is
      for (std::size_t k = 0; k < kStateDim; ++k) {
        for (std::size_t h = 0; h < width; ++h) part.push_back(state[k * kHeadDim + begin + h]);
      }
      std::vector<float> out(width + 1, NAN);
      args.state = part.data() + 1;
      args.input = input.data() + begin;
      args.head_dim = width;
      args.output = out.data();
      kernels().state_space(args);
      EXPECT_TRUE(std::isnan(out[width]));
      for (std::size_t h = 0; h < width; ++h) {
        ASSERT_EQ(out[h], output[begin + h]);
        for (std::size_t k = 0; k < kStateDim; ++k)
          ASSERT_EQ(part[1 + k * width + h], whole[k * kHeadDim + begin + h]);
      }
    }
  }
}

TEST_P(Recurrent, ShortConvIsNearItsDefinition) {
  std::mt19937 random(33);
  for (const std::size_t width : {2, 3, 4, 8}) {
    for (const std::size_t channels : {1, 15, 16, 17, 64, 100}) {
      for (const bool biased : {false, true}) {
        SCOPED_TRACE(fmt::format("{} x {} biased={}", width, channels, biased));
        auto inputs = reference::random_floats(width * channels, random);
        const auto weights = reference::random_floats(width * channels, random);
        const auto bias = reference::random_floats(channels, random);
        for (const std::size_t missing : {std::size_t{0}, std::size_t{1}, width - 1}) {
          // Rows before the beginning: none, as zeros, whatever else is in memory.
          std::vector<const float*> rows(width, nullptr);
          for (std::size_t j = missing; j < width; ++j) rows[j] = inputs.data() + j * channels;
          std::vector<float> output(channels + 1, NAN);
          const ShortConvArgs args{.rows = rows.data(),
                                   .weights = weights.data(),
                                   .bias = biased ? bias.data() : nullptr,
                                   .width = width,
                                   .channels = channels,
                                   .output = output.data()};
          kernels().short_conv(args);
          EXPECT_TRUE(std::isnan(output[channels]));
          for (std::size_t c = 0; c < channels; ++c) {
            double expected = biased ? bias[c] : 0.0;
            for (std::size_t j = missing; j < width; ++j)
              expected += double{inputs[j * channels + c]} * weights[j * channels + c];
            ASSERT_NEAR(output[c], expected, 2e-6) << c;
          }
          const std::vector<float> zeros(channels, 0.0F);
          for (std::size_t j = 0; j < missing; ++j) rows[j] = zeros.data();
          std::vector<float> same(channels, NAN);
          ShortConvArgs with_zeros = args;
          with_zeros.output = same.data();
          kernels().short_conv(with_zeros);
          for (std::size_t c = 0; c < channels; ++c) ASSERT_EQ(same[c], output[c]);
        }
        // In place of the newest row.
        std::vector<const float*> rows;
        for (std::size_t j = 0; j < width; ++j) rows.push_back(inputs.data() + j * channels);
        std::vector<float> output(channels, NAN);
        ShortConvArgs args{.rows = rows.data(),
                           .weights = weights.data(),
                           .width = width,
                           .channels = channels,
                           .output = output.data()};
        kernels().short_conv(args);
        args.output = inputs.data() + (width - 1) * channels;
        kernels().short_conv(args);
        for (std::size_t c = 0; c < channels; ++c) ASSERT_EQ(args.output[c], output[c]);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Recurrent,
                         ::testing::ValuesIn(available_kernels().begin(),
                                             available_kernels().end()),
                         kernels_name);

}  // namespace
}  // namespace dovetail::kernels
