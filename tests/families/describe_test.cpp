// A configuration without weights: what its model has, as with them.

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "families/open_model.h"
#include "load/container.h"
#include "load/expect_error.h"
#include "load/model_source.h"
#include "load/quantised_builder.h"
#include "support/places.h"
#include "support/temp_folder.h"

namespace dovetail::families {
namespace {

using namespace load;

namespace fs = std::filesystem;

const fs::path kGoldenFolders = fs::path(test::source_dir()) / "tests/golden";

std::vector<std::string> described_folders() {
  std::vector<std::string> names;
  for (const char* place : {"models", "quantised"}) {
    for (const fs::directory_entry& entry : fs::directory_iterator(kGoldenFolders / place))
      names.push_back(std::string(place) + "/" + entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class Described : public testing::TestWithParam<std::string> {};

// Its rows, its columns and its type.
using Shapes = std::map<std::string, std::tuple<std::size_t, std::size_t, kernels::DataType>>;

// Those of a layer's experts are one: "blk.0.ffn_up.7.weight" goes to "blk.0.ffn_up_exps.weight".
Shapes shapes_of(const ModelSource& source) {
  Shapes out;
  for (const auto& [name, tensor] : source.tensors) {
    const std::size_t stem = name.find("ffn_");
    const std::size_t number = stem == std::string::npos ? stem : name.find('.', stem);
    std::string as = name;
    if (number != std::string::npos && std::isdigit(static_cast<unsigned char>(name[number + 1])))
      as = name.substr(0, number) + "_exps" + name.substr(name.find('.', number + 1));
    auto& [rows, columns, type] = out[as];
    rows += tensor.rows;
    columns = tensor.columns;
    type = tensor.type;
  }
  return out;
}

std::uint64_t elements_of(const ModelSource& source) {
  std::uint64_t sum = 0;
  for (const auto& [name, tensor] : source.tensors)
    sum += std::uint64_t{tensor.rows} * tensor.columns;
  return sum;
}

// Layers without what activations have learned, which only tensors tell.
std::vector<LayerConfig> untaught(std::vector<LayerConfig> layers) {
  for (LayerConfig& layer : layers) {
    auto* mlp = std::get_if<MlpConfig>(&layer.mlp);
    if (mlp != nullptr && mlp->xielu) mlp->xielu.emplace();
  }
  return layers;
}

TEST_P(Described, IsTheModelOfTheFolder) {
  const fs::path folder = kGoldenFolders / GetParam();
  const auto whole = open_model(folder);
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_FALSE(is_description(folder));
  ASSERT_TRUE(is_description(folder / "config.json"));
  const auto described = describe_model(folder / "config.json");
  ASSERT_TRUE(described) << described.error().message;
  EXPECT_FALSE((*described)->has_weights);
  EXPECT_TRUE((*whole)->has_weights);
  const ModelConfig& config = (*described)->config;
  EXPECT_EQ(config.family, (*whole)->config.family);
  EXPECT_EQ(config.ropes, (*whole)->config.ropes);
  EXPECT_EQ((*described)->file_bytes, 0U);
  EXPECT_EQ((*described)->name, folder.filename());
  // Which of two ways Qwen3-Next's are stored, and whether there is a layer that drafts, only
  // tensors tell.
  const bool hybrid = config.family.starts_with("qwen3_next") || config.family == "qwen3_5" ||
                      config.family == "qwen3_5_moe";
  if (hybrid && !config.draft_layer && (*whole)->config.draft_layer) return;
  // Nor whether a quantiser gave Llama's products biases of zeros.
  if (GetParam().find("gptq") != std::string::npos) return;
  EXPECT_EQ(elements_of(**described), elements_of(**whole));
  if (hybrid) return;
  EXPECT_EQ(untaught(config.layers), untaught((*whole)->config.layers));
  EXPECT_EQ(config.draft_layer, (*whole)->config.draft_layer);
  const Shapes wanted = shapes_of(**whole), got = shapes_of(**described);
  ASSERT_EQ(got.size(), wanted.size());
  for (const auto& [name, shape] : wanted) {
    ASSERT_TRUE(got.contains(name)) << name;
    EXPECT_EQ(std::get<0>(got.at(name)), std::get<0>(shape)) << name;
    EXPECT_EQ(std::get<1>(got.at(name)), std::get<1>(shape)) << name;
    EXPECT_TRUE((*described)->tensors.at(name).data.empty()) << name;
    // Of what makers leave in floats, types are not said.
    const bool quantised = !kernels::is_plain(std::get<2>(shape));
    const kernels::DataType type = std::get<2>(got.at(name));
    if (quantised) {
      EXPECT_EQ(type, std::get<2>(shape)) << name;
    } else {
      EXPECT_TRUE(kernels::is_plain(type)) << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Described, testing::ValuesIn(described_folders()),
                         [](const auto& run) {
                           std::string name = run.param;
                           std::replace_if(
                               name.begin(), name.end(),
                               [](char c) { return c == '-' || c == '/'; }, '_');
                           return name;
                         });

TEST(Description, IsAConfigurationWithoutWeights) {
  test::TempFolder folder{test::kInMemory};
  EXPECT_FALSE(is_description(folder.path()));
  EXPECT_FALSE(is_description(folder.path() / "config.json"));
  HfBuilder builder = packed_model();
  folder.write("config.json", builder.config.dump());
  EXPECT_TRUE(is_description(folder.path()));
  const auto described = describe_model(folder.path());
  ASSERT_TRUE(described) << described.error().message;
  EXPECT_EQ((*described)->tensors.at("blk.0.ffn_down.weight").columns, 128U);
  // It is nothing to run.
  expect_error(open_model(folder.path()), "no weights", "valid: model.safetensors");
  expect_error(open_model(folder.path() / "config.json"), "config.json",
               "the folder that holds it");
  folder.write("other.json", "{\"model_type\": \"llama\"}");
  expect_error(describe_model(folder.path() / "other.json"), "other.json: ", "missing");
  folder.write("model-00001-of-00002.safetensors", builder.weights.bytes());
  EXPECT_FALSE(is_description(folder.path()));
}

}  // namespace
}  // namespace dovetail::families
