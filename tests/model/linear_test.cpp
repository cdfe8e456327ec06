// Products of matrices whose columns are in an order of their own.

#include "model/cpu/linear.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "base/aligned_buffer.h"
#include "load/stored_parts.h"

namespace dovetail::model {
namespace {

using kernels::DataType;

constexpr std::size_t kColumns = 256, kOutputs = 40, kTokens = 3;

std::vector<std::uint32_t> shuffled(std::mt19937& random) {
  std::vector<std::uint32_t> order(kColumns);
  std::iota(order.begin(), order.end(), 0U);
  std::shuffle(order.begin(), order.end(), random);
  return order;
}

// Products of `tokens` by matrices, [matrix][token][row].
std::vector<float> multiply(const Linear& linear, const std::vector<float>& tokens,
                            std::size_t matrices) {
  std::vector<float> out(matrices * kTokens * kOutputs);
  AlignedBuffer prepared;
  prepared.reserve(kTokens * linear.row_bytes());
  for (std::size_t token = 0; token < kTokens; ++token)
    linear.prepare(tokens.data() + token * kColumns, token, kTokens, prepared.data());
  const auto at = [&](std::size_t matrix) {
    return Linear::Output{out.data() + matrix * kTokens * kOutputs, kOutputs};
  };
  for (std::uint32_t block = 0; block < 2; ++block) {
    if (matrices == 1) linear.multiply(block, 2, kTokens, prepared.data(), {at(0)});
    if (matrices == 4)
      linear.multiply(block, 2, kTokens, prepared.data(), {at(0), at(1), at(2), at(3)});
  }
  return out;
}

TEST(Linear, BringsRowsIntoEachMatrixsOrderOfColumns) {
  std::mt19937 random(20261128);
  std::uniform_real_distribution<float> number(-1.0F, 1.0F);
  std::vector<float> tokens(kTokens * kColumns);
  std::generate(tokens.begin(), tokens.end(), [&] { return number(random); });
  for (const kernels::Kernels* kernels : kernels::available_kernels()) {
    // Two matrices have one order, another has its own, the last one none.
    const std::vector<std::uint32_t> first = shuffled(random), second = shuffled(random);
    std::vector<load::StoredParts> parts(4);
    parts[0].order = std::make_shared<const std::vector<std::uint32_t>>(first);
    parts[1].order = std::make_shared<const std::vector<std::uint32_t>>(second);
    parts[2].order = std::make_shared<const std::vector<std::uint32_t>>(first);
    const std::size_t row_bytes = kernels::row_bytes(DataType::kINT8, kColumns);
    std::vector<std::vector<std::byte>> data(4, std::vector<std::byte>(kOutputs * row_bytes));
    std::vector<Matrix> matrices;
    for (std::size_t i = 0; i < 4; ++i) {
      for (std::byte& byte : data[i]) byte = static_cast<std::byte>(random());
      const float scale = 0.01F;
      for (std::size_t block = 0; block < data[i].size(); block += 36)
        std::memcpy(data[i].data() + block, &scale, sizeof scale);
      matrices.push_back({DataType::kINT8, kOutputs, kColumns, data[i].data(), false, &parts[i]});
    }
    const Linear all(*kernels, {&matrices[0], &matrices[1], &matrices[2], &matrices[3]});
    EXPECT_EQ(all.row_bytes(), 3 * kernels->activation_bytes(DataType::kINT8, kColumns));
    const std::vector<float> got = multiply(all, tokens, 4);
    for (std::size_t i = 0; i < 4; ++i) {
      Matrix plain = matrices[i];
      plain.parts = nullptr;
      std::vector<float> ordered = tokens;
      for (std::size_t c = 0; c < tokens.size() && parts[i].order; ++c) {
        const std::size_t token = c / kColumns * kColumns;
        ordered[c] = tokens[token + parts[i].order->at(c - token)];
      }
      const std::vector<float> wanted = multiply(Linear(*kernels, {&plain}), ordered, 1);
      const auto begin = got.begin() + static_cast<std::ptrdiff_t>(i * wanted.size());
      EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), begin)) << kernels->name << ", " << i;
    }
  }
}

}  // namespace
}  // namespace dovetail::model
