#include "load/hf_config.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "kernels/functions.h"
#include "load/decoder_numbers.h"
#include "load/json_fields.h"
#include "load/quote.h"
#include "load/tensor_binding.h"

namespace dovetail::load {
namespace {

using nlohmann::json;

struct HfFamily {
  std::string_view model_type;
  std::string_view class_name;
  Architecture architecture;
};

constexpr auto kHfFamilies = std::to_array<HfFamily>({
    {"llama", "LlamaForCausalLM", Architecture::kLlama},
    {"mistral", "MistralForCausalLM", Architecture::kMistral},
    {"mixtral", "MixtralForCausalLM", Architecture::kMixtral},
    {"qwen2", "Qwen2ForCausalLM", Architecture::kQwen2},
    {"qwen3", "Qwen3ForCausalLM", Architecture::kQwen3},
    {"qwen3_moe", "Qwen3MoeForCausalLM", Architecture::kQwen3Moe},
});

const HfFamily* find_family(JsonFields& fields) {
  const auto type = fields.optional_string("model_type");
  const auto* found =
      std::find_if(kHfFamilies.begin(), kHfFamilies.end(),
                   [&](const HfFamily& family) { return type && *type == family.model_type; });
  if (found == kHfFamilies.end()) {
    fields.reject("model_type", type ? quote(*type) : "missing",
                  "llama, mistral, mixtral, qwen2, qwen3, qwen3_moe", ErrorKind::kUnsupported);
    return nullptr;
  }
  const json* classes = fields.find("architectures");
  if (classes != nullptr) {
    const bool fits =
        classes->is_array() && std::any_of(classes->begin(), classes->end(), [&](const json& name) {
          return name.is_string() && name == found->class_name;
        });
    if (!fits) {
      const bool single = classes->is_array() && classes->size() == 1;
      fields.reject("architectures", text_of(single ? classes->front() : *classes),
                    fmt::format("[\"{}\"]", found->class_name), ErrorKind::kUnsupported);
      return nullptr;
    }
  }
  return found;
}

// Refuses by name what the model code does not compute.
void refuse_unsupported(JsonFields& fields) {
  const auto activation = fields.optional_string("hidden_act");
  if (activation && *activation != "silu") {
    fields.reject("hidden_act", quote(*activation), "'silu'", ErrorKind::kUnsupported);
  }
  if (fields.optional_bool("mlp_bias").value_or(false)) {
    fields.reject("mlp_bias", "true", "false", ErrorKind::kUnsupported);
  }
  // These families put a bias on o_proj as well when the field is set; Qwen2 has its biases on q, k
  // and v without it.
  if (fields.optional_bool("attention_bias").value_or(false)) {
    fields.reject("attention_bias", "true", "false", ErrorKind::kUnsupported);
  }
  const auto rotary = fields.optional_float("partial_rotary_factor", 0.0F, 1.0F);
  if (rotary && *rotary != 1.0F) {
    fields.reject("partial_rotary_factor", fmt::format("{}", *rotary), "1",
                  ErrorKind::kUnsupported);
  }
}

void read_sizes(JsonFields& fields, DecoderNumbers& model) {
  model.vocab_size = fields.required_count("vocab_size", 1, kLargestVocabulary);
  model.hidden_size = fields.required_count("hidden_size", 1, kLargestHiddenSize);
  // Qwen3's experts have a size of their own; that of a dense layer stands beside it.
  model.intermediate_size = fields.required_count(
      model.architecture == Architecture::kQwen3Moe ? "moe_intermediate_size" : "intermediate_size",
      1, kLargestIntermediateSize);
  model.layers = fields.required_count("num_hidden_layers", 1, kMostLayers);
  model.heads = fields.required_count("num_attention_heads", 1, kMostHeads);
  model.kv_heads =
      fields.optional_count("num_key_value_heads", 1, kMostHeads).value_or(model.heads);
  model.max_context = fields.required_count("max_position_embeddings", 1, kLargestContext);
  const float epsilon = model.architecture == Architecture::kMixtral ? 1e-5F : 1e-6F;
  model.rms_norm_epsilon = fields.optional_float("rms_norm_eps", 0.0F, 1.0F).value_or(epsilon);
  model.tied_embeddings = fields.optional_bool("tie_word_embeddings").value_or(false);

  const auto head_dim = fields.optional_count("head_dim", 1, kLargestHeadDim);
  if (head_dim) {
    model.head_dim = *head_dim;
  } else if (model.architecture == Architecture::kQwen3) {
    model.head_dim = 128;
  } else if (model.heads != 0) {
    if (model.hidden_size % model.heads != 0) {
      fields.reject(
          "num_attention_heads", fmt::format("{}", model.heads),
          fmt::format("a divisor of hidden_size {}, or an explicit head_dim", model.hidden_size));
    }
    model.head_dim = model.hidden_size / model.heads;
  }
}

// How many experts, under the name that the family's configs have, or the one that newer versions
// of transformers write for all.
std::uint32_t read_expert_count(JsonFields& fields, std::string_view key, std::string_view other) {
  const auto count = fields.optional_count(key, 1, kMostExperts);
  const auto again = fields.optional_count(other, 1, kMostExperts);
  if (count && again && *count != *again) {
    fields.reject(other, fmt::format("{}", *again), fmt::format("the same as {} {}", key, *count));
  }
  if (!count && !again) return fields.required_count(key, 1, kMostExperts);
  return count ? *count : *again;
}

void read_experts(JsonFields& fields, DecoderNumbers& model) {
  ExpertsConfig& experts = model.experts;
  if (model.architecture == Architecture::kMixtral) {
    experts.count = read_expert_count(fields, "num_local_experts", "num_experts");
    experts.normalized = true;
  } else if (model.architecture == Architecture::kQwen3Moe) {
    experts.count = read_expert_count(fields, "num_experts", "num_local_experts");
    experts.normalized = fields.optional_bool("norm_topk_prob").value_or(false);
    const auto step = fields.optional_count("decoder_sparse_step", 0, kLargestContext);
    if (step && *step != 1) {
      fields.reject("decoder_sparse_step", fmt::format("{}", *step),
                    "1, so that every layer has experts", ErrorKind::kUnsupported);
    }
    const json* dense = fields.find("mlp_only_layers");
    if (dense != nullptr && !(dense->is_array() && dense->empty())) {
      fields.reject("mlp_only_layers", text_of(*dense), "[], so that every layer has experts",
                    ErrorKind::kUnsupported);
    }
  } else {
    return;
  }
  experts.used = fields.required_count("num_experts_per_tok", 1, kMostUsedExperts);
}

enum class LayerKind { kNotGiven, kFull, kSliding };

LayerKind read_layer_types(JsonFields& fields, std::uint32_t layers) {
  const json* types = fields.find("layer_types");
  if (types == nullptr) return LayerKind::kNotGiven;
  constexpr std::string_view kValid =
      "one of full_attention and sliding_attention, the same for every layer";
  if (!types->is_array() || types->empty() || types->size() != layers) {
    fields.reject("layer_types", text_of(*types), fmt::format("a list of {} names", layers));
    return LayerKind::kNotGiven;
  }
  for (const json& type : *types) {
    if (!type.is_string() || (type != "full_attention" && type != "sliding_attention")) {
      fields.reject("layer_types", text_of(type), kValid, ErrorKind::kUnsupported);
      return LayerKind::kNotGiven;
    }
    if (type != types->front()) {
      fields.reject("layer_types", "full and sliding layers mixed", kValid,
                    ErrorKind::kUnsupported);
      return LayerKind::kNotGiven;
    }
  }
  return types->front() == "sliding_attention" ? LayerKind::kSliding : LayerKind::kFull;
}

void read_sliding_window(JsonFields& fields, DecoderNumbers& model) {
  const auto window = fields.optional_count("sliding_window", 1, kLargestContext);
  const LayerKind kind = read_layer_types(fields, model.layers);
  bool slides = false;
  switch (model.architecture) {
    case Architecture::kLlama:
      if (window || kind == LayerKind::kSliding) {
        fields.reject("sliding_window", window ? fmt::format("{}", *window) : "missing",
                      "null for model_type llama", ErrorKind::kUnsupported);
      }
      return;
    case Architecture::kMistral:
    case Architecture::kMixtral:
      slides = window.has_value();
      break;
    case Architecture::kQwen3Moe: {
      slides = fields.optional_bool("use_sliding_window").value_or(false) && window.has_value();
      // Old versions of transformers keep so many layers from sliding, newer ones let all slide.
      const auto full = fields.optional_count("max_window_layers", 0, kLargestContext);
      if (slides && full.value_or(0) != 0) {
        fields.reject("max_window_layers", fmt::format("{}", *full),
                      "0 or absent where use_sliding_window is true", ErrorKind::kUnsupported);
      }
      break;
    }
    case Architecture::kQwen2:
    case Architecture::kQwen3: {
      slides = fields.optional_bool("use_sliding_window").value_or(false) && window.has_value();
      if (!slides || kind != LayerKind::kNotGiven) break;
      // Layers from max_window_layers on slide, those before see everything.
      const auto full = fields.optional_count("max_window_layers", 0, kLargestContext).value_or(28);
      if (full >= model.layers) {
        slides = false;
      } else if (full != 0) {
        fields.reject(
            "max_window_layers", fmt::format("{}", full),
            fmt::format("0 or at least the {} layers, so that all layers are alike", model.layers),
            ErrorKind::kUnsupported);
      }
      break;
    }
  }
  if (kind == LayerKind::kFull) slides = false;
  if (kind == LayerKind::kSliding && !slides) {
    fields.reject("sliding_window", window ? "switched off by use_sliding_window" : "missing",
                  "a number of positions, since layer_types asks for sliding_attention");
  }
  model.sliding_window = slides ? window.value_or(0) : 0;
}

float required_float(JsonFields& fields, std::string_view key, float low, float high) {
  const auto value = fields.optional_float(key, low, high);
  if (!value) fields.reject(key, "missing", fmt::format("a number from {} to {}", low, high));
  return value.value_or(low);
}

// YaRN's correction of the magnitude, equation 22 of https://arxiv.org/abs/2309.00071.
float yarn_magnitude(float factor, float scale) {
  return factor <= 1.0F ? 1.0F : 0.1F * scale * static_cast<float>(kernels::log(factor)) + 1.0F;
}

void read_yarn(JsonFields& fields, DecoderNumbers& model, std::optional<std::uint32_t> original) {
  RopeConfig& rope = model.rope;
  rope.scaling = RopeScaling::kYarn;
  rope.original_context = original.value_or(model.max_context);
  const auto factor = fields.optional_float("factor", 1.0F, kLargestFactor);
  if (factor) {
    rope.factor = *factor;
  } else if (original && *original <= model.max_context) {
    rope.factor = static_cast<float>(model.max_context) / static_cast<float>(*original);
  } else {
    fields.reject("factor", "missing", "a number of at least 1");
  }
  rope.beta_fast = fields.optional_float("beta_fast", 0.001F, kLargestFactor).value_or(32.0F);
  rope.beta_slow = fields.optional_float("beta_slow", 0.001F, kLargestFactor).value_or(1.0F);
  if (rope.beta_fast < rope.beta_slow) {
    fields.reject("beta_fast", fmt::format("{}", rope.beta_fast),
                  fmt::format("at least beta_slow {}", rope.beta_slow));
  }
  if (!fields.optional_bool("truncate").value_or(true)) {
    fields.reject("truncate", "false", "true", ErrorKind::kUnsupported);
  }
  const auto attention = fields.optional_float("attention_factor", 0.001F, kLargestFactor);
  const auto scale = fields.optional_float("mscale", 0.0F, kLargestFactor).value_or(0.0F);
  const auto scale_all =
      fields.optional_float("mscale_all_dim", 0.0F, kLargestFactor).value_or(0.0F);
  if (attention) {
    rope.attention_factor = *attention;
  } else if (scale != 0.0F && scale_all != 0.0F) {
    rope.attention_factor =
        yarn_magnitude(rope.factor, scale) / yarn_magnitude(rope.factor, scale_all);
  } else {
    rope.attention_factor = yarn_magnitude(rope.factor, 1.0F);
  }
  const double reach = std::floor(double{rope.factor} * rope.original_context);
  const double longest = std::min(reach, double{kLargestContext});
  model.max_context = std::max(model.max_context, static_cast<std::uint32_t>(longest));
}

void read_llama3(JsonFields& fields, RopeConfig& rope, std::optional<std::uint32_t> original) {
  rope.scaling = RopeScaling::kLlama3;
  rope.factor = required_float(fields, "factor", 1.0F, kLargestFactor);
  rope.low_freq_factor = required_float(fields, "low_freq_factor", 0.001F, kLargestFactor);
  rope.high_freq_factor = required_float(fields, "high_freq_factor", 0.001F, kLargestFactor);
  if (rope.high_freq_factor <= rope.low_freq_factor) {
    fields.reject("high_freq_factor", fmt::format("{}", rope.high_freq_factor),
                  fmt::format("more than low_freq_factor {}", rope.low_freq_factor));
  }
  if (!original) {
    fields.reject("original_max_position_embeddings", "missing",
                  fmt::format("an integer from 1 to {}", kLargestContext));
  }
  rope.original_context = original.value_or(1);
}

// rope_theta at the top with rope_scaling beside it, or everything within rope_parameters.
void read_rope(JsonFields& fields, DecoderNumbers& model, const std::string& file) {
  RopeConfig& rope = model.rope;
  rope.interleaved = false;
  const float usual_theta = model.architecture == Architecture::kMixtral ? 1e6F : 1e4F;
  const auto top_theta = fields.optional_float("rope_theta", 1.0F, kLargestTheta);
  const bool both = fields.has("rope_parameters") && fields.has("rope_scaling");
  if (both && *fields.find("rope_parameters") != *fields.find("rope_scaling")) {
    fields.reject("rope_scaling", "given beside a different rope_parameters",
                  "one of the two, or the same in both");
    return;
  }
  const std::string_view key = fields.has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  const json* object = fields.find(key);
  if (object == nullptr) {
    rope.theta = top_theta.value_or(usual_theta);
    return;
  }
  if (!object->is_object()) {
    fields.reject(key, text_of(*object), "an object or null");
    return;
  }
  JsonFields inner(*object, file, fmt::format("{}.", key));
  const auto new_spelling = inner.optional_string("rope_type");
  const auto old_spelling = inner.optional_string("type");
  if (new_spelling && old_spelling && *new_spelling != *old_spelling) {
    inner.reject("type", quote(*old_spelling),
                 fmt::format("the same as rope_type {}", quote(*new_spelling)));
  }
  const std::optional<std::string> type = new_spelling ? new_spelling : old_spelling;
  rope.theta = inner.optional_float("rope_theta", 1.0F, kLargestTheta)
                   .value_or(top_theta.value_or(usual_theta));
  const auto rotary = inner.optional_float("partial_rotary_factor", 0.0F, 1.0F);
  if (rotary && *rotary != 1.0F) {
    inner.reject("partial_rotary_factor", fmt::format("{}", *rotary), "1", ErrorKind::kUnsupported);
  }
  auto original = inner.optional_count("original_max_position_embeddings", 1, kLargestContext);
  if (!original) {
    original = fields.optional_count("original_max_position_embeddings", 1, kLargestContext);
  }
  const bool nested = std::any_of(object->begin(), object->end(),
                                  [](const json& value) { return value.is_object(); });
  if (nested) {
    fields.reject(key, "different for kinds of layers", "the same for every layer",
                  ErrorKind::kUnsupported);
  } else if (!type) {
    // The new spelling leaves the type out where nothing is scaled.
    if (key == "rope_scaling" || inner.has("factor")) {
      inner.reject("rope_type", "missing", "default, linear, llama3, yarn");
    }
  } else if (*type == "linear") {
    rope.scaling = RopeScaling::kLinear;
    rope.factor = required_float(inner, "factor", 1.0F, kLargestFactor);
  } else if (*type == "llama3") {
    read_llama3(inner, rope, original);
  } else if (*type == "yarn") {
    read_yarn(inner, model, original);
  } else if (*type != "default") {
    inner.reject(new_spelling ? "rope_type" : "type", quote(*type), "default, linear, llama3, yarn",
                 ErrorKind::kUnsupported);
  }
  fields.take_failure(inner.status());
}

}  // namespace

Result<HuggingFaceConfig> parse_hf_config(std::string_view text, std::string_view file) {
  const auto object = parse_json_object(text, file, kLargestConfig);
  if (!object) return fail(object.error());
  const std::string name(file);
  JsonFields fields(*object, name);
  HuggingFaceConfig out;
  DecoderNumbers numbers;
  const HfFamily* family = find_family(fields);
  if (auto status = fields.status(); !status) return fail(status.error());
  numbers.architecture = family->architecture;
  numbers.attention_bias = family->architecture == Architecture::kQwen2;
  numbers.qk_norm = family->architecture == Architecture::kQwen3 ||
                    family->architecture == Architecture::kQwen3Moe;
  refuse_unsupported(fields);
  out.quantization = read_quantization(fields, name);
  read_sizes(fields, numbers);
  read_experts(fields, numbers);
  read_sliding_window(fields, numbers);
  read_rope(fields, numbers, name);
  out.eos_ids = fields.optional_ids("eos_token_id", numbers.vocab_size);
  if (auto status = fields.status(); !status) return fail(status.error());
  if (auto status = check_numbers(numbers, file); !status) return fail(status.error());
  out.model = compose(numbers);
  return out;
}

Result<GenerationDefaults> parse_generation_config(std::string_view text, std::string_view file,
                                                   std::uint32_t vocab_size) {
  const auto object = parse_json_object(text, file, kLargestConfig);
  if (!object) return fail(object.error());
  JsonFields fields(*object, std::string(file));
  GenerationDefaults defaults;
  defaults.eos_ids = fields.optional_ids("eos_token_id", vocab_size);
  defaults.temperature = fields.optional_float("temperature", 0.0F, 100.0F);
  defaults.top_p = fields.optional_float("top_p", 0.0F, 1.0F);
  defaults.min_p = fields.optional_float("min_p", 0.0F, 1.0F);
  defaults.repetition_penalty = fields.optional_float("repetition_penalty", 0.01F, 100.0F);
  if (defaults.top_p == 0.0F) fields.reject("top_p", "0", "a number above 0 and at most 1");
  defaults.top_k = fields.optional_int("top_k", -1, std::numeric_limits<std::int32_t>::max());
  if (defaults.top_k == -1) defaults.top_k = 0;  // both say "all"; a request says it with 0
  if (auto status = fields.status(); !status) return fail(status.error());
  return defaults;
}

}  // namespace dovetail::load
