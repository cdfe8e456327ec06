#include "study/repeated_context.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "families/open_model.h"
#include "support/changed_backend.h"
#include "support/places.h"

namespace dovetail::study {
namespace {

constexpr std::uint32_t kChunk = 144;  // no multiple of what entries are made of
constexpr std::uint32_t kPrompt = 1500;

// A model of the goldens, or one that comes along, that says it was made for longer contexts.
std::shared_ptr<const load::ModelSource> long_model(const std::string& name) {
  const char* folder = name.starts_with("demo") ? "models" : "tests/golden/models";
  const auto opened =
      families::open_model(std::filesystem::path(test::source_dir()) / folder / name);
  EXPECT_TRUE(opened) << opened.error().message;
  auto copy = std::make_shared<load::ModelSource>(**opened);
  copy->config.max_context = 2 * kPrompt;
  return copy;
}

class RepeatedContexts : public testing::TestWithParam<const char*> {
 protected:
  // Computes a prompt and some tokens behind it, twice, so that the second one finds the first
  // one's blocks and states.
  void generate(engine::OpenBackend open) {
    EngineOptions options;
    options.threads = 2;
    options.max_num_seqs = 1;
    options.max_num_batched_tokens = kChunk;
    options.prefix_cache = true;
    options.poison_freed_blocks = true;
    engine::StepHooks hooks;
    hooks.open_backend = std::move(open);
    hooks.after_sampling = [this](const schedule::StepPlan& plan, const schedule::StepResult&,
                                  std::span<const std::span<const float>> logits) {
      cached_ = plan.admitted.empty() ? cached_ : plan.admitted.front().cached_tokens;
      for (const std::span<const float> rows : logits) {
        for (const float logit : rows) finite_ = finite_ && std::isfinite(logit);
        outputs_ += rows.empty() ? 0 : 1;
      }
    };
    const auto source = long_model(GetParam());
    auto loop = engine::StepLoop::create(source, std::nullopt, options, std::move(hooks));
    ASSERT_TRUE(loop) << loop.error().message;
    std::mt19937 random(3);
    Request request;
    for (std::uint32_t i = 0; i < kPrompt; ++i)
      request.prompt.push_back(static_cast<TokenId>(random() % source->config.vocab_size));
    request.max_tokens = 20;
    request.ignore_eos = true;
    for (RequestId id = 1; id <= 2; ++id) {
      ASSERT_TRUE((*loop)->validate(request));
      ASSERT_TRUE((*loop)->add(id, request, [](const OutputEvent&) {}));
      while (!(*loop)->idle()) ASSERT_TRUE((*loop)->step());
    }
  }

  std::uint32_t cached_ = 0;   // tokens that the last admission found
  std::uint32_t outputs_ = 0;  // rows with logits
  bool finite_ = true;         // all logits
};

// Freed and unwritten blocks are NaN: what is not copied shows.
TEST_P(RepeatedContexts, AreOfFiniteRowsAndFewTokens) {
  std::size_t computed = 0;
  const auto count = [&](std::vector<model::Segment>& segments) {
    for (const model::Segment& segment : segments) {
      computed += segment.tokens.size();
      if (segment.first_position >= kComputedContext) {
        EXPECT_LE(segment.tokens.size(), 32U);
      }
    }
  };
  generate(repeat_contexts(test::with_changed_segments(count)));
  EXPECT_TRUE(finite_);
  EXPECT_EQ(outputs_, 40U);
  EXPECT_GE(cached_, kPrompt - 32);
  EXPECT_LT(computed, kPrompt * 2 / 3);
}

INSTANTIATE_TEST_SUITE_P(All, RepeatedContexts,
                         testing::Values("llama3-tiny", "mistral-tiny", "gemma3-tiny",
                                         "deepseek-v3-tiny", "deepseek-v32-tiny",
                                         "deepseek-v4-tiny", "demo-v4-tiny", "qwen3-next-tiny",
                                         "lfm2-tiny"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace dovetail::study
