// Qwen's layer that drafts tokens, in folders: mtp.*.

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "families/golden_folder.h"
#include "families/open_model.h"
#include "load/expect_error.h"
#include "load/safetensors_builder.h"
#include "support/temp_folder.h"

namespace dovetail::families {
namespace {

using namespace load;
using nlohmann::json;

class HfDrafts : public testing::TestWithParam<const char*> {
 protected:
  auto open() {
    files.write(folder);
    return open_model(folder.path());
  }
  bool drafts() {
    const auto model = open();
    EXPECT_TRUE(model) << model.error().message;
    return model && (*model)->config.draft_layer.has_value();
  }
  void remove(const std::string& beginning) {
    std::erase_if(files.weights.tensors,
                  [&](const auto& tensor) { return tensor.name.starts_with(beginning); });
  }

  HfBuilder files = golden_folder(GetParam());
  const test::TempFolder folder{test::kInMemory};
};

// Most published configurations do not say that there is one.
TEST_P(HfDrafts, AreThereWithTheirTensors) {
  files.config.erase("mtp_num_hidden_layers");
  EXPECT_TRUE(drafts());
  remove("mtp.");
  EXPECT_FALSE(drafts());
  files.config["mtp_num_hidden_layers"] = 1;
  EXPECT_FALSE(drafts());
}

TEST_P(HfDrafts, BeyondTheFirstAreLeftAlone) {
  files.weights.add("mtp.layers.1.input_layernorm.weight", {32});
  EXPECT_TRUE(drafts());
}

TEST_P(HfDrafts, WithEmbeddingsOfTheirOwnAreLeftAlone) {
  files.config["mtp_use_dedicated_embeddings"] = true;
  files.weights.add("mtp.embed_tokens.weight", {128, 32});
  EXPECT_FALSE(drafts());
}

TEST_P(HfDrafts, AreWholeOrRefused) {
  remove("mtp.layers.0.self_attn.k_proj.");
  expect_error(open(), folder.path().string(), "tensor 'blk.4.attn_k.weight': missing");
}

TEST_P(HfDrafts, OfUnknownPartsAreRefused) {
  files.weights.add("mtp.layers.0.self_attn.sinks", {4});
  expect_error(open(), folder.path().string(),
               "tensor 'mtp.layers.0.self_attn.sinks': not a part of the model");
}

INSTANTIATE_TEST_SUITE_P(Qwen, HfDrafts,
                         testing::Values("qwen3-5-moe-tiny", "qwen3-5-tiny", "qwen3-next-tiny"),
                         [](const auto& run) {
                           std::string name = run.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace dovetail::families
