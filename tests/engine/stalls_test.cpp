// A step that stands still is told, and changes nothing.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/engine_fixture.h"
#include "engine/step_loop.h"
#include "kernels/kernels.h"
#include "support/changed_backend.h"

namespace dovetail {
namespace {

using namespace std::chrono_literals;
using test::Answer;
using test::Collector;

// Called by kernels, which have no other context.
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
    hooks.open_backend = test::with_kernels(kernels);
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
