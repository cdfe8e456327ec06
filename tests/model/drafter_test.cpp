// The layer that drafts tokens, against an independent implementation
// (tools/golden/deepseek_attention.py, qwen_draft.py), however the prompt is cut.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "cores/executor.h"
#include "families/gguf_v4.h"
#include "families/open_model.h"
#include "kernels/kernels.h"
#include "model/cpu/cpu_backend.h"
#include "model/cpu/weights.h"
#include "support/places.h"
#include "support/sanitized.h"
#include "support/temp_folder.h"

namespace dovetail::model::drafts {
namespace {

std::filesystem::path folder_of(const char* name) {
  return std::filesystem::path(test::source_dir()) / "tests/golden/models" / name;
}

// The model, or the same one as a GGUF file (make_ggufs.py).
std::filesystem::path model_of(const char* name) {
  const char* ggufs = std::getenv("DOVETAIL_GOLDEN_GGUFS");
  return ggufs == nullptr ? folder_of(name)
                          : std::filesystem::path(ggufs) / (std::string(name) + ".gguf");
}

// The best that multiply activations as they are: references do not round them to BF16.
const kernels::Kernels& exact_kernels() {
  const auto all = kernels::available_kernels();
  return **std::ranges::find_if(all, [](const auto* kernels) { return !kernels->rounds_bf16; });
}

struct Opened {
  Opened(const std::filesystem::path& path, std::uint32_t lanes)
      : source(*families::open_model(path)), executor(cores::Topology::of_lanes(lanes), {}) {
    BackendOptions options;
    options.cache = cache_shape(source->config, kernels::CacheType::kF32, true);
    options.blocks = 32;
    options.slots = 2;
    options.draft_tokens = 4;
    backend = *open_cpu(source, options, exact_kernels(), executor, {});
    std::vector<std::uint32_t> all(32);
    std::iota(all.begin(), all.end(), 0U);
    backend->poison_blocks(all);
  }
  std::shared_ptr<const load::ModelSource> source;
  cores::Executor executor;
  std::unique_ptr<Backend> backend;
};

class Drafter : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const auto model = families::open_model(model_of(GetParam()));
    ASSERT_TRUE(model) << model.error().message;
    if (!(*model)->config.draft_layer) GTEST_SKIP() << "a GGUF file without the layer";
  }
};

// Of a prompt in chunks, `wanted` behind its first token.
std::vector<std::int32_t> drafts_of(Opened& setup, std::span<const std::int32_t> prompt,
                                    std::size_t chunk, std::int32_t first, std::size_t wanted) {
  std::vector<std::uint32_t> table(32);
  std::iota(table.begin(), table.end(), 0U);
  std::vector<float> logits(setup.source->config.vocab_size);
  for (std::size_t at = 0; at < prompt.size(); at += chunk) {
    const std::size_t count = std::min(chunk, prompt.size() - at);
    const bool last = at + count == prompt.size();
    Segment segment;
    segment.tokens = prompt.subspan(at, count);
    segment.first_position = static_cast<std::uint32_t>(at);
    segment.block_table = table;
    segment.logit_rows = last ? 1 : 0;
    segment.slot = 1;
    if (!last) segment.next = prompt[at + count];
    EXPECT_TRUE(setup.backend->forward(std::span(&segment, 1),
                                       last ? std::span(logits) : std::span<float>(), {}));
  }
  std::vector<std::int32_t> drafts(wanted);
  const DraftRow row = {.slot = 1,
                        .row = 0,
                        .position = static_cast<std::uint32_t>(prompt.size() - 1),
                        .token = first,
                        .block_table = table,
                        .drafts = drafts};
  EXPECT_TRUE(setup.backend->draft(std::span(&row, 1)));
  return drafts;
}

TEST_P(Drafter, DraftsWhatTheReferenceDoes) {
  std::ifstream file(folder_of(GetParam()) / "golden.json");
  const auto golden = nlohmann::json::parse(file);
  for (const std::size_t chunk : {1000U, 16U, 5U}) {
    if (test::kSanitized && chunk != 16) continue;
    Opened setup(model_of(GetParam()), chunk == 16 ? 2 : 1);
    for (std::size_t i = 0; i < golden["prompts"].size(); ++i) {
      const auto prompt = golden["prompts"][i].get<std::vector<std::int32_t>>();
      const auto first = golden["greedy"][i][0].get<std::int32_t>();
      const auto& wanted = golden[golden.contains("drafts") ? "drafts" : "draft"][i];
      const auto all = wanted.is_array() ? wanted.get<std::vector<std::int32_t>>()
                                         : std::vector{wanted.get<std::int32_t>()};
      // Long prompts take long in small chunks, and a chain begins as a shorter one does.
      const bool is_long = prompt.size() > 120;
      if (is_long && chunk == 5) continue;
      for (std::size_t count = is_long ? all.size() : 1; count <= all.size(); ++count) {
        EXPECT_EQ(drafts_of(setup, prompt, chunk, first, count),
                  std::vector(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count)))
            << "prompt " << i << ", chunks of " << chunk;
      }
    }
  }
}

// Its weights are not there where nothing drafts.
TEST_P(Drafter, IsLeftOutWhereNothingDrafts) {
  const auto source = *families::open_model(model_of(GetParam()));
  const kernels::Kernels& kernels = exact_kernels();
  const std::string name = source->config.draft_prefix() + "nextn.enorm.weight";
  EXPECT_TRUE(bind_weights(source, kernels).matrices.contains(name));
  const ModelWeights weights = bind_weights(source, kernels, false);
  EXPECT_FALSE(weights.matrices.contains(name));
  EXPECT_TRUE(weights.matrices.contains("blk.0.attn_norm.weight"));
}

INSTANTIATE_TEST_SUITE_P(Goldens, Drafter,
                         testing::Values("deepseek-v3-tiny", "deepseek-v32-tiny",
                                         "deepseek-v4-tiny", "glm4-moe-tiny", "qwen3-5-moe-tiny",
                                         "qwen3-5-tiny", "qwen3-next-tiny"),
                         [](const auto& run) {
                           std::string name = run.param;
                           std::erase(name, '-');
                           return name;
                         });

// DeepSeek-V4's layer is in a GGUF file of its own, beside the model's.
TEST(DrafterFile, DraftsWhatTheReferenceDoes) {
  const std::filesystem::path folder = folder_of("deepseek-v4-tiny");
  const auto source = *families::open_model(folder);
  test::TempFolder place{test::kInMemory};
  place.write("v4.gguf", families::v4_as_gguf(*source).bytes());
  place.write("mtp-v4.gguf", families::v4_as_gguf(*source, true).bytes());
  std::ifstream file(folder / "golden.json");
  const auto golden = nlohmann::json::parse(file);
  Opened setup(place / "v4.gguf", 2);
  for (std::size_t i = 0; i < golden["prompts"].size(); ++i) {
    const auto prompt = golden["prompts"][i].get<std::vector<std::int32_t>>();
    const auto wanted = golden["drafts"][i].get<std::vector<std::int32_t>>();
    if (prompt.size() > 120) continue;  // which takes long
    EXPECT_EQ(
        drafts_of(setup, prompt, 64, golden["greedy"][i][0].get<std::int32_t>(), wanted.size()),
        wanted)
        << "prompt " << i;
  }
}

}  // namespace
}  // namespace dovetail::model::drafts
