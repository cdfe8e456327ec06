#include "model/cpu/weight_bytes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "families/open_model.h"
#include "model/cpu/pack_weights.h"
#include "support/places.h"
#include "support/random_model.h"

namespace dovetail::model {
namespace {

using kernels::DataType;

// A model with a type that grows most, one that grows, and one that does not: 20, 30 and 40 where
// not packed; and 5 bytes that products read as floats.
WeightBytes three_types() {
  WeightBytes bytes;
  bytes.types = {
      {DataType::kQ8_0, 40, 40, 0}, {DataType::kQ2_K, 36, 30, 0}, {DataType::kIQ1_S, 42, 20, 0}};
  bytes.mapped = 5;
  bytes.looked_up = 1000;  // of which a token reads a row
  return bytes;
}

struct ChoiceCase {
  std::optional<std::uint64_t> memory;
  std::vector<DataType> left;  // in the file
  std::uint64_t own;
};

TEST(ChoosePacked, LeavesWhatGrowsMostUntilItFits) {
  const std::vector<DataType> all = {DataType::kQ8_0, DataType::kQ2_K, DataType::kIQ1_S};
  const ChoiceCase cases[] = {
      {std::nullopt, {}, 118},
      {1000, {}, 118},
      {123, {}, 118},
      {122, {DataType::kIQ1_S}, 76},
      {101, {DataType::kIQ1_S}, 76},
      {100, {DataType::kIQ1_S, DataType::kQ2_K}, 40},
      {95, {DataType::kIQ1_S, DataType::kQ2_K}, 40},
      // What does not grow would be packed for nothing: the pages could not be taken back.
      {94, all, 0},
      {0, all, 0},
  };
  const WeightBytes bytes = three_types();
  for (const ChoiceCase& of : cases) {
    SCOPED_TRACE(of.memory ? std::to_string(*of.memory) : "unknown");
    const TypeSet packed = choose_packed(bytes, of.memory);
    for (const DataType type : all) {
      const bool stays = std::find(of.left.begin(), of.left.end(), type) != of.left.end();
      EXPECT_EQ(packed.has(type), !stays) << kernels::info(type).name;
    }
    const HeldBytes held = held_bytes(bytes, packed);
    EXPECT_EQ(held.own, of.own);
    EXPECT_TRUE(packed.empty() || !of.memory || held.all() <= *of.memory);
  }
}

// Rows that are made of parts take memory of their own, packed or not, so that leaving them
// unpacked saves what panels take beyond the rows, and no page can be taken back.
TEST(ChoosePacked, CountsRowsThatAreMade) {
  WeightBytes bytes;
  bytes.types = {{DataType::kMXFP4, 30, 0, 20}};
  EXPECT_TRUE(choose_packed(bytes, 30).has(DataType::kMXFP4));
  const TypeSet packed = choose_packed(bytes, 29);
  EXPECT_FALSE(packed.has(DataType::kMXFP4));
  EXPECT_EQ(held_bytes(bytes, packed).own, 20U);
  EXPECT_EQ(held_bytes(bytes, packed).mapped, 0U);
}

std::uint64_t tensor_bytes(const load::ModelSource& source) {
  std::uint64_t sum = 0;
  for (const auto& [name, view] : source.tensors) sum += view.bytes();
  return sum;
}

// What packing takes is what is said, for models of each kind of source, and nothing is counted
// twice where nothing is packed.
TEST(WeightBytes, AreWhatPackingTakes) {
  // Expert matrices among them, and an output that is the embedding as well.
  for (const char* family : {"llama", "qwen2", "qwen3_moe"}) {
    for (const DataType type :
         {DataType::kF32, DataType::kQ4_0, DataType::kQ2_K, DataType::kINT8}) {
      SCOPED_TRACE(std::string(family) + " " + std::string(kernels::info(type).name));
      test::RandomModelOptions options = test::options_of(family);
      options.type = type;
      options.vocab_size = 101;  // a panel that is not full
      options.hidden_size = options.intermediate_size = 256;
      options.head_dim = 256 / options.heads;
      const auto source = test::random_model(options);
      const auto& kernels = kernels::best_kernels();
      const WeightBytes said = weight_bytes(*source, kernels, true);
      std::uint64_t made = 0;
      PackOptions pack;
      pack.progress = [&](std::size_t, std::size_t all) { made = all; };
      ModelWeights weights = bind_weights(source, kernels);
      ASSERT_TRUE(pack_weights(weights, kernels, pack));
      EXPECT_EQ(held_bytes(said, TypeSet::all()).own, made);
      const HeldBytes unpacked = held_bytes(said, {});
      EXPECT_EQ(unpacked.own, 0U);
      EXPECT_EQ(unpacked.mapped + said.looked_up, tensor_bytes(*source));
      EXPECT_EQ(said.looked_up > 0, !source->config.tied_embeddings);
    }
  }
}

// Matrices of heads have panels of their own (HeadMatrix) beside what pack_weights() makes, and the
// form that the file lacks is made of floats. Rows of heads fill panels here.
TEST(WeightBytes, CountPanelsOfHeadsAndWhatIsTurned) {
  const auto source =
      families::open_model(test::source_dir() + "/models/demo-mla/demo-mla-Q8_0.gguf");
  ASSERT_TRUE(source.has_value()) << source.error().message;
  const auto& kernels = kernels::best_kernels();
  std::uint64_t heads = 0, turned = 0;
  for (const auto& [name, view] : (*source)->tensors) {
    const bool keys = name.ends_with(".attn_k_b.weight");
    if (!keys && !name.ends_with(".attn_v_b.weight")) continue;
    ASSERT_EQ(view.rows % kernels::kPanelRows, 0U);
    heads += view.rows / kernels::kPanelRows * kernels.panel_bytes(view.type, view.columns);
    if (keys) turned += view.rows * view.columns * sizeof(float);
  }
  EXPECT_GT(heads, 0U);
  std::uint64_t made = 0;
  PackOptions pack;
  pack.progress = [&](std::size_t, std::size_t all) { made = all; };
  ModelWeights weights = bind_weights(*source, kernels);
  ASSERT_TRUE(pack_weights(weights, kernels, pack));
  const WeightBytes said = weight_bytes(**source, kernels, true);
  EXPECT_EQ(held_bytes(said, TypeSet::all()).own, made + heads + turned);
  EXPECT_EQ(held_bytes(said, {}).own, turned);
}

}  // namespace
}  // namespace dovetail::model
