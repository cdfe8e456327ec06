// The layer that drafts tokens, against an independent implementation
// (tools/golden/make_models.py), however the prompt is cut.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "cores/executor.h"
#include "families/open_model.h"
#include "kernels/kernels.h"
#include "model/cpu/cpu_backend.h"
#include "support/places.h"

namespace dovetail::model::drafts {
namespace {

constexpr std::uint32_t kBlocks = 32;

std::filesystem::path folder_of(const std::string& name) {
  return std::filesystem::path(test::source_dir()) / "tests/golden/models" / name;
}

struct Opened {
  Opened(const std::string& name, std::uint32_t lanes)
      : source(*families::open_model(folder_of(name))),
        executor(cores::Topology::of_lanes(lanes), {}) {
    BackendOptions options;
    options.cache = cache_shape(source->config, kernels::CacheType::kF32, true);
    options.blocks = kBlocks;
    options.slots = 2;
    options.draft_tokens = 4;
    backend = *open_cpu(source, options, *kernels::find_kernels("portable"), executor, {});
    std::vector<std::uint32_t> all(kBlocks);
    std::iota(all.begin(), all.end(), 0U);
    backend->poison_blocks(all);
  }
  std::shared_ptr<const load::ModelSource> source;
  cores::Executor executor;
  std::unique_ptr<Backend> backend;
};

class Drafter : public testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Of, Drafter,
                         testing::Values("deepseek-v3-tiny", "deepseek-v4-tiny", "qwen3-next-tiny",
                                         "qwen3-5-tiny", "qwen3-5-moe-tiny"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST_P(Drafter, DraftsWhatTheReferenceDoes) {
  std::ifstream file(folder_of(GetParam()) / "golden.json");
  const auto golden = nlohmann::json::parse(file);
  std::vector<std::uint32_t> table(kBlocks);
  std::iota(table.begin(), table.end(), 0U);
  for (const std::uint32_t chunk : {1000U, 16U, 5U}) {
    Opened setup(GetParam(), chunk == 16 ? 2 : 1);
    for (std::size_t i = 0; i < golden["prompts"].size(); ++i) {
      const auto prompt = golden["prompts"][i].get<std::vector<std::int32_t>>();
      const std::int32_t first = golden["greedy"][i][0].get<std::int32_t>();
      std::vector<float> logits(setup.source->config.vocab_size);
      for (std::size_t at = 0; at < prompt.size(); at += chunk) {
        const std::size_t count = std::min<std::size_t>(chunk, prompt.size() - at);
        const bool last = at + count == prompt.size();
        Segment segment;
        segment.tokens = std::span(prompt).subspan(at, count);
        segment.first_position = static_cast<std::uint32_t>(at);
        segment.block_table = table;
        segment.logit_rows = last ? 1 : 0;
        segment.slot = 1;
        if (!last) segment.next = prompt[at + count];
        ASSERT_TRUE(setup.backend->forward(std::span(&segment, 1),
                                           last ? std::span(logits) : std::span<float>(), {}));
      }
      // Several, where the reference feeds the layer on with what it gave.
      std::vector<std::int32_t> wanted = {golden["draft"][i].get<std::int32_t>()};
      if (golden.contains("drafts")) wanted = golden["drafts"][i].get<std::vector<std::int32_t>>();
      std::vector<std::int32_t> drafts(wanted.size());
      const DraftRow row = {.slot = 1,
                            .row = 0,
                            .position = static_cast<std::uint32_t>(prompt.size() - 1),
                            .token = first,
                            .block_table = table,
                            .drafts = drafts};
      ASSERT_TRUE(setup.backend->draft(std::span(&row, 1)));
      EXPECT_EQ(drafts, wanted) << "prompt " << i << ", chunks of " << chunk;
    }
  }
}

}  // namespace
}  // namespace dovetail::model::drafts
