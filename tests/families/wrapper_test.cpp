// Models that take pictures, too: their text is read, and the rest left alone.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "families/open_model.h"
#include "load/mapped_file.h"
#include "load/safetensors.h"
#include "load/safetensors_builder.h"
#include "support/places.h"
#include "support/temp_folder.h"

namespace dovetail::families {
namespace {

using namespace load;
using nlohmann::json;

const std::filesystem::path kGoldens =
    std::filesystem::path(test::source_dir()) / "tests" / "golden" / "models";

struct WrappedModel {
  const char* folder;
  const char* model_type;
  const char* class_name;
  const char* before;  // in place of "model." in the tensors' names
  const char* head;    // in place of "lm_head."
};

void PrintTo(const WrappedModel& model, std::ostream* out) { *out << model.folder; }

// A golden's folder as the text of a larger model.
HfBuilder wrapped(const WrappedModel& model) {
  HfBuilder out;
  json text = json::parse(test::read_bytes(kGoldens / model.folder / "config.json"));
  text.erase("architectures");
  out.config = {{"architectures", {model.class_name}},
                {"model_type", model.model_type},
                {"eos_token_id", 2},
                {"vision_config", {{"hidden_size", 1}}},
                {"text_config", text}};
  const auto file = *MappedFile::open(kGoldens / model.folder / "model.safetensors");
  const auto tensors = parse_safetensors(file->bytes(), "model.safetensors");
  for (const SafetensorsTensor& tensor : *tensors) {
    std::string name(tensor.name);
    for (const auto& [from, to] :
         {std::pair<std::string, std::string>{"model.", model.before}, {"lm_head.", model.head}}) {
      if (!name.starts_with(from)) continue;
      name = to + name.substr(from.size());
      break;
    }
    out.weights.tensors.push_back({name, std::string(tensor.stored_type), tensor.shape,
                                   Bytes(tensor.data.begin(), tensor.data.end())});
  }
  out.weights.add("vision_tower.patch.weight", {3, 5});
  return out;
}

class Wrapped : public testing::TestWithParam<WrappedModel> {};

TEST_P(Wrapped, IsReadAsItsTextAlone) {
  const WrappedModel& model = GetParam();
  const test::TempFolder folder(test::kInMemory);
  wrapped(model).write(folder);
  const auto opened = open_model(folder.path());
  ASSERT_TRUE(opened) << opened.error().message;
  const auto alone = open_model(kGoldens / model.folder);
  ASSERT_TRUE(alone) << alone.error().message;
  EXPECT_EQ((*opened)->config.family, (*alone)->config.family);
  EXPECT_EQ((*opened)->config.layers, (*alone)->config.layers);
  EXPECT_EQ((*opened)->config.draft_layer, (*alone)->config.draft_layer);
  EXPECT_EQ((*opened)->config.ropes, (*alone)->config.ropes);
  EXPECT_EQ((*opened)->generation.eos_ids, std::vector<std::int32_t>{2});
  ASSERT_EQ((*opened)->tensors.size(), (*alone)->tensors.size());
  for (const auto& [name, tensor] : (*alone)->tensors) {
    ASSERT_TRUE((*opened)->tensors.contains(name)) << name;
    EXPECT_TRUE(std::ranges::equal((*opened)->tensors.at(name).data, tensor.data)) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, Wrapped,
    testing::Values(WrappedModel{"gemma3-tiny", "gemma3", "Gemma3ForConditionalGeneration",
                                 "model.language_model.", "lm_head."},
                    WrappedModel{"gemma4-ple-tiny", "gemma4", "Gemma4ForConditionalGeneration",
                                 "model.language_model.", "lm_head."},
                    WrappedModel{"ministral3-tiny", "mistral3", "Mistral3ForConditionalGeneration",
                                 "language_model.model.", "language_model.lm_head."},
                    WrappedModel{"cohere2-tiny", "aya_vision", "AyaVisionForConditionalGeneration",
                                 "model.language_model.", "lm_head."},
                    WrappedModel{"cohere2-tiny", "cohere2_vision",
                                 "Cohere2VisionForConditionalGeneration", "model.language_model.",
                                 "lm_head."},
                    WrappedModel{"exaone4-tiny", "exaone4_5", "Exaone4_5_ForConditionalGeneration",
                                 "model.language_model.", "lm_head."},
                    WrappedModel{"glm4-tiny", "glm46v", "Glm46VForConditionalGeneration",
                                 "model.language_model.", "lm_head."},
                    WrappedModel{"llama3-tiny", "idefics3", "Idefics3ForConditionalGeneration",
                                 "model.text_model.", "lm_head."},
                    WrappedModel{"qwen2-tiny", "internvl", "InternVLForConditionalGeneration",
                                 "language_model.model.", "language_model.lm_head."},
                    WrappedModel{"kimi-k2-tiny", "kimi_k25", "Kimi_K25ForConditionalGeneration",
                                 "language_model.model.", "language_model.lm_head."},
                    WrappedModel{"lfm2-tiny", "lfm2_vl", "Lfm2VlForConditionalGeneration",
                                 "model.language_model.", "lm_head."},
                    WrappedModel{"lfm3-tiny", "lfm3_vl", "Lfm3VlForConditionalGeneration",
                                 "model.language_model.", "lm_head."},
                    WrappedModel{"mistral-tiny", "llava", "LlavaForConditionalGeneration",
                                 "language_model.model.", "language_model.lm_head."},
                    WrappedModel{"llama3-tiny", "smolvlm", "SmolVLMForConditionalGeneration",
                                 "model.text_model.", "lm_head."},
                    WrappedModel{"qwen3-5-tiny", "qwen3_5", "Qwen3_5ForConditionalGeneration",
                                 "model.language_model.", "lm_head."},
                    WrappedModel{"qwen3-5-moe-tiny", "qwen3_5_moe",
                                 "Qwen3_5MoeForConditionalGeneration", "model.language_model.",
                                 "lm_head."}),
    [](const auto& run) { return std::string(run.param.model_type); });

TEST(WrappedErrors, NameTheFieldWithin) {
  const WrappedModel model = {"gemma3-tiny", "gemma3", "Gemma3ForConditionalGeneration",
                              "model.language_model.", "lm_head."};
  struct Row {
    const char* name;
    void (*change)(json& config);
    const char* message;
  };
  for (const Row& row : {
           Row{"no text", [](json& c) { c.erase("text_config"); }, "text_config: missing"},
           Row{"no object", [](json& c) { c["text_config"] = 3; }, "text_config: 3"},
           Row{"another family", [](json& c) { c["text_config"]["model_type"] = "gemma9"; },
               "text_config.model_type: 'gemma9'"},
           Row{"another class", [](json& c) { c["architectures"] = {"Gemma3ForCausalLM"}; },
               "architectures: 'Gemma3ForCausalLM'; valid: [\"Gemma3ForConditionalGeneration\"]"},
           Row{"a size", [](json& c) { c["text_config"]["hidden_size"] = 0; },
               "text_config.hidden_size: 0"},
       }) {
    HfBuilder builder = wrapped(model);
    row.change(builder.config);
    const test::TempFolder folder(test::kInMemory);
    builder.write(folder);
    const auto opened = open_model(folder.path());
    ASSERT_FALSE(opened) << row.name;
    EXPECT_NE(opened.error().message.find(row.message), std::string::npos)
        << opened.error().message;
  }
}

}  // namespace
}  // namespace dovetail::families
