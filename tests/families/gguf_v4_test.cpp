// DeepSeek-V4 as a GGUF file: keys and names of tensors as llama.cpp's converter writes them.

#include "families/gguf_v4.h"

#include <gtest/gtest.h>

#include <cstring>

#include "families/open_model.h"
#include "load/stored_parts.h"
#include "support/places.h"
#include "support/temp_folder.h"

namespace dovetail::families {
namespace {

class GgufV4 : public testing::Test {
 protected:
  std::shared_ptr<const ModelSource> folder = *open_model(
      std::filesystem::path(test::source_dir()) / "tests/golden/models/deepseek-v4-tiny");
  GgufBuilder builder = v4_as_gguf(*folder);

  Result<ModelSource> read() {
    bytes_ = builder.bytes();
    return read_model(std::vector{NamedBytes{"m.gguf", bytes_}});
  }

  // With a file of the layer that drafts.
  Result<ModelSource> read_with(const GgufBuilder& drafts) {
    bytes_ = builder.bytes();
    bytes_of_drafts_ = drafts.bytes();
    const NamedBytes beside = {"mtp-m.gguf", bytes_of_drafts_};
    return read_model(std::vector{NamedBytes{"m.gguf", bytes_}}, std::span(&beside, 1));
  }

 private:
  Bytes bytes_, bytes_of_drafts_;
};

void expect_same_tensor(const TensorView& got, const TensorView& wanted, const std::string& name) {
  EXPECT_EQ(got.type, wanted.type) << name;
  EXPECT_EQ(got.rows, wanted.rows) << name;
  Bytes made;
  std::span<const std::byte> data = got.data;
  if (got.parts) {
    made.resize(got.bytes());
    write_rows(*got.parts, 0, got.rows, made.data());
    data = made;
  }
  ASSERT_EQ(data.size(), wanted.data.size()) << name;
  EXPECT_EQ(std::memcmp(data.data(), wanted.data.data(), data.size()), 0) << name;
}

TEST_F(GgufV4, DescribesTheModelOfTheFolder) {
  const auto model = read();
  ASSERT_TRUE(model) << model.error().message;
  const ModelConfig& wanted = folder->config;
  EXPECT_EQ(model->config.family, wanted.family);
  EXPECT_EQ(model->config.layers, wanted.layers);
  EXPECT_EQ(model->config.ropes, wanted.ropes);
  EXPECT_EQ(model->config.hyper, wanted.hyper);
  EXPECT_EQ(model->config.max_context, wanted.max_context);
  EXPECT_FALSE(model->config.draft_layer);
  for (const auto& [name, tensor] : folder->tensors) {
    if (name.starts_with(wanted.draft_prefix())) continue;
    ASSERT_TRUE(model->tensors.contains(name)) << name;
    expect_same_tensor(model->tensors.at(name), tensor, name);
  }
}

TEST_F(GgufV4, HasTheLayerThatDraftsFromAFileOfItsOwn) {
  const auto model = read_with(v4_as_gguf(*folder, true));
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->config.layers, folder->config.layers);
  EXPECT_EQ(model->config.draft_layers, 1U);
  ASSERT_TRUE(model->config.draft_layer);
  EXPECT_EQ(*model->config.draft_layer, *folder->config.draft_layer);
  // Not copied before anything drafts.
  for (const char* half : {"nextn.e_proj.weight", "nextn.h_proj.weight"})
    EXPECT_TRUE(model->tensors.at(folder->config.draft_prefix() + half).parts) << half;
  ASSERT_EQ(model->tensors.size(), folder->tensors.size());
  for (const auto& [name, tensor] : folder->tensors) {
    ASSERT_TRUE(model->tensors.contains(name)) << name;
    expect_same_tensor(model->tensors.at(name), tensor, name);
  }
}

TEST_F(GgufV4, RefusesDraftsOfAnotherModel) {
  struct Row {
    const char* name;
    void (*change)(GgufBuilder& drafts);
    const char* words;
  };
  const Row rows[] = {
      {"architecture", [](GgufBuilder& d) { d.set_string("general.architecture", "llama"); },
       "mtp-m.gguf: metadata 'general.architecture': 'llama'; valid: 'deepseek4', as in m.gguf"},
      {"layers", [](GgufBuilder& d) { d.set_f32("deepseek4.expert_weights_scale", 2.0F); },
       "mtp-m.gguf: other layers than m.gguf; valid: the file of one model's drafts"},
      {"depth", [](GgufBuilder& d) { d.set_u32("deepseek4.block_count", 5); },
       "mtp-m.gguf: other layers than m.gguf"},
      {"connections",
       [](GgufBuilder& d) { d.set_u32("deepseek4.hyper_connection.sinkhorn_iterations", 9); },
       "mtp-m.gguf: other hyper-connections than m.gguf"},
      {"rope",
       [](GgufBuilder& d) { d.set_f32("deepseek4.attention.compress_rope_freq_base", 9e4F); },
       "mtp-m.gguf: other rotary embedding than m.gguf"},
      {"no layer", [](GgufBuilder& d) { d.set_u32("deepseek4.nextn_predict_layers", 0); },
       "mtp-m.gguf: other layers than m.gguf"},
      {"no input",
       [](GgufBuilder& d) {
         std::erase_if(d.tensors,
                       [](const auto& t) { return t.name.ends_with("nextn.eh_proj.weight"); });
       },
       "mtp-m.gguf: no layer that drafts (nextn.*); valid: one behind the 5 of m.gguf"},
      {"no norm",
       [](GgufBuilder& d) {
         std::erase_if(d.tensors,
                       [](const auto& t) { return t.name.ends_with("nextn.hnorm.weight"); });
       },
       "nextn.hnorm.weight"},
      {"no sum",
       [](GgufBuilder& d) {
         std::erase_if(d.tensors, [](const auto& t) { return t.name == "output_hc_scale.weight"; });
       },
       "nextn.hc_head.scale"},
      {"odd columns",
       [](GgufBuilder& d) {
         for (GgufBuilder::Tensor& tensor : d.tensors) {
           if (!tensor.name.ends_with("nextn.eh_proj.weight")) continue;
           --tensor.dimensions[0];
           tensor.data.resize(tensor.data.size() - 2 * tensor.dimensions[1]);
         }
       },
       "mtp-m.gguf: tensor 'blk.5.nextn.eh_proj.weight': shape [64, 127] of type 'BF16'; valid: "
       "rows of two halves"},
  };
  for (const Row& row : rows) {
    GgufBuilder drafts = v4_as_gguf(*folder, true);
    row.change(drafts);
    const auto model = read_with(drafts);
    ASSERT_FALSE(model) << row.name;
    EXPECT_NE(model.error().message.find(row.words), std::string::npos)
        << row.name << ": " << model.error().message;
  }
}

// Found by its name, and where it is broken the model is not opened without it.
TEST_F(GgufV4, FindsTheFileOfDraftsBesideItsOwn) {
  test::TempFolder place{test::kInMemory};
  const auto write = [&](const char* name, const Bytes& bytes) {
    place.write(name, bytes);
    return open_model(place / "m.gguf");
  };
  const auto size_of = [&](const char* name) { return std::filesystem::file_size(place / name); };
  auto model = write("m.gguf", builder.bytes());
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_FALSE((*model)->config.draft_layer);
  model = write("mtp-other.gguf", v4_as_gguf(*folder, true).bytes());
  EXPECT_FALSE((*model)->config.draft_layer);
  EXPECT_EQ((*model)->file_bytes, size_of("m.gguf"));
  model = write("mtp-m.gguf", v4_as_gguf(*folder, true).bytes());
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_TRUE((*model)->config.draft_layer);
  EXPECT_EQ((*model)->name, "m");
  EXPECT_EQ((*model)->file_bytes, size_of("m.gguf") + size_of("mtp-m.gguf"));
  model = write("mtp-m.gguf", Bytes(100));
  ASSERT_FALSE(model);
  EXPECT_NE(model.error().message.find("mtp-m.gguf: "), std::string::npos);
}

TEST_F(GgufV4, RefusesWhatDoesNotFit) {
  struct Row {
    const char* key;
    std::uint32_t value;
    const char* words;
  };
  const Row rows[] = {
      {"attention.head_count_kv", 2, "1"},
      {"attention.value_length", 32, "64"},
      {"attention.indexer.head_count", 3, "shape"},
      {"expert_gating_func", 2, "4, which is roots of softplus"},
      {"embedding_length_out", 64, "256"},
      {"rope.dimension_count", 7, "an even number"},
      {"hyper_connection.count", 3, "embedding_length_out"},
  };
  for (const Row& row : rows) {
    builder = v4_as_gguf(*folder);
    builder.set_u32(fmt::format("deepseek4.{}", row.key), row.value);
    const auto model = read();
    ASSERT_FALSE(model) << row.key;
    EXPECT_NE(model.error().message.find(row.words), std::string::npos) << model.error().message;
  }
}

TEST_F(GgufV4, HasOneLimitForAllLayers) {
  const std::vector<float> limits = {2.0F, 2.0F, 3.0F, 2.0F, 2.0F};
  builder.set_numbers<float>("deepseek4.swiglu_clamp_shexp", GgufType::kFloat32, limits);
  const auto model = read();
  ASSERT_FALSE(model);
  EXPECT_NE(model.error().message.find("swiglu_clamp_shexp': 3; valid: one number"),
            std::string::npos)
      << model.error().message;
}

TEST_F(GgufV4, HasARatioForEachLayer) {
  builder.set_numbers<std::int32_t>("deepseek4.attention.compress_ratios", GgufType::kInt32,
                                    {0, 4});
  const auto model = read();
  ASSERT_FALSE(model);
  EXPECT_NE(model.error().message.find("one for each of 5 layers"), std::string::npos)
      << model.error().message;
}

// Whole numbers are for tables alone.
TEST_F(GgufV4, HasNoWeightsOfWholeNumbers) {
  for (GgufBuilder::Tensor& tensor : builder.tensors) {
    if (tensor.name == "blk.0.hc_attn_fn.weight") tensor.type = 26;
  }
  const auto model = read();
  ASSERT_FALSE(model);
  EXPECT_NE(model.error().message.find("'blk.0.hc_attn_fn.weight': type 'I32'; valid: F32"),
            std::string::npos)
      << model.error().message;
}

}  // namespace
}  // namespace dovetail::families
