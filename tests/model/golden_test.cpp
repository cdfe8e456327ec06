// Logits of tiny random models against those of Hugging Face transformers in float32
// (tools/golden/make_models.py).

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "cores/executor.h"
#include "families/open_model.h"
#include "kernels/kernels.h"
#include "load/model_source.h"
#include "model/cpu/cache.h"
#include "model/cpu/model_runner.h"
#include "model/unpacked.h"
#include "support/places.h"

namespace dovetail::model {
namespace {

namespace fs = std::filesystem;

const fs::path kModels = fs::path(test::source_dir()) / "tests/golden/models";

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(kModels)) {
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Feeds the tokens one chunk after the other, with logits after every token in `positions`.
class Runner {
 public:
  Runner(std::shared_ptr<const load::ModelSource> source, const kernels::Kernels& kernels,
         std::uint32_t context = 0)
      : executor_(cores::Topology::of_lanes(2), {}),
        model_(std::move(source), kernels, executor_, context),
        cache_(*Cache::create(model_.cache_shape(kernels::CacheType::kF32), 32)),
        table_(32) {
    std::iota(table_.begin(), table_.end(), 0U);
  }

  std::vector<float> logits_at(std::span<const std::int32_t> tokens, std::size_t position) {
    std::vector<float> logits(model_.config().vocab_size);
    const Segment segment{tokens.first(position + 1), 0, table_, true};
    model_.forward(std::span(&segment, 1), cache_, logits);
    return logits;
  }

 private:
  cores::Executor executor_;
  ModelRunner model_;
  Cache cache_;
  std::vector<std::uint32_t> table_;
};

// The largest difference in a row, relative to its largest value.
double relative_error(std::span<const float> got, std::span<const float> wanted) {
  double largest = 0.0;
  double difference = 0.0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    largest = std::max(largest, std::fabs(static_cast<double>(wanted[i])));
    difference = std::max(difference, std::fabs(static_cast<double>(got[i]) - wanted[i]));
  }
  return difference / largest;
}

class GoldenModels : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    // The same models as GGUF files, where the variable names a folder of them (make_ggufs.py).
    const char* ggufs = std::getenv("DOVETAIL_GOLDEN_GGUFS");
    const fs::path file = fs::path(ggufs == nullptr ? "" : ggufs) / (GetParam() + ".gguf");
    if (ggufs != nullptr && !fs::exists(file)) GTEST_SKIP() << "there is no " << file;
    auto opened = families::open_model(ggufs != nullptr ? file : kModels / GetParam());
    ASSERT_TRUE(opened.has_value()) << opened.error().message;
    source_ = unpacked(*std::move(opened));
    std::ifstream(kModels / GetParam() / "golden.json") >> golden_;
  }

  // BF16 weights may be multiplied with activations that are rounded to BF16, 8 bits of mantissa.
  bool rounds_activations(const kernels::Kernels& kernels) const {
    return kernels.rounds_bf16 &&
           source_->tensors.at("token_embd.weight").type == kernels::DataType::kBF16;
  }

  // transformers chooses LongRoPE's factors by the length of the sequence, and a model here by its
  // context: the one that chooses the same for so many tokens.
  std::uint32_t context_for(std::size_t tokens) const {
    if (source_->config.ropes.empty()) return source_->config.max_context;
    const load::RopeConfig& rope = source_->config.ropes.front();
    const bool is_short = !rope.long_divisors.empty() && tokens <= rope.original_context;
    return is_short ? rope.original_context : source_->config.max_context;
  }
  std::vector<std::int32_t> prompt(std::size_t index) const {
    return golden_["prompts"][index].get<std::vector<std::int32_t>>();
  }

  std::shared_ptr<const load::ModelSource> source_;
  nlohmann::json golden_;
};

TEST_P(GoldenModels, LogitsAgreeWithTransformers) {
  ASSERT_FALSE(golden_["logits"].empty());
  for (const kernels::Kernels* kernels : kernels::available_kernels()) {
    // Among many a choice of entries or experts falls the other way where activations are rounded.
    const double rounded = source_->config.hyper.streams > 1 ? 0.2 : 3e-2;
    const double tolerance = rounds_activations(*kernels) ? rounded : 1e-4;
    std::map<std::uint32_t, Runner> runners;  // by their context
    for (const nlohmann::json& row : golden_["logits"]) {
      const auto tokens = prompt(row["prompt"].get<std::size_t>());
      const auto wanted = row["row"].get<std::vector<float>>();
      const std::uint32_t context = context_for(tokens.size());
      Runner& runner = runners.try_emplace(context, source_, *kernels, context).first->second;
      const std::vector<float> got = runner.logits_at(tokens, row["position"].get<std::size_t>());
      ASSERT_EQ(got.size(), wanted.size());
      EXPECT_LT(relative_error(got, wanted), tolerance)
          << kernels->name << ", prompt " << row["prompt"] << ", position " << row["position"];
    }
  }
}

TEST_P(GoldenModels, GreedyContinuationsAgreeWithTransformers) {
  // The best kernels that keep activations in float32.
  const auto available = kernels::available_kernels();
  const auto exact =
      std::find_if(available.begin(), available.end(),
                   [&](const kernels::Kernels* kernels) { return !rounds_activations(*kernels); });
  for (std::size_t i = 0; i < golden_["prompts"].size(); ++i) {
    auto tokens = prompt(i);
    Runner runner(source_, **exact, context_for(tokens.size() + golden_["greedy"][i].size()));
    for (const nlohmann::json& wanted : golden_["greedy"][i]) {
      const std::vector<float> logits = runner.logits_at(tokens, tokens.size() - 1);
      tokens.push_back(static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) -
                                                 logits.begin()));
      ASSERT_EQ(tokens.back(), wanted.get<std::int32_t>())
          << "prompt " << i << ", position " << tokens.size() - 1;
    }
  }
}

// The context of the other factors gives something else.
TEST(GoldenLongRope, IsChosenByTheContext) {
  const fs::path folder = kModels / "phi3-longrope-tiny";
  auto opened = families::open_model(folder);
  ASSERT_TRUE(opened.has_value()) << opened.error().message;
  nlohmann::json golden;
  std::ifstream(folder / "golden.json") >> golden;
  const std::shared_ptr<const load::ModelSource> source = *std::move(opened);
  const std::uint32_t original = source->config.ropes.front().original_context;
  ASSERT_LT(original, source->config.max_context);
  const kernels::Kernels& kernels = kernels::best_kernels();
  Runner of_short(source, kernels, original), of_long(source, kernels, original + 1);
  Runner of_model(source, kernels);
  for (const nlohmann::json& row : golden["logits"]) {
    const auto position = row["position"].get<std::size_t>();
    if (position == 0) continue;  // which nothing turns
    const auto tokens =
        golden["prompts"][row["prompt"].get<std::size_t>()].get<std::vector<std::int32_t>>();
    const auto wanted = row["row"].get<std::vector<float>>();
    const bool is_short = tokens.size() <= original;
    const std::vector<float> with_short = of_short.logits_at(tokens, position);
    const std::vector<float> with_long = of_long.logits_at(tokens, position);
    EXPECT_GT(relative_error(is_short ? with_long : with_short, wanted), 1e-3);
    EXPECT_LT(relative_error(is_short ? with_short : with_long, wanted), 1e-4);
    EXPECT_EQ(of_model.logits_at(tokens, position), with_long);
  }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenModels, testing::ValuesIn(model_names()), [](const auto& name) {
  std::string identifier = name.param;
  std::replace(identifier.begin(), identifier.end(), '-', '_');
  return identifier;
});

}  // namespace
}  // namespace dovetail::model
