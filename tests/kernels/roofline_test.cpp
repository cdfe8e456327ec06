#include "kernels/roofline.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/kernels.h"

namespace dovetail::kernels {
namespace {

// What a round adds is the same in each: no product is left out, or taken out of the loop.
void expect_equal_rounds(const RooflineLoop& loop) {
  ASSERT_NE(loop.run, nullptr);
  EXPECT_GT(loop.products, 0U);
  const double none = loop.run(0);
  const double one = loop.run(1000) - none;
  EXPECT_GT(one, 0.0);
  EXPECT_NEAR(loop.run(4000) - none, 4.0 * one, 0.01 * one);
}

TEST(Roofline, EveryRoundOfEverySetAddsItsProducts) {
  for (const Kernels* kernels : available_kernels()) {
    SCOPED_TRACE(std::string(kernels->name));
    const Roofline roofline = roofline_of(kernels->name);
    expect_equal_rounds(roofline.bytes);
    expect_equal_rounds(roofline.floats);
    if (kernels->rounds_bf16) {
      expect_equal_rounds(roofline.bf16);
    } else {
      EXPECT_EQ(roofline.bf16.run, nullptr);
    }
  }
}

TEST(Roofline, ReadsAllOfTheMemory) {
  std::vector<std::byte> memory(64 * 5);
  EXPECT_EQ(read_memory(memory.data(), memory.size()), 0U);
  for (std::size_t i = 0; i < memory.size(); ++i) {
    memory[i] = std::byte{1};
    EXPECT_NE(read_memory(memory.data(), memory.size()), 0U) << i;
    memory[i] = std::byte{0};
  }
}

}  // namespace
}  // namespace dovetail::kernels
