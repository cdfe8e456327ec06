#include "families/rope.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "kernels/functions.h"
#include "load/limits.h"
#include "load/quote.h"

namespace dovetail::families {
namespace {

using load::JsonFields;
using load::kLargestContext;
using load::kLargestFactor;
using load::kLargestTheta;
using load::ModelConfig;
using load::quote;
using load::RopeConfig;
using load::RopeScaling;
using nlohmann::json;

// YaRN's correction of the magnitude, equation 22 of https://arxiv.org/abs/2309.00071.
float yarn_magnitude(float factor, float scale) {
  return factor <= 1.0F ? 1.0F : 0.1F * scale * static_cast<float>(kernels::log(factor)) + 1.0F;
}

void make_context_longer(const RopeConfig& rope, ModelConfig& config) {
  const double reach = std::floor(double{rope.factor} * rope.original_context);
  const double longest = std::min(reach, double{kLargestContext});
  config.max_context = std::max(config.max_context, static_cast<std::uint32_t>(longest));
}

void read_yarn_of_gguf(Fields& fields, std::optional<float> factor, Key factor_key,
                       ModelConfig& config, RopeConfig& rope) {
  rope.scaling = RopeScaling::kYarn;
  if (!factor) {
    fields.reject(factor_key, "missing", "a float of at least 1", ErrorKind::kInvalid);
  }
  rope.factor = factor.value_or(1.0F);
  rope.original_context =
      fields.count({"rope.scaling.original_context_length", ""}, 1, kLargestContext)
          .value_or(config.max_context);
  constexpr Key kFast = {"rope.scaling.yarn_beta_fast", ""};
  rope.beta_fast = fields.number(kFast, 0.001F, kLargestFactor).value_or(32.0F);
  rope.beta_slow =
      fields.number({"rope.scaling.yarn_beta_slow", ""}, 0.001F, kLargestFactor).value_or(1.0F);
  if (rope.beta_fast < rope.beta_slow) {
    fields.reject(kFast, fmt::format("{}", rope.beta_fast),
                  fmt::format("at least yarn_beta_slow {}", rope.beta_slow), ErrorKind::kInvalid);
  }
  constexpr Key kExtrapolation = {"rope.scaling.yarn_ext_factor", ""};
  const auto extrapolation = fields.number(kExtrapolation, -kLargestFactor, kLargestFactor);
  if (extrapolation && *extrapolation != 1.0F) {
    fields.reject(kExtrapolation, fmt::format("{}", *extrapolation), "1");
  }
  // What the file gives multiplies the correction that YaRN itself makes.
  float given = 1.0F;
  for (const Key key :
       {Key{"rope.scaling.attn_factor", ""}, Key{"rope.scaling.yarn_attn_factor", ""}}) {
    given *= fields.number(key, 0.001F, kLargestFactor).value_or(1.0F);
  }
  // What DeepSeek and Mistral call mscale_all_dim takes the correction back.
  const auto multiplier =
      fields.number({"rope.scaling.yarn_log_multiplier", ""}, 0.0F, kLargestFactor);
  rope.attention_factor = given * yarn_magnitude(rope.factor, 1.0F) /
                          yarn_magnitude(rope.factor, multiplier.value_or(0.0F));
  make_context_longer(rope, config);
}

constexpr const char* kLongFactors = "rope_factors_long.weight";
constexpr const char* kShortFactors = "rope_factors_short.weight";

// Divisors of `turning`/2 frequencies that lie in a tensor.
void read_divisors(Fields& fields, const load::StoredTensor& tensor, std::uint32_t turning,
                   std::vector<float>& divisors) {
  const std::size_t wanted = turning / 2;
  const auto where = [&] {
    return fmt::format("{}: tensor {}", tensor.file, quote(tensor.stored_name));
  };
  if (tensor.type != kernels::DataType::kF32 ||
      tensor.shape != std::vector<std::uint64_t>{wanted}) {
    fields.take_failure(fail(ErrorKind::kInvalid, "{}: type {}, shape {}; valid: F32, [{}]",
                             where(), tensor.stored_type, load::shape_text(tensor.shape), wanted));
    return;
  }
  divisors.resize(wanted);
  std::memcpy(divisors.data(), tensor.data.data(), wanted * sizeof(float));
  for (const float divisor : divisors) {
    if (std::isfinite(divisor) && divisor > 0.0F) continue;
    fields.take_failure(fail(ErrorKind::kInvalid, "{}: a divisor of {}; valid: finite and above 0",
                             where(), divisor));
    return;
  }
}

// The factors are tensors, which tell that there is such a scaling: converters write no type.
void read_longrope_of_gguf(Fields& fields, std::uint32_t turning, const ModelConfig& config,
                           RopeConfig& rope) {
  rope.scaling = RopeScaling::kLongRope;
  rope.original_context =
      fields.count({"rope.scaling.original_context_length", ""}, 1, kLargestContext)
          .value_or(config.max_context);
  rope.attention_factor =
      fields.number({"rope.scaling.attn_factor", ""}, 0.001F, kLargestFactor).value_or(1.0F);
  for (const auto& [name, divisors] : {std::pair{kLongFactors, &rope.long_divisors},
                                       std::pair{kShortFactors, &rope.frequency_divisors}}) {
    const load::StoredTensor* tensor = fields.tensor(name);
    if (tensor == nullptr) {
      fields.take_failure(fail(ErrorKind::kInvalid,
                               "{}: tensor '{}': missing; valid: both kinds of LongRoPE's factors",
                               fields.file(), name));
      return;
    }
    read_divisors(fields, *tensor, turning, *divisors);
  }
}

void read_scaling_of_gguf(Fields& fields, std::uint32_t turning, ModelConfig& config,
                          RopeConfig& rope) {
  constexpr Key kType = {"rope.scaling.type", ""};
  const auto type = fields.text(kType);
  const Key factor_key = fields.has({"rope.scaling.factor", ""}) ? Key{"rope.scaling.factor", ""}
                                                                 : Key{"rope.scale_linear", ""};
  // 0 is how a converter says "none"; a factor without a type is a linear one.
  auto factor = fields.number(factor_key, 0.0F, kLargestFactor);
  if (factor && *factor == 0.0F) factor.reset();
  if (factor && *factor < 1.0F) {
    fields.reject(factor_key, fmt::format("{}", *factor), "0, or at least 1");
  }
  if (type == "longrope" || fields.has_tensor(kLongFactors) || fields.has_tensor(kShortFactors)) {
    if (type && type != "longrope" && type != "none") {
      fields.reject(kType, quote(*type), "'longrope' beside LongRoPE's factors");
    }
    read_longrope_of_gguf(fields, turning, config, rope);
    return;
  }
  if (type == "yarn") {
    read_yarn_of_gguf(fields, factor, factor_key, config, rope);
    return;
  }
  for (const Key key :
       {Key{"rope.scaling.attn_factor", ""}, Key{"rope.scaling.yarn_attn_factor", ""}}) {
    const auto attention = fields.number(key, 0.0F, kLargestFactor);
    if (attention && *attention != 1.0F) {
      fields.reject(key, fmt::format("{}", *attention), "1 unless the type is yarn or longrope");
    }
  }
  if (type == "linear" || (!type && factor)) {
    if (!factor || *factor == 1.0F) return;
    rope.scaling = RopeScaling::kLinear;
    rope.factor = *factor;
  } else if (type && *type != "none") {
    fields.reject(kType, quote(*type), "none, linear, yarn, longrope");
  }
}

RopeConfig read_rope_of_gguf(Fields& fields, const RopeRules& rules, ModelConfig& config) {
  RopeConfig rope;
  rope.interleaved = rules.interleaved_in_gguf;
  rope.theta = fields.number(rules.base, 1.0F, kLargestTheta).value_or(10000.0F);
  const auto dims = fields.count(rules.dims, 0, 1U << 20U);
  std::uint32_t turning = rules.head_dim;
  if (dims && *dims != rules.head_dim) {
    if (!rules.may_be_partial || *dims > rules.head_dim || *dims == 0) {
      fields.reject(rules.dims, fmt::format("{}", *dims),
                    fmt::format("the head size {}", rules.head_dim));
    }
    rope.dims = turning = *dims;
  }
  if (!rules.scaled) return rope;
  read_scaling_of_gguf(fields, turning, config, rope);
  // How converters write llama3's scaling.
  if (const load::StoredTensor* tensor = fields.tensor("rope_freqs.weight")) {
    read_divisors(fields, *tensor, turning, rope.frequency_divisors);
  }
  return rope;
}

float required_float(JsonFields& fields, std::string_view key, float low, float high) {
  const auto value = fields.optional_float(key, low, high);
  if (!value) fields.reject(key, "missing", fmt::format("a number from {} to {}", low, high));
  return value.value_or(low);
}

void read_yarn(JsonFields& fields, ModelConfig& config, std::optional<std::uint32_t> original,
               RopeConfig& rope) {
  rope.scaling = RopeScaling::kYarn;
  rope.original_context = original.value_or(config.max_context);
  const auto factor = fields.optional_float("factor", 1.0F, kLargestFactor);
  if (factor) {
    rope.factor = *factor;
  } else if (original && *original <= config.max_context) {
    rope.factor = static_cast<float>(config.max_context) / static_cast<float>(*original);
  } else {
    fields.reject("factor", "missing", "a number of at least 1");
  }
  rope.beta_fast = fields.optional_float("beta_fast", 0.001F, kLargestFactor).value_or(32.0F);
  rope.beta_slow = fields.optional_float("beta_slow", 0.001F, kLargestFactor).value_or(1.0F);
  if (rope.beta_fast < rope.beta_slow) {
    fields.reject("beta_fast", fmt::format("{}", rope.beta_fast),
                  fmt::format("at least beta_slow {}", rope.beta_slow));
  }
  rope.truncate = fields.optional_bool("truncate").value_or(true);
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
  make_context_longer(rope, config);
}

void read_llama3(JsonFields& fields, std::optional<std::uint32_t> original, RopeConfig& rope) {
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

void read_factors(JsonFields& fields, std::string_view key, std::size_t wanted,
                  std::vector<float>& factors) {
  const json* list = fields.find(key);
  const std::string valid = fmt::format("a list of {} numbers above 0", wanted);
  if (list == nullptr || !list->is_array() || list->size() != wanted) {
    fields.reject(key, list == nullptr ? "missing" : load::text_of(*list), valid);
    return;
  }
  for (const json& factor : *list) {
    const float value = factor.is_number() ? factor.get<float>() : 0.0F;
    if (!(value > 0.0F) || !std::isfinite(value)) {
      fields.reject(key, load::text_of(factor), valid);
      return;
    }
    factors.push_back(value);
  }
}

void read_longrope(JsonFields& fields, const ModelConfig& config, const RopeRules& rules,
                   std::optional<std::uint32_t> original, RopeConfig& rope) {
  rope.scaling = RopeScaling::kLongRope;
  if (!original) {
    fields.reject("original_max_position_embeddings", "missing",
                  fmt::format("an integer from 1 to {}", kLargestContext));
  }
  rope.original_context = original.value_or(1);
  const std::size_t pairs = (rope.dims == 0 ? rules.head_dim : rope.dims) / 2;
  read_factors(fields, "short_factor", pairs, rope.frequency_divisors);
  read_factors(fields, "long_factor", pairs, rope.long_divisors);
  const float factor = fields.optional_float("factor", 0.001F, kLargestFactor)
                           .value_or(static_cast<float>(config.max_context) /
                                     static_cast<float>(rope.original_context));
  const auto attention = fields.optional_float("attention_factor", 0.001F, kLargestFactor);
  if (attention) {
    rope.attention_factor = *attention;
  } else if (factor > 1.0F && rope.original_context > 1) {
    rope.attention_factor = static_cast<float>(
        std::sqrt(1.0 + kernels::log(factor) / kernels::log(rope.original_context)));
  }
}

void read_partial(JsonFields& fields, const RopeRules& rules, std::optional<float> given,
                  RopeConfig& rope) {
  const float part = given.value_or(rules.partial);
  if (part == 1.0F || std::fabs(part - rules.whole) < 1e-6F) return;
  if (!rules.may_be_partial) {
    fields.reject("partial_rotary_factor", fmt::format("{}", part), "1", ErrorKind::kUnsupported);
    return;
  }
  rope.dims = static_cast<std::uint32_t>(static_cast<float>(rules.head_dim) * part);
  if (rope.dims != 0 && rope.dims % 2 == 0) return;
  fields.reject("partial_rotary_factor", fmt::format("{}", part),
                fmt::format("an even number of the {} elements of a head", rules.head_dim));
}

constexpr std::string_view kTypes = "default, dynamic, linear, llama3, yarn, longrope";

void read_proportional(JsonFields& fields, const RopeRules& rules, RopeConfig& rope) {
  const float part = fields.optional_float("partial_rotary_factor", 0.0F, 1.0F).value_or(1.0F);
  turn_part(rope, rules.head_dim, part,
            fields.optional_float("factor", 0.001F, kLargestFactor).value_or(1.0F));
}

// What rope_parameters, or rope_scaling as older files call it, says.
void read_object(Fields& fields, const json& object, const std::string& path,
                 const RopeRules& rules, float theta, bool new_name, ModelConfig& config,
                 RopeConfig& rope) {
  JsonFields inner(object, fields.file(), path + ".");
  auto new_spelling = inner.optional_string("rope_type");
  auto old_spelling = inner.optional_string("type");
  // What it was called at first, and may be called still beside its new name.
  for (auto* spelling : {&new_spelling, &old_spelling}) {
    if (*spelling == "su") *spelling = "longrope";
  }
  if (new_spelling && old_spelling && *new_spelling != *old_spelling) {
    inner.reject("type", quote(*old_spelling),
                 fmt::format("the same as rope_type {}", quote(*new_spelling)));
  }
  const std::optional<std::string> type = new_spelling ? new_spelling : old_spelling;
  rope.theta = inner.optional_float("rope_theta", 1.0F, kLargestTheta).value_or(theta);
  if (type == "proportional" && rules.proportional) {
    read_proportional(inner, rules, rope);
    return fields.take_failure(inner.status());
  }
  if (const auto part = inner.optional_float("partial_rotary_factor", 0.0F, 1.0F)) {
    rope.dims = 0;
    read_partial(inner, rules, part, rope);
  }
  auto original = fields.count({"", "original_max_position_embeddings"}, 1, kLargestContext);
  if (!original) {
    original = inner.optional_count("original_max_position_embeddings", 1, kLargestContext);
  }
  const bool nested = std::any_of(object.begin(), object.end(),
                                  [](const json& value) { return value.is_object(); });
  if (nested) {
    fields.of_json().reject(path, "different for kinds of layers", "the same for every layer",
                            ErrorKind::kUnsupported);
  } else if (!type) {
    // The new spelling leaves the type out where nothing is scaled.
    if (!new_name || inner.has("factor")) {
      inner.reject("rope_type", "missing", kTypes);
    }
  } else if (!rules.scaled && *type != "default") {
    inner.reject("rope_type", quote(*type), "'default' for these layers", ErrorKind::kUnsupported);
  } else if (*type == "linear") {
    rope.scaling = RopeScaling::kLinear;
    rope.factor = required_float(inner, "factor", 1.0F, kLargestFactor);
  } else if (*type == "llama3") {
    read_llama3(inner, original, rope);
  } else if (*type == "yarn" && inner.has("long_factor")) {
    inner.reject(new_spelling ? "rope_type" : "type", quote(*type), "'longrope' beside long_factor",
                 ErrorKind::kUnsupported);
  } else if (*type == "yarn") {
    read_yarn(inner, config, original, rope);
  } else if (*type == "longrope") {
    read_longrope(inner, config, rules, original, rope);
  } else if (*type != "default" && *type != "dynamic" && *type != "mrope") {
    // What is dynamic scales nothing up to max_position_embeddings, the longest context here. The
    // sections of mrope are for pictures: the positions of text are alike in all of them.
    inner.reject(new_spelling ? "rope_type" : "type", quote(*type), kTypes,
                 ErrorKind::kUnsupported);
  }
  fields.take_failure(inner.status());
}

// rope_theta at the top with rope_scaling beside it, or everything within rope_parameters.
RopeConfig read_rope_of_hf(Fields& fields, const RopeRules& rules, ModelConfig& config) {
  RopeConfig rope;
  rope.interleaved = rules.interleaved_in_hf;
  JsonFields& top = fields.of_json();
  rope.theta = fields.number(rules.base, 1.0F, kLargestTheta).value_or(rules.theta);
  read_partial(top, rules, fields.number({"", "partial_rotary_factor"}, 0.0F, 1.0F), rope);
  const bool both = top.has("rope_parameters") && top.has("rope_scaling");
  if (both && *top.find("rope_parameters") != *top.find("rope_scaling")) {
    top.reject("rope_scaling", "given beside a different rope_parameters",
               "one of the two, or the same in both");
    return rope;
  }
  const bool new_name = top.has("rope_parameters");
  std::string path = new_name ? "rope_parameters" : "rope_scaling";
  const json* object = top.find(path);
  if (object != nullptr && object->is_object() && !rules.layer_type.empty()) {
    if (const auto one = object->find(rules.layer_type); one != object->end()) {
      path += fmt::format(".{}", rules.layer_type);
      object = one->is_null() ? nullptr : &*one;
    } else if (!rules.scaled && !new_name) {
      return rope;
    }
  }
  if (object == nullptr) return rope;
  if (!object->is_object()) {
    top.reject(path, load::text_of(*object), "an object or null");
    return rope;
  }
  read_object(fields, *object, path, rules, rope.theta, new_name, config, rope);
  return rope;
}

}  // namespace

void turn_part(RopeConfig& rope, std::uint32_t head_dim, float part, float factor) {
  const std::size_t pairs = head_dim / 2;
  const auto turning = static_cast<std::size_t>(part * static_cast<float>(head_dim) / 2.0F);
  rope.frequency_divisors.assign(pairs, load::kDivisorOfNone);
  std::fill_n(rope.frequency_divisors.begin(), std::min(turning, pairs), factor);
}

// llama_4_scaling_beta within rope_parameters, beside the context that it counts in.
Temperature read_temperature(Fields& fields, const RopeConfig& rope) {
  constexpr Key kScale = {"attention.temperature_scale", "rope_parameters"};
  constexpr Key kLength = {"attention.temperature_length", ""};
  Temperature out{0.0F, rope.original_context};
  if (fields.gguf()) {
    out.scale = fields.number(kScale, 0.0F, kLargestFactor).value_or(0.0F);
    out.context = fields.count(kLength, 1, load::kLargestContext).value_or(out.context);
  } else if (const json* rope_fields = fields.member(kScale.hf);
             rope_fields != nullptr && rope_fields->is_object()) {
    JsonFields inner(*rope_fields, fields.file(), "rope_parameters.");
    out.scale = inner.optional_float("llama_4_scaling_beta", 0.0F, kLargestFactor).value_or(0.0F);
    fields.take_failure(inner.status());
  }
  if (out.scale != 0.0F && out.context == 0) {
    fields.reject(kScale, fmt::format("{}", out.scale),
                  "0 without the context that rope scaling was made from");
  }
  return out;
}

RopeConfig read_rope(Fields& fields, const RopeRules& rules, ModelConfig& config) {
  return fields.gguf() ? read_rope_of_gguf(fields, rules, config)
                       : read_rope_of_hf(fields, rules, config);
}

}  // namespace dovetail::families
