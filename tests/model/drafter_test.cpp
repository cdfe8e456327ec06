// The layer that drafts tokens, against an independent implementation
// (tools/golden/make_models.py), however the prompt is cut.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "cores/executor.h"
#include "families/open_model.h"
#include "kernels/kernels.h"
#include "model/cpu/cpu_backend.h"
#include "support/places.h"

namespace dovetail::model::drafts {
namespace {

struct Opened {
  explicit Opened(std::uint32_t lanes)
      : source(*families::open_model(std::filesystem::path(test::source_dir()) /
                                     "tests/golden/models/deepseek-v3-tiny")),
        executor(cores::Topology::of_lanes(lanes), {}) {
    BackendOptions options;
    options.cache = cache_shape(source->config, kernels::CacheType::kF32, true);
    options.blocks = 32;
    options.slots = 2;
    options.draft_tokens = 3;
    backend = *open_cpu(source, options, *kernels::find_kernels("portable"), executor, {});
    std::vector<std::uint32_t> all(32);
    std::iota(all.begin(), all.end(), 0U);
    backend->poison_blocks(all);
  }
  std::shared_ptr<const load::ModelSource> source;
  cores::Executor executor;
  std::unique_ptr<Backend> backend;
};

TEST(Drafter, DraftsWhatTheReferenceDoes) {
  std::ifstream file(std::filesystem::path(test::source_dir()) /
                     "tests/golden/models/deepseek-v3-tiny/golden.json");
  const auto golden = nlohmann::json::parse(file);
  std::vector<std::uint32_t> table(32);
  std::iota(table.begin(), table.end(), 0U);
  for (const std::uint32_t chunk : {1000U, 16U, 5U}) {
    Opened setup(chunk == 16 ? 2 : 1);
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
      std::vector<std::int32_t> drafts(1);
      const DraftRow row = {.slot = 1,
                            .row = 0,
                            .position = static_cast<std::uint32_t>(prompt.size() - 1),
                            .token = first,
                            .block_table = table,
                            .drafts = drafts};
      ASSERT_TRUE(setup.backend->draft(std::span(&row, 1)));
      EXPECT_EQ(drafts[0], golden["draft"][i].get<std::int32_t>())
          << "prompt " << i << ", chunks of " << chunk;
    }
  }
}

}  // namespace
}  // namespace dovetail::model::drafts
