// Tasks that write into the executor's own memory.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "cores/machines.h"

namespace dovetail::cores {
namespace {

using testing::HasSubstr;

constexpr BufferId kOutputs = 7, kResults = 8;

class ExecutorOutputs : public OnMachines {};

INSTANTIATE_TEST_SUITE_P(Machines, ExecutorOutputs, testing::ValuesIn(kMachines));

std::uint64_t sum_of(std::span<const std::byte> bytes) {
  std::uint64_t sum = 0;
  for (const std::byte byte : bytes) sum = 31 * sum + static_cast<std::uint64_t>(byte);
  return sum;
}

// In every scope some producers fill bytes of their own, and a consumer adds them up. The ring is
// so small that bytes are used again while consumers still read.
TEST_P(ExecutorOutputs, AreUsedAgainOnlyWhenNoTaskReadsThemAnyMore) {
  for (const std::uint64_t capacity : {1024U, 4096U}) {
    ExecutorOptions with_outputs = options();
    with_outputs.outputs = OutputRingOptions{capacity, 64, 8};
    Executor executor(machine(), with_outputs);
    std::mt19937 random(5);
    constexpr std::size_t kScopes = 400;
    std::vector<std::uint64_t> results(kScopes), wanted(kScopes);
    using Outputs = std::vector<std::span<std::byte>>;
    std::vector<Outputs> read(kScopes);
    std::uint64_t asked = 0;
    for (std::size_t scope = 0; scope < kScopes; ++scope) {
      executor.begin_scope();
      Outputs& inputs = read[scope];
      std::vector<Access> reads;
      for (std::size_t producers = 1 + random() % 3; producers > 0; --producers) {
        const std::uint64_t size = 1 + random() % 250;
        const auto output = executor.allocate_output(size);
        ASSERT_TRUE(output) << output.error().message;
        ASSERT_EQ(output->bytes.size(), size);
        ASSERT_LE(output->offset + size, capacity);
        const auto fill = static_cast<std::byte>(random());
        const Region region(kOutputs, output->offset, size);
        expect_submits(executor, producers % 2 == 0 ? kVector : kMatrix,
                       [bytes = output->bytes, fill](const Part&) {
                         std::fill(bytes.begin(), bytes.end(), fill);
                       },
                       {{region, AccessMode::kWrite}});
        inputs.push_back(output->bytes);
        reads.push_back({region, AccessMode::kRead});
        wanted[scope] += sum_of(std::vector<std::byte>(size, fill));
        asked += size;
      }
      reads.push_back({Region(kResults, 8 * scope, 8), AccessMode::kWrite});
      expect_submits(
          executor, kVector,
          [&inputs, &result = results[scope]](const Part&) {
            for (const std::span<std::byte> bytes : inputs) result += sum_of(bytes);
          },
          reads);
      executor.end_scope();
    }
    ASSERT_TRUE(executor.wait());
    EXPECT_EQ(results, wanted);
    EXPECT_GT(asked, 10 * capacity) << "no byte was used again";
  }
}

TEST_P(ExecutorOutputs, ThatCanNeverFitAreRefusedAndNothingIsLost) {
  ExecutorOptions with_outputs = options();
  with_outputs.outputs = OutputRingOptions{1024, 64, 8};
  Executor executor(machine(), with_outputs);
  for (int round = 0; round < 3; ++round) {
    int ran = 0;
    executor.begin_scope();
    const auto first = executor.allocate_output(700);
    ASSERT_TRUE(first) << first.error().message;
    expect_submits(executor, kVector, [&ran](const Part&) { ++ran; });
    const auto second = executor.allocate_output(400);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().kind, ErrorKind::kInvalid);
    EXPECT_THAT(second.error().message, HasSubstr("deadlock: task"));
    EXPECT_THAT(second.error().message, HasSubstr("OutputRingOptions::bytes"));
    executor.end_scope();
    ASSERT_TRUE(executor.allocate_output(1024)) << "after the task has ended, all there is";
    expect_submits(executor, kVector, [&ran](const Part&) { ++ran; });
    ASSERT_TRUE(executor.wait());
    EXPECT_EQ(ran, 2);
  }
}

TEST(ExecutorOutputMemory, SaysHowMuchWasInUse) {
  ExecutorOptions options;
  options.outputs = OutputRingOptions{1024, 64, 8};
  Executor executor(topology("1x(2L)"), options);
  executor.begin_scope();
  for (const std::uint64_t bytes : {128U, 64U}) {
    ASSERT_TRUE(executor.allocate_output(bytes));
    expect_submits(executor, kVector, [](const Part&) {});
  }
  executor.end_scope();
  ASSERT_TRUE(executor.wait());
  ASSERT_TRUE(executor.allocate_output(64));
  EXPECT_EQ(executor.high_water().outputs.bytes, 192U);
  EXPECT_EQ(executor.high_water().outputs.tasks, 2U);
  EXPECT_EQ(Executor(topology("1x(2L)"), {}).high_water().outputs.bytes, 0U);
}

TEST(ExecutorOutputMemory, IsThereWhereItIsAskedFor) {
  Executor executor(topology("1x(2L)"), {});
  const auto output = executor.allocate_output(8);
  ASSERT_FALSE(output);
  EXPECT_THAT(output.error().message, HasSubstr("ExecutorOptions::outputs gives none"));
}

}  // namespace
}  // namespace dovetail::cores
