#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "families/numbers_of.h"
#include "families/open_model.h"
#include "load/model_source.h"

namespace dovetail::families {
namespace {

using namespace load;

const std::filesystem::path kModels =
    std::filesystem::path(DOVETAIL_SOURCE_DIR) / "tests" / "golden" / "models";

struct Golden {
  std::string folder;
  std::string family;
  RopeScaling scaling = RopeScaling::kNone;
  std::uint32_t sliding_window = 0;
  kernels::DataType type = kernels::DataType::kF32;
  float attention_factor = 1.0F;
  ExpertsConfig experts = {};
};

class GoldenModels : public testing::TestWithParam<Golden> {};

TEST_P(GoldenModels, OpenAsTheyWereMade) {
  const Golden& golden = GetParam();
  const auto opened = open_model(kModels / golden.folder);
  ASSERT_TRUE(opened) << opened.error().message;
  const ModelSource& model = **opened;
  const DecoderNumbers config = numbers_of(model.config);
  EXPECT_EQ(model.name, golden.folder);
  EXPECT_EQ(config.family, golden.family);
  EXPECT_EQ(config.rope.scaling, golden.scaling);
  EXPECT_EQ(config.sliding_window, golden.sliding_window);
  EXPECT_FLOAT_EQ(config.rope.attention_factor, golden.attention_factor);
  EXPECT_FALSE(config.rope.interleaved);
  EXPECT_TRUE(config.rope.frequency_divisors.empty());
  EXPECT_EQ(config.attention_bias, golden.family == "qwen2");
  EXPECT_EQ(config.qk_norm, golden.family == "qwen3" || golden.family == "qwen3_moe");
  EXPECT_EQ(config.experts.count, golden.experts.count);
  EXPECT_EQ(config.experts.used, golden.experts.used);
  EXPECT_EQ(config.experts.normalized, golden.experts.normalized);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(model.tokenizer));
  EXPECT_EQ(model.tensors.at("blk.0.attn_q.weight").type, golden.type);
  EXPECT_EQ(model.tensors.contains("output.weight"), !config.tied_embeddings);

  std::ifstream file(kModels / golden.folder / "config.json");
  const auto json = nlohmann::json::parse(file);
  EXPECT_EQ(config.vocab_size, json.at("vocab_size"));
  EXPECT_EQ(config.layers, json.at("num_hidden_layers"));
  EXPECT_EQ(config.kv_heads, json.at("num_key_value_heads"));
  EXPECT_EQ(model.generation.eos_ids, std::vector<std::int32_t>{json.at("eos_token_id")});
}

const Golden kGolden[] = {
    {"llama2-tiny", "llama"},
    {"llama3-tiny", "llama", RopeScaling::kLlama3},
    {"llama-linear-tiny", "llama", RopeScaling::kLinear},
    {"llama-yarn-tiny", "llama", RopeScaling::kYarn, 0, kernels::DataType::kF32, 1.1386294F},
    {"mistral-tiny", "mistral", RopeScaling::kNone, 16},
    {"mistral-f16-tiny", "mistral", RopeScaling::kNone, 0, kernels::DataType::kF16},
    {"qwen2-tiny", "qwen2"},
    {"qwen2-bf16-tiny", "qwen2", RopeScaling::kNone, 0, kernels::DataType::kBF16},
    {"qwen3-tiny", "qwen3"},
    {"qwen3-yarn-tiny", "qwen3", RopeScaling::kYarn, 0, kernels::DataType::kF32, 1.25F},
    {.folder = "qwen3-moe-tiny",
     .family = "qwen3_moe",
     .experts = {.count = 8, .used = 3, .normalized = true}},
    {.folder = "qwen3-moe-raw-tiny",
     .family = "qwen3_moe",
     .experts = {.count = 6, .used = 2, .normalized = false}},
    {.folder = "mixtral-tiny",
     .family = "mixtral",
     .experts = {.count = 4, .used = 2, .normalized = true}},
};

INSTANTIATE_TEST_SUITE_P(All, GoldenModels, testing::ValuesIn(kGolden), [](const auto& run) {
  std::string name = run.param.folder;
  std::erase(name, '-');
  return name;
});

TEST(GoldenModelFolders, AreAllListed) {
  std::set<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(kModels)) {
    if (entry.is_directory()) found.insert(entry.path().filename().string());
  }
  std::set<std::string> listed;
  for (const Golden& golden : kGolden) listed.insert(golden.folder);
  EXPECT_EQ(found, listed);
}

}  // namespace
}  // namespace dovetail::families
