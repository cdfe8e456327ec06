// What the engine makes of its executor: lanes in any groups give the same bits, and what stands
// still is told.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cores/executor.h"
#include "engine/engine_fixture.h"
#include "engine/step_loop.h"
#include "kernels/kernels.h"
#include "model/cache.h"
#include "model/dense.h"

namespace dovetail {
namespace {

using namespace std::chrono_literals;
using test::Answer;
using test::Collector;

constexpr std::uint32_t kPrompt = 600;  // several tiles of rows
constexpr std::uint32_t kSequences = 5;

// The logits of a long prompt beside short ones, and of a decode step of all of them.
std::vector<float> logits_on(const char* lanes, const std::shared_ptr<load::ModelSource>& source) {
  cores::Executor executor(*cores::Topology::parse(lanes), {});
  model::DenseModel model(source, kernels::best_kernels(), executor);
  const auto blocks = static_cast<std::uint32_t>(kPrompt / kernels::kBlockSize + 1);
  const auto cache =
      model::Cache::create(model.cache_shape(kernels::CacheType::kF32), kSequences * blocks);
  std::vector<std::int32_t> tokens;
  for (std::uint32_t i = 0; i < kPrompt + 1; ++i)
    tokens.push_back(static_cast<std::int32_t>(i * 31 % source->config.vocab_size));
  std::vector<std::vector<std::uint32_t>> tables(kSequences);
  for (std::uint32_t i = 0; i < kSequences * blocks; ++i) tables[i / blocks].push_back(i);
  std::vector<model::Segment> read, decode;
  for (std::uint32_t i = 0; i < kSequences; ++i) {
    const std::uint32_t length = i == 0 ? kPrompt : 3 + 7 * i;
    read.push_back({std::span(tokens).first(length), 0, tables[i], 1});
    decode.push_back({std::span(tokens).subspan(length, 1), length, tables[i], 1});
  }
  const std::size_t each = kSequences * source->config.vocab_size;
  std::vector<float> logits(2 * each);
  model.forward(read, *cache, std::span(logits).first(each));
  model.forward(decode, *cache, std::span(logits).last(each));
  return logits;
}

TEST(EngineLanes, InAnyGroupsGiveTheSameBits) {
  test::RandomModelOptions options;
  options.max_context = kPrompt + 1;
  const auto source = test::random_model(options);
  const std::vector<float> alone = logits_on("1x(1L)", source);
  for (const char* lanes : {"1x(4L)", "2x(2L)", "3x(1L)", "1x(3L)+1x(1L)"}) {
    const std::vector<float> grouped = logits_on(lanes, source);
    EXPECT_EQ(std::memcmp(grouped.data(), alone.data(), alone.size() * sizeof(float)), 0) << lanes;
  }
}

// Called by kernels, which know of nobody else.
std::atomic<void (*)()> before_norm{nullptr};

kernels::Kernels kernels_that_wait() {
  kernels::Kernels kernels = kernels::best_kernels();
  kernels.rms_norm = [](const float* x, const float* weight, std::size_t n, float epsilon,
                        float* out) {
    if (const auto wait = before_norm.load()) wait();
    kernels::best_kernels().rms_norm(x, weight, n, epsilon, out);
  };
  return kernels;
}

class EngineStalls : public test::EngineTest {
 protected:
  // The answer to a request, where each step's norms are preceded by `wait`.
  Answer answer(void (*wait)()) {
    const kernels::Kernels kernels = kernels_that_wait();
    engine::StepHooks hooks;
    hooks.kernels = &kernels;
    auto loop = engine::StepLoop::create(source_, std::nullopt, options_, hooks);
    EXPECT_TRUE(loop.has_value());
    Collector collector;
    EXPECT_TRUE((*loop)->add(1, request(7, 5), collector.sink(0)));
    before_norm = wait;
    while (!(*loop)->idle()) EXPECT_TRUE((*loop)->step());
    before_norm = nullptr;
    return collector.answer(0);
  }
};

std::atomic<bool> told{false};

TEST_F(EngineStalls, AreToldAndChangeNoAnswer) {
  const std::vector<TokenId> tokens = answer(nullptr).tokens;
  ASSERT_EQ(tokens.size(), 5U);
  std::mutex lock;
  std::vector<std::string> messages;
  options_.stall_limit = 1ms;
  options_.on_stall = [&](const std::string& message) {
    const std::lock_guard guard(lock);
    messages.push_back(message);
    told = true;
  };
  for (const bool async : {false, true}) {
    options_.async_scheduling = async;
    messages.clear();
    told = false;
    const auto until_told = [] {
      while (!told) std::this_thread::sleep_for(1ms);
    };
    EXPECT_EQ(answer(until_told).tokens, tokens);
    ASSERT_THAT(messages, testing::Not(testing::IsEmpty()));
    EXPECT_THAT(
        messages.front(),
        testing::AllOf(testing::StartsWith("step 0: nothing has ended for "),
                       testing::HasSubstr(", on group "), testing::HasSubstr("raise stall_limit")));
  }
}

TEST_F(EngineStalls, AreNotToldWithoutALimit) {
  options_.stall_limit = 0ms;
  std::atomic<int> messages{0};
  options_.on_stall = [&](const std::string&) { ++messages; };
  const auto dawdle = [] { std::this_thread::sleep_for(1ms); };
  EXPECT_EQ(answer(dawdle).tokens.size(), 5U);
  EXPECT_EQ(messages, 0);
}

}  // namespace
}  // namespace dovetail
