#include "families/open_model.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "families/numbers_of.h"
#include "load/model_source.h"
#include "support/places.h"

namespace dovetail::families {
namespace {

using namespace load;

const std::filesystem::path kStories =
    std::filesystem::path(test::shared_dir()) / "models" / "stories260K";

class Stories : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kStories)) {
      GTEST_SKIP() << kStories << " is not there: set DOVETAIL_SHARED_DIR";
    }
  }
};

TEST_P(Stories, OpensWithTheShapeOfTheModel) {
  const auto opened = open_model(kStories / GetParam());
  ASSERT_TRUE(opened) << opened.error().message;
  const DecoderNumbers config = numbers_of((*opened)->config);
  EXPECT_EQ(config.family, "llama");
  EXPECT_EQ(config.vocab_size, 512U);
  EXPECT_EQ(config.hidden_size, 64U);
  EXPECT_EQ(config.intermediate_size, 172U);
  EXPECT_EQ(config.layers, 5U);
  EXPECT_EQ(config.heads, 8U);
  EXPECT_EQ(config.kv_heads, 4U);
  EXPECT_EQ(config.head_dim, 8U);
  EXPECT_EQ(config.max_context, 512U);
  EXPECT_TRUE(config.tied_embeddings);
  EXPECT_FALSE(config.attention_bias);
  EXPECT_EQ(config.rope.interleaved, (*opened)->format != "Hugging Face safetensors");
  EXPECT_EQ((*opened)->tensors.size(), 47U);
  EXPECT_EQ((*opened)->generation.eos_ids, std::vector<std::int32_t>{2});
  EXPECT_FALSE(std::holds_alternative<std::monostate>((*opened)->tokenizer));
  for (const auto& [name, tensor] : (*opened)->tensors) {
    EXPECT_EQ(tensor.data.size(), tensor.rows * row_bytes(tensor.type, tensor.columns)) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, Stories,
                         testing::Values("stories260K-F32.gguf", "stories260K-F16.gguf",
                                         "stories260K-BF16.gguf", "hf"),
                         [](const auto& run) {
                           std::string name = run.param;
                           std::erase_if(name, [](char c) { return !std::isalnum(c); });
                           return name;
                         });

}  // namespace
}  // namespace dovetail::families
