#include "families/registry.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "load/gguf_fields.h"
#include "load/json_fields.h"
#include "load/quote.h"

namespace dovetail::families {
namespace {

using nlohmann::json;

constexpr Family kFamilies[] = {
    {"afmoe", "afmoe", "afmoe", "AfmoeForCausalLM", kAfmoe},
    {"apertus", "apertus", "apertus", "ApertusForCausalLM", kApertus},
    {"arcee", "arcee", "arcee", "ArceeForCausalLM", kArcee},
    {"bailing_moe_v2", "bailingmoe2", "bailing_moe_v2", "BailingMoeV2ForCausalLM", kBailingMoe},
    {"bailing_moe_v2", "", "bailing_moe", "BailingMoeV2ForCausalLM", kBailingMoe},
    {"bert", "bert", "bert", "BertModel", kBert},
    {"bert", "", "bert", "BertForSequenceClassification", kBertRanker},
    {"cohere", "command-r", "cohere", "CohereForCausalLM", kCohere},
    {"cohere2", "cohere2", "cohere2", "Cohere2ForCausalLM", kCohere2},
    {"deepseek2", "deepseek2", "deepseek_v2", "DeepseekV2ForCausalLM", kDeepseek},
    {"deepseek3", "", "deepseek_v3", "DeepseekV3ForCausalLM", kDeepseek},
    {"deepseek32", "deepseek32", "deepseek_v32", "DeepseekV32ForCausalLM", kDeepseek},
    {"deepseek4", "deepseek4", "deepseek_v4", "DeepseekV4ForCausalLM", kDeepseekV4},
    {"dots1", "dots1", "dots1", "Dots1ForCausalLM", kDots1},
    {"ernie4_5", "ernie4_5", "ernie4_5", "Ernie4_5ForCausalLM", kErnie4_5},
    {"ernie4_5_moe", "ernie4_5-moe", "ernie4_5_moe", "Ernie4_5_MoeForCausalLM", kErnie4_5Moe},
    {"exaone4", "exaone4", "exaone4", "Exaone4ForCausalLM", kExaone4},
    {"exaone_moe", "exaone-moe", "exaone_moe", "ExaoneMoeForCausalLM", kExaoneMoe},
    {"exaone_moe", "", "exaone_moe", "ExaoneMoEForCausalLM", kExaoneMoe},
    {"falcon_h1", "falcon-h1", "falcon_h1", "FalconH1ForCausalLM", kFalconH1},
    {"gemma", "gemma", "gemma", "GemmaForCausalLM", kGemma},
    {"gemma2", "gemma2", "gemma2", "Gemma2ForCausalLM", kGemma2},
    {"gemma3", "gemma3", "gemma3_text", "Gemma3ForCausalLM", kGemma3},
    {"gemma_embedding", "gemma-embedding", "gemma3_text", "Gemma3TextModel", kGemmaEmbedding},
    {"gemma4", "gemma4", "gemma4_text", "Gemma4ForCausalLM", kGemma4},
    {"gemma4_unified", "", "gemma4_unified_text", "Gemma4UnifiedForCausalLM", kGemma4},
    {"glm4", "glm4", "glm4", "Glm4ForCausalLM", kGlm4},
    {"glm4", "", "glm4v_text", "Glm4vTextForCausalLM", kGlm4v},
    {"glm4_moe", "glm4moe", "glm4_moe", "Glm4MoeForCausalLM", kGlm4Moe},
    {"glm4_moe", "", "glm4v_moe_text", "Glm4vMoeTextForCausalLM", kGlm4vMoe},
    {"glm4_moe_lite", "", "glm4_moe_lite", "Glm4MoeLiteForCausalLM", kDeepseek},
    {"glm_dsa", "glm-dsa", "glm_moe_dsa", "GlmMoeDsaForCausalLM", kDeepseek},
    {"gpt_oss", "gpt-oss", "gpt_oss", "GptOssForCausalLM", kGptOss},
    {"granite", "granite", "granite", "GraniteForCausalLM", kGranite},
    {"granitemoe", "granitemoe", "granitemoe", "GraniteMoeForCausalLM", kGraniteMoe},
    {"granitemoehybrid", "granitehybrid", "granitemoehybrid", "GraniteMoeHybridForCausalLM",
     kGraniteHybrid},
    {"granitemoeshared", "", "granitemoeshared", "GraniteMoeSharedForCausalLM", kGraniteMoe},
    {"granite_swa", "granite_swa", "granite_swa", "GraniteSWAForCausalLM", kGraniteSwa},
    {"granite_swa", "", "granitemoe_swa", "GraniteMoeSWAForCausalLM", kGraniteSwa},
    {"hunyuan_dense", "hunyuan-dense", "hunyuan_v1_dense", "HunYuanDenseV1ForCausalLM",
     kHunyuanDense},
    {"hunyuan_moe", "hunyuan-moe", "hunyuan_v1_moe", "HunYuanMoEV1ForCausalLM", kHunyuanMoe},
    {"internlm3", "", "internlm3", "InternLM3ForCausalLM", kInternLm3},
    {"internlm3", "", "internlm3", "LlamaForCausalLM", kInternLm3},
    {"kimi_linear", "kimi-linear", "kimi_linear", "KimiLinearForCausalLM", kKimiLinear},
    {"kimi_k2", "", "kimi_k2", "DeepseekV3ForCausalLM", kDeepseek},
    {"lfm2", "lfm2", "lfm2", "Lfm2ForCausalLM", kLfm2},
    {"lfm2_moe", "lfm2moe", "lfm2_moe", "Lfm2MoeForCausalLM", kLfm2Moe},
    {"lfm3", "", "lfm3", "Lfm3ForCausalLM", kLfm3},
    {"llama", "llama", "llama", "LlamaForCausalLM", kLlama},
    {"mellum", "mellum", "mellum", "MellumForCausalLM", kMellum},
    {"minicpm", "minicpm", "minicpm", "MiniCPMForCausalLM", kMinicpm},
    {"minimax_m2", "minimax-m2", "minimax_m2", "MiniMaxM2ForCausalLM", kMinimaxM2},
    {"ministral", "", "ministral", "MinistralForCausalLM", kMinistral},
    {"ministral3", "mistral3", "ministral3", "Ministral3ForCausalLM", kMinistral3},
    {"mistral", "mistral", "mistral", "MistralForCausalLM", kMistral},
    {"mistral4", "mistral4", "mistral4", "Mistral4ForCausalLM", kDeepseek},
    {"mixtral", "", "mixtral", "MixtralForCausalLM", kMixtral},
    {"modernbert", "modern-bert", "modernbert", "ModernBertModel", kModernBert},
    {"modernbert", "", "modernbert", "ModernBertForSequenceClassification", kModernBertRanker},
    {"nemotron_h", "nemotron_h", "nemotron_h", "NemotronHForCausalLM", kNemotronH},
    {"nemotron_h_moe", "nemotron_h_moe", "", "NemotronHForCausalLM", kNemotronH},
    {"nomic_bert", "nomic-bert", "nomic_bert", "NomicBertModel", kNomicBert},
    {"olmo2", "olmo2", "olmo2", "Olmo2ForCausalLM", kOlmo2},
    {"olmo3", "", "olmo3", "Olmo3ForCausalLM", kOlmo2},
    {"olmoe", "olmoe", "olmoe", "OlmoeForCausalLM", kOlmoe},
    {"phi3", "phi3", "phi3", "Phi3ForCausalLM", kPhi3},
    {"qwen2", "qwen2", "qwen2", "Qwen2ForCausalLM", kQwen2},
    {"qwen2_moe", "qwen2moe", "qwen2_moe", "Qwen2MoeForCausalLM", kQwen2Moe},
    {"qwen2_vl", "qwen2vl", "qwen2_vl_text", "Qwen2VLTextForCausalLM", kQwen2Vl},
    {"qwen2_vl", "", "qwen2_5_vl_text", "Qwen2_5_VLTextForCausalLM", kQwen2Vl},
    {"qwen3", "qwen3", "qwen3", "Qwen3ForCausalLM", kQwen3},
    {"qwen3_5", "qwen35", "qwen3_5_text", "Qwen3_5ForCausalLM", kQwen3_5},
    {"qwen3_5_moe", "qwen35moe", "qwen3_5_moe_text", "Qwen3_5MoeForCausalLM", kQwen3_5Moe},
    {"qwen3_moe", "qwen3moe", "qwen3_moe", "Qwen3MoeForCausalLM", kQwen3Moe},
    {"qwen3_next", "qwen3next", "qwen3_next", "Qwen3NextForCausalLM", kQwen3Next},
    {"qwen3_vl", "qwen3vl", "qwen3_vl_text", "Qwen3VLTextForCausalLM", kQwen3Vl},
    {"qwen3_vl_moe", "qwen3vlmoe", "qwen3_vl_moe_text", "Qwen3VLMoeTextForCausalLM", kQwen3VlMoe},
    {"seed_oss", "seed_oss", "seed_oss", "SeedOssForCausalLM", kSeedOss},
    {"smollm3", "smollm3", "smollm3", "SmolLM3ForCausalLM", kSmolLm3},
    {"starcoder2", "starcoder2", "starcoder2", "Starcoder2ForCausalLM", kStarcoder2},
    {"solar_open", "", "solar_open", "SolarOpenForCausalLM", kSolarOpen},
    {"stablelm", "stablelm", "stablelm", "StableLmForCausalLM", kStableLm},
    {"xlm_roberta", "", "xlm-roberta", "XLMRobertaModel", kXlmRoberta},
    {"xlm_roberta", "", "xlm-roberta", "XLMRobertaForSequenceClassification", kXlmRobertaRanker},
    {"youtu", "", "youtu", "YoutuForCausalLM", kDeepseek},
};

// Models that take pictures and more, whose text is read: the rest of them is left alone.
struct Wrapper {
  std::string_view model_type;
  std::string_view class_name;
  // What the model_type of its text is where older files have that at the top; empty: none has.
  std::string_view text_type = {};
};
constexpr Wrapper kWrappers[] = {
    {"aya_vision", "AyaVisionForConditionalGeneration"},
    {"cohere2_vision", "Cohere2VisionForConditionalGeneration"},
    {"exaone4_5", "Exaone4_5_ForConditionalGeneration"},
    {"gemma3", "Gemma3ForConditionalGeneration"},
    {"gemma4", "Gemma4ForConditionalGeneration"},
    {"gemma4_unified", "Gemma4UnifiedForConditionalGeneration"},
    {"glm46v", "Glm46VForConditionalGeneration"},
    {"glm4v", "Glm4vForConditionalGeneration", "glm4v_text"},
    {"glm4v_moe", "Glm4vMoeForConditionalGeneration"},
    {"idefics3", "Idefics3ForConditionalGeneration"},
    {"internvl", "InternVLForConditionalGeneration"},
    {"kimi_k25", "Kimi_K25ForConditionalGeneration"},
    {"lfm2_vl", "Lfm2VlForConditionalGeneration"},
    {"lfm3_vl", "Lfm3VlForConditionalGeneration"},
    {"llava", "LlavaForConditionalGeneration"},
    {"mistral3", "Mistral3ForConditionalGeneration"},
    {"qwen2_5_vl", "Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl_text"},
    {"qwen2_vl", "Qwen2VLForConditionalGeneration", "qwen2_vl_text"},
    {"qwen3_5", "Qwen3_5ForConditionalGeneration"},
    {"qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration"},
    {"qwen3_vl", "Qwen3VLForConditionalGeneration"},
    {"qwen3_vl_moe", "Qwen3VLMoeForConditionalGeneration"},
    {"smolvlm", "SmolVLMForConditionalGeneration"},
};
constexpr std::string_view kTextMember = "text_config";

// What stands before the names of their tensors for text, in newer and older checkpoints.
constexpr std::pair<std::string_view, std::string_view> kTextNames[] = {
    {"model.language_model.", "model."},
    {"model.text_model.", "model."},
    {"language_model.model.", "model."},
    {"language_model.lm_head.", "lm_head."},
    {"lm_head.", "lm_head."},
    {"model.embed_tokens.", "model.embed_tokens."},
    {"model.layers.", "model.layers."},
    {"model.norm.", "model.norm."},
    {"mtp.", "mtp."},
};

// What transformers calls a class without the head for tokens; empty where that is not the head.
std::string headless_class(std::string_view class_name) {
  constexpr std::string_view kHead = "ForCausalLM";
  if (!class_name.ends_with(kHead)) return {};
  return std::string(class_name.substr(0, class_name.size() - kHead.size())) + "Model";
}

// Each name once: rows of one model_type follow each other.
std::string list_of(std::string_view Family::*name) {
  std::string out;
  std::string_view before;
  for (const Family& family : kFamilies) {
    if ((family.*name).empty() || family.*name == before) continue;
    before = family.*name;
    out += fmt::format("{}{}", out.empty() ? "" : ", ", before);
  }
  return out;
}

const Family* find_by(std::string_view Family::*name, std::string_view wanted) {
  const auto* found = std::find_if(std::begin(kFamilies), std::end(kFamilies),
                                   [&](const Family& family) { return family.*name == wanted; });
  return found == std::end(kFamilies) || wanted.empty() ? nullptr : found;
}

Result<FoundFamily> find_in_gguf(const load::GgufFile& gguf, const std::string& file) {
  load::GgufFields fields(gguf, file);
  const auto type = fields.optional_string("general.type");
  if (type && *type != "model") {
    fields.reject("general.type", load::quote(*type), "'model'", ErrorKind::kUnsupported);
  }
  const auto name = fields.optional_string("general.architecture");
  const Family* found = find_by(&Family::architecture, name.value_or(""));
  if (found == nullptr) {
    fields.reject("general.architecture", name ? load::quote(*name) : "missing",
                  list_of(&Family::architecture), ErrorKind::kUnsupported);
  }
  if (auto status = fields.status(); !status) return fail(status.error());
  return FoundFamily{found};
}

Result<FoundFamily> find_in_json(const json& config, const std::string& file) {
  load::JsonFields fields(config, file);
  const auto type = fields.optional_string("model_type");
  const auto* wrapper = std::find_if(std::begin(kWrappers), std::end(kWrappers),
                                     [&](const Wrapper& row) { return row.model_type == type; });
  const bool known = wrapper != std::end(kWrappers);
  const bool flat = known && !wrapper->text_type.empty() && fields.find(kTextMember) == nullptr;
  const bool wrapped = known && !flat;
  const json* text = wrapped ? fields.find(kTextMember) : &config;
  if (text == nullptr || !text->is_object()) {
    fields.reject(kTextMember, text == nullptr ? "missing" : load::text_of(*text), "an object",
                  ErrorKind::kInvalid);
    return fail(fields.status().error());
  }
  load::JsonFields of_text(*text, file, wrapped ? fmt::format("{}.", kTextMember) : "");
  const auto kind =
      flat ? std::optional<std::string>(wrapper->text_type) : of_text.optional_string("model_type");
  const Family* found = find_by(&Family::model_type, kind.value_or(""));
  if (found == nullptr) {
    of_text.reject("model_type", kind ? load::quote(*kind) : "missing",
                   list_of(&Family::model_type), ErrorKind::kUnsupported);
    return fail(of_text.status().error());
  }
  const json* classes = fields.find("architectures");
  const auto listed = [&](std::string_view class_name) {
    return classes == nullptr ||
           (classes->is_array() &&
            std::any_of(classes->begin(), classes->end(),
                        [&](const json& name) { return name.is_string() && name == class_name; }));
  };
  if (known && listed(wrapper->class_name)) return FoundFamily{found, text, wrapped};
  std::string valid;
  for (const Family& family : kFamilies) {
    if (known || family.model_type != found->model_type) continue;
    if (listed(family.class_name)) return FoundFamily{&family, text, wrapped};
    valid += fmt::format("{}[\"{}\"]", valid.empty() ? "" : " or ", family.class_name);
    const std::string headless = headless_class(family.class_name);
    if (headless.empty()) continue;
    if (listed(headless)) return FoundFamily{&family, text, wrapped, true};
    valid += fmt::format(" or [\"{}\"]", headless);
  }
  if (known) valid = fmt::format("[\"{}\"]", wrapper->class_name);
  const bool single = classes->is_array() && classes->size() == 1;
  fields.reject("architectures", load::text_of(single ? classes->front() : *classes), valid,
                ErrorKind::kUnsupported);
  return fail(fields.status().error());
}

}  // namespace

std::optional<std::string> text_name(std::string_view stored) {
  for (const auto& [before, instead] : kTextNames) {
    if (stored.starts_with(before))
      return fmt::format("{}{}", instead, stored.substr(before.size()));
  }
  return std::nullopt;
}

std::span<const Family> all_families() { return kFamilies; }

Result<FoundFamily> find_family(const load::Container& container) {
  if (const auto* gguf = std::get_if<load::GgufFile>(&container.configuration)) {
    return find_in_gguf(*gguf, container.name);
  }
  return find_in_json(*std::get<std::shared_ptr<const json>>(container.configuration),
                      container.name);
}

}  // namespace dovetail::families
