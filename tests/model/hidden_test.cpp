// Hidden rows of tiny random embedders against those of Hugging Face transformers in float32
// (tools/golden/make_embedders.py).

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "cores/executor.h"
#include "families/open_model.h"
#include "kernels/kernels.h"
#include "model/cpu/cache.h"
#include "model/cpu/model_runner.h"
#include "support/golden_cases.h"
#include "support/places.h"

namespace dovetail::model {
namespace {

const std::filesystem::path kEmbedders =
    std::filesystem::path(test::source_dir()) / "tests/golden/embedders";

class Embedders : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    auto opened = families::open_model(kEmbedders / GetParam());
    ASSERT_TRUE(opened.has_value()) << opened.error().message;
    source_ = *std::move(opened);
    std::ifstream(kEmbedders / GetParam() / "golden.json") >> golden_;
    ASSERT_FALSE(golden_["prompts"].empty());
  }

  std::size_t hidden() const { return source_->config.hidden_size; }

  // The hidden rows of prompts in one pass, one behind the other.
  std::vector<float> rows_of(const std::vector<std::vector<std::int32_t>>& prompts,
                             std::uint32_t lanes, const kernels::Kernels& kernels) {
    cores::Executor executor(cores::Topology::of_lanes(lanes), {});
    ModelRunner model(source_, kernels, executor);
    std::vector<std::vector<std::uint32_t>> tables;
    std::vector<Segment> segments;
    std::uint32_t blocks = 0;
    std::size_t rows = 0;
    for (const auto& prompt : prompts) {
      const auto count = static_cast<std::uint32_t>(prompt.size());
      std::vector<std::uint32_t>& table =
          tables.emplace_back((count + kernels::kBlockSize - 1) / kernels::kBlockSize);
      std::iota(table.begin(), table.end(), blocks);
      blocks += static_cast<std::uint32_t>(table.size());
      rows += count;
    }
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      Segment segment{prompts[i], 0, tables[i]};
      segment.hidden_rows = {0, static_cast<std::uint32_t>(prompts[i].size())};
      segments.push_back(segment);
    }
    const Cache cache = *Cache::create(model.cache_shape(kernels::CacheType::kF32), blocks);
    // No row may read what was in the cache before this pass.
    for (std::uint32_t block = 0; block < blocks; ++block) cache.poison(block);
    std::vector<float> out(rows * hidden());
    model.forward(segments, cache, {}, out);
    return out;
  }

  std::vector<std::vector<std::int32_t>> prompts() const {
    return golden_["prompts"].get<std::vector<std::vector<std::int32_t>>>();
  }

  std::shared_ptr<const load::ModelSource> source_;
  nlohmann::json golden_;
};

INSTANTIATE_TEST_SUITE_P(All, Embedders, testing::ValuesIn(test::golden_cases(kEmbedders)),
                         [](const auto& run) {
                           std::string name = run.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_P(Embedders, AgreeWithTransformers) {
  for (const kernels::Kernels* kernels : kernels::available_kernels()) {
    for (std::size_t i = 0; i < prompts().size(); ++i) {
      const std::vector<float> rows = rows_of({prompts()[i]}, 2, *kernels);
      const auto wanted = golden_["hidden"][i].get<std::vector<std::vector<float>>>();
      ASSERT_EQ(rows.size(), wanted.size() * hidden());
      for (std::size_t row = 0; row < wanted.size(); ++row) {
        for (std::size_t k = 0; k < hidden(); ++k) {
          ASSERT_NEAR(rows[row * hidden() + k], wanted[row][k], 1e-4)
              << kernels->name << ", prompt " << i << ", row " << row;
        }
      }
    }
  }
}

// A prompt's rows have the same bits beside others and on any number of lanes.
TEST_P(Embedders, AnswerAsIfAlone) {
  const kernels::Kernels& kernels = kernels::best_kernels();
  std::vector<float> alone;
  for (const auto& prompt : prompts()) {
    const std::vector<float> rows = rows_of({prompt}, 1, kernels);
    alone.insert(alone.end(), rows.begin(), rows.end());
  }
  for (const std::uint32_t lanes : {1U, 2U, 3U, 8U})
    EXPECT_EQ(rows_of(prompts(), lanes, kernels), alone) << lanes << " lanes";
}

}  // namespace
}  // namespace dovetail::model
