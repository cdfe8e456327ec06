#include "load/gguf_config.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <string>

#include "kernels/functions.h"
#include "load/gguf_fields.h"
#include "load/quote.h"

namespace dovetail::load {
namespace {

struct GgufFamily {
  std::string_view name;
  Architecture architecture;
  // The converter permutes q and k of llama files so that pairs are neighbours.
  bool interleaved;
};

constexpr auto kGgufFamilies = std::to_array<GgufFamily>({
    {"llama", Architecture::kLlama, true},
    {"mistral", Architecture::kMistral, true},
    {"qwen2", Architecture::kQwen2, false},
    {"qwen3", Architecture::kQwen3, false},
    {"qwen3moe", Architecture::kQwen3Moe, false},
});

class ConfigReader {
 public:
  ConfigReader(const GgufFile& gguf, const StoredTensors& tensors, std::string_view file)
      : fields_(gguf, std::string(file)), tensors_(tensors), file_(file) {}

  Result<ModelConfig> read() {
    const auto type = fields_.optional_string("general.type");
    if (type && *type != "model") {
      fields_.reject("general.type", quote(*type), "'model'", ErrorKind::kUnsupported);
    }
    const auto name = fields_.optional_string("general.architecture");
    const auto* family = std::find_if(kGgufFamilies.begin(), kGgufFamilies.end(),
                                      [&](const GgufFamily& known) { return name == known.name; });
    if (family == kGgufFamilies.end()) {
      fields_.reject("general.architecture", name ? quote(*name) : "missing",
                     "llama, mistral, qwen2, qwen3, qwen3moe", ErrorKind::kUnsupported);
      return fail(fields_.status().error());
    }
    prefix_ = std::string(family->name) + ".";
    config_.architecture = family->architecture;
    config_.rope.interleaved = family->interleaved;
    refuse_unsupported();
    read_experts();
    read_sizes();
    read_what_tensors_tell();
    read_rope();
    if (auto status = fields_.status(); !status) return fail(status.error());
    if (auto status = check_config(config_, file_); !status) return fail(status.error());
    if (auto status = read_frequency_divisors(); !status) return fail(status.error());
    return config_;
  }

 private:
  std::string key(std::string_view rest) const { return prefix_ + std::string(rest); }

  void refuse_unsupported() {
    if (!fields_.optional_bool(key("attention.causal")).value_or(true)) {
      fields_.reject(key("attention.causal"), "false", "true", ErrorKind::kUnsupported);
    }
    for (const std::string_view rest :
         {"attention.scale", "attention.sliding_window_pattern", "attention.clamp_kqv",
          "attention.max_alibi_bias", "attention.temperature_scale", "attn_logit_softcapping",
          "final_logit_softcapping", "logit_scale", "residual_scale", "embedding_scale"}) {
      if (fields_.has(key(rest))) {
        fields_.reject(key(rest), "given", "absent", ErrorKind::kUnsupported);
      }
    }
  }

  void read_experts() {
    ExpertsConfig& experts = config_.experts;
    if (config_.architecture == Architecture::kQwen3Moe) {
      experts.count = fields_.required_count(key("expert_count"), 1, kMostExperts);
    } else {
      experts.count = fields_.optional_count(key("expert_count"), 0, kMostExperts).value_or(0);
      if (experts.count == 0) return;
      // Mixtral has no architecture of its own.
      if (config_.architecture != Architecture::kLlama) {
        fields_.reject(key("expert_count"), fmt::format("{}", experts.count),
                       "0 unless the architecture is llama or qwen3moe", ErrorKind::kUnsupported);
      }
      config_.architecture = Architecture::kMixtral;
    }
    experts.used = fields_.required_count(key("expert_used_count"), 1, kMostUsedExperts);
    experts.normalized = fields_.optional_bool(key("expert_weights_norm")).value_or(true);
    if (!experts.normalized && config_.architecture == Architecture::kMixtral) {
      fields_.reject(key("expert_weights_norm"), "false", "true for architecture llama",
                     ErrorKind::kUnsupported);
    }
    refuse_other_experts();
  }

  // Refuses by name what llama.cpp's keys can ask of experts and the model code does not compute.
  void refuse_other_experts() {
    struct Key {
      std::string_view rest;
      std::uint32_t high;  // up to this it changes nothing
    };
    for (const Key& known :
         {Key{"expert_shared_count", 0}, Key{"expert_shared_feed_forward_length", 0},
          Key{"expert_chunk_feed_forward_length", 0}, Key{"leading_dense_block_count", 0},
          Key{"expert_group_count", 1}, Key{"expert_group_used_count", 1},
          Key{"experts_per_group", 0}, Key{"moe_every_n_layers", 1},
          Key{"interleave_moe_layer_step", 1}, Key{"moe_latent_size", 0},
          Key{"nextn_predict_layers", 0}}) {
      const auto value = fields_.optional_count(key(known.rest), 0, 1U << 30U);
      if (value && *value > known.high) {
        fields_.reject(key(known.rest), fmt::format("{}", *value), known.high == 0 ? "0" : "0 or 1",
                       ErrorKind::kUnsupported);
      }
    }
    const auto gating = fields_.optional_count(key("expert_gating_func"), 0, 1U << 30U);
    if (gating && *gating != 1) {
      fields_.reject(key("expert_gating_func"), fmt::format("{}", *gating), "1, which is softmax",
                     ErrorKind::kUnsupported);
    }
    const auto scale =
        fields_.optional_float(key("expert_weights_scale"), -kLargestFactor, kLargestFactor);
    if (scale && *scale != 0.0F && *scale != 1.0F) {
      fields_.reject(key("expert_weights_scale"), fmt::format("{}", *scale), "0 or 1",
                     ErrorKind::kUnsupported);
    }
    for (const std::string_view rest :
         {"expert_group_scale", "router_logit_softcapping", "swiglu_clamp_exp"}) {
      if (fields_.has(key(rest))) {
        fields_.reject(key(rest), "given", "absent", ErrorKind::kUnsupported);
      }
    }
  }

  void read_sizes() {
    config_.layers = fields_.required_count(key("block_count"), 1, kMostLayers);
    config_.max_context = fields_.required_count(key("context_length"), 1, kLargestContext);
    config_.hidden_size = fields_.required_count(key("embedding_length"), 1, kLargestHiddenSize);
    // In files of Mixtral the size of the feed-forward is that of an expert.
    const bool of_expert =
        config_.architecture == Architecture::kQwen3Moe ||
        (config_.experts.count > 0 && fields_.has(key("expert_feed_forward_length")));
    config_.intermediate_size = required_uniform(
        of_expert ? "expert_feed_forward_length" : "feed_forward_length", kLargestIntermediateSize);
    config_.heads = required_uniform("attention.head_count", kMostHeads);
    config_.kv_heads = fields_.optional_uniform_count(key("attention.head_count_kv"), 1, kMostHeads)
                           .value_or(config_.heads);
    const auto epsilon =
        fields_.optional_float(key("attention.layer_norm_rms_epsilon"), 0.0F, 1.0F);
    if (!epsilon) {
      fields_.reject(key("attention.layer_norm_rms_epsilon"), "missing", "a float from 0 to 1");
    }
    config_.rms_norm_epsilon = epsilon.value_or(0.0F);
    config_.sliding_window =
        fields_.optional_count(key("attention.sliding_window"), 0, kLargestContext).value_or(0);
    read_head_dim();
  }

  std::uint32_t required_uniform(std::string_view rest, std::uint32_t high) {
    const auto value = fields_.optional_uniform_count(key(rest), 1, high);
    if (!value) fields_.reject(key(rest), "missing", fmt::format("an integer from 1 to {}", high));
    return value.value_or(0);
  }

  void read_head_dim() {
    const auto explicit_dim =
        fields_.optional_count(key("attention.key_length"), 1, kLargestHeadDim);
    if (!explicit_dim && config_.heads != 0 && config_.hidden_size % config_.heads != 0) {
      fields_.reject(key("attention.head_count"), fmt::format("{}", config_.heads),
                     fmt::format("a divisor of embedding_length {}, or an attention.key_length",
                                 config_.hidden_size));
    }
    const std::uint32_t derived = config_.heads == 0 ? 0 : config_.hidden_size / config_.heads;
    config_.head_dim = explicit_dim.value_or(derived);
    for (const std::string_view rest : {"attention.value_length", "rope.dimension_count"}) {
      const auto other = fields_.optional_count(key(rest), 0, 1U << 20U);
      if (other && *other != config_.head_dim) {
        fields_.reject(key(rest), fmt::format("{}", *other),
                       fmt::format("the head size {}", config_.head_dim), ErrorKind::kUnsupported);
      }
    }
  }

  void read_what_tensors_tell() {
    config_.tied_embeddings = !tensors_.contains("output.weight");
    config_.attention_bias =
        config_.architecture == Architecture::kQwen2 || tensors_.contains("blk.0.attn_q.bias");
    config_.qk_norm = config_.architecture == Architecture::kQwen3 ||
                      config_.architecture == Architecture::kQwen3Moe;
    const auto declared = fields_.optional_count(key("vocab_size"), 1, kLargestVocabulary);
    const auto embedding = tensors_.find("token_embd.weight");
    if (embedding == tensors_.end()) {
      // The binding reports what is missing; any size serves until then.
      config_.vocab_size = declared.value_or(1);
      return;
    }
    const std::uint64_t rows = embedding->second.shape.front();
    config_.vocab_size =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(rows, kLargestVocabulary + 1ULL));
    if (declared && *declared != rows) {
      fields_.reject(key("vocab_size"), fmt::format("{}", *declared),
                     fmt::format("the {} rows of token_embd.weight", rows));
    }
  }

  void read_rope() {
    RopeConfig& rope = config_.rope;
    rope.theta =
        fields_.optional_float(key("rope.freq_base"), 1.0F, kLargestTheta).value_or(rope.theta);
    const std::string type_key = key("rope.scaling.type");
    const auto type = fields_.optional_string(type_key);
    const std::string factor_key = fields_.has(key("rope.scaling.factor"))
                                       ? key("rope.scaling.factor")
                                       : key("rope.scale_linear");
    // 0 is how a converter says "none"; a factor without a type is a linear one.
    auto factor = fields_.optional_float(factor_key, 0.0F, kLargestFactor);
    if (factor && *factor == 0.0F) factor.reset();
    if (factor && *factor < 1.0F) {
      fields_.reject(factor_key, fmt::format("{}", *factor), "0, or at least 1",
                     ErrorKind::kUnsupported);
    }
    if (type == "yarn") {
      read_yarn(factor, factor_key);
      return;
    }
    for (const std::string_view rest :
         {"rope.scaling.attn_factor", "rope.scaling.yarn_attn_factor"}) {
      const auto attention = fields_.optional_float(key(rest), 0.0F, kLargestFactor);
      if (attention && *attention != 1.0F) {
        fields_.reject(key(rest), fmt::format("{}", *attention), "1 unless the type is yarn",
                       ErrorKind::kUnsupported);
      }
    }
    if (type == "linear" || (!type && factor)) {
      if (!factor || *factor == 1.0F) return;
      rope.scaling = RopeScaling::kLinear;
      rope.factor = *factor;
    } else if (type && *type != "none") {
      fields_.reject(type_key, quote(*type), "none, linear, yarn", ErrorKind::kUnsupported);
    }
  }

  void read_yarn(std::optional<float> factor, std::string_view factor_key) {
    RopeConfig& rope = config_.rope;
    rope.scaling = RopeScaling::kYarn;
    if (!factor) fields_.reject(factor_key, "missing", "a float of at least 1");
    rope.factor = factor.value_or(1.0F);
    rope.original_context =
        fields_.optional_count(key("rope.scaling.original_context_length"), 1, kLargestContext)
            .value_or(config_.max_context);
    rope.beta_fast =
        fields_.optional_float(key("rope.scaling.yarn_beta_fast"), 0.001F, kLargestFactor)
            .value_or(32.0F);
    rope.beta_slow =
        fields_.optional_float(key("rope.scaling.yarn_beta_slow"), 0.001F, kLargestFactor)
            .value_or(1.0F);
    if (rope.beta_fast < rope.beta_slow) {
      fields_.reject(key("rope.scaling.yarn_beta_fast"), fmt::format("{}", rope.beta_fast),
                     fmt::format("at least yarn_beta_slow {}", rope.beta_slow));
    }
    const auto extrapolation = fields_.optional_float(key("rope.scaling.yarn_ext_factor"),
                                                      -kLargestFactor, kLargestFactor);
    if (extrapolation && *extrapolation != 1.0F) {
      fields_.reject(key("rope.scaling.yarn_ext_factor"), fmt::format("{}", *extrapolation), "1",
                     ErrorKind::kUnsupported);
    }
    const auto multiplier = fields_.optional_float(key("rope.scaling.yarn_log_multiplier"),
                                                   -kLargestFactor, kLargestFactor);
    if (multiplier.value_or(0.0F) != 0.0F) {
      fields_.reject(key("rope.scaling.yarn_log_multiplier"), fmt::format("{}", *multiplier), "0",
                     ErrorKind::kUnsupported);
    }
    // What the file gives multiplies the correction that YaRN itself makes.
    float given = 1.0F;
    for (const std::string_view rest :
         {"rope.scaling.attn_factor", "rope.scaling.yarn_attn_factor"}) {
      given *= fields_.optional_float(key(rest), 0.001F, kLargestFactor).value_or(1.0F);
    }
    rope.attention_factor = given * (1.0F + 0.1F * static_cast<float>(kernels::log(rope.factor)));
    const double reach = std::floor(double{rope.factor} * rope.original_context);
    const double longest = std::min(reach, double{kLargestContext});
    config_.max_context = std::max(config_.max_context, static_cast<std::uint32_t>(longest));
  }

  Status read_frequency_divisors() {
    const auto found = tensors_.find("rope_freqs.weight");
    if (found == tensors_.end()) return {};
    const StoredTensor& tensor = found->second;
    const std::size_t wanted = config_.head_dim / 2;
    const auto where = [&] {
      return fmt::format("{}: tensor {}", tensor.file, quote(tensor.stored_name));
    };
    if (tensor.type != kernels::DataType::kF32 ||
        tensor.shape != std::vector<std::uint64_t>{wanted}) {
      return fail(ErrorKind::kInvalid, "{}: type {}, shape {}; valid: F32, [{}]", where(),
                  tensor.stored_type, shape_text(tensor.shape), wanted);
    }
    if (!config_.rope.interleaved) {
      return fail(ErrorKind::kUnsupported,
                  "{}: given; valid: only with architecture llama or mistral", where());
    }
    std::vector<float>& divisors = config_.rope.frequency_divisors;
    divisors.resize(wanted);
    std::memcpy(divisors.data(), tensor.data.data(), wanted * sizeof(float));
    for (const float divisor : divisors) {
      if (!std::isfinite(divisor) || divisor <= 0.0F) {
        return fail(ErrorKind::kInvalid, "{}: a divisor of {}; valid: finite and above 0", where(),
                    divisor);
      }
    }
    return {};
  }

  GgufFields fields_;
  const StoredTensors& tensors_;
  std::string_view file_;
  std::string prefix_;
  ModelConfig config_;
};

}  // namespace

Result<ModelConfig> parse_gguf_config(const GgufFile& gguf, const StoredTensors& tensors,
                                      std::string_view file) {
  return ConfigReader(gguf, tensors, file).read();
}

namespace {

constexpr std::uint32_t kNoId = std::numeric_limits<std::uint32_t>::max();

std::optional<std::int32_t> read_id(GgufFields& fields, std::string_view key, std::size_t tokens) {
  const auto id = fields.optional_count(key, 0, kNoId);
  if (!id || *id == kNoId) return std::nullopt;  // -1 as uint32: the converter's "none"
  if (*id >= tokens) {
    fields.reject(key, fmt::format("{}", *id), fmt::format("below the {} tokens", tokens));
    return std::nullopt;
  }
  return static_cast<std::int32_t>(*id);
}

}  // namespace

Result<std::optional<GgufTokenizer>> parse_gguf_tokenizer(const GgufFile& gguf,
                                                          std::uint32_t vocab_size,
                                                          std::string_view file) {
  GgufFields fields(gguf, std::string(file));
  const auto model = fields.optional_string("tokenizer.ggml.model");
  if (auto status = fields.status(); !status) return fail(status.error());
  if (!model || *model == "none" || *model == "no_vocab") return std::nullopt;
  if (*model != "llama" && *model != "gpt2" && *model != "gemma4" && *model != "bert" &&
      *model != "t5") {
    fields.reject("tokenizer.ggml.model", quote(*model), "llama, gpt2, gemma4, bert, t5, none",
                  ErrorKind::kUnsupported);
    return fail(fields.status().error());
  }
  GgufTokenizer out;
  out.model = *model;
  out.pre = fields.optional_string("tokenizer.ggml.pre").value_or("default");
  out.tokens = fields.strings("tokenizer.ggml.tokens");
  out.scores = fields.floats("tokenizer.ggml.scores");
  out.token_types = fields.int32s("tokenizer.ggml.token_type");
  out.merges = fields.strings("tokenizer.ggml.merges");
  const std::size_t count = out.tokens.size();
  if (count == 0 || count > vocab_size) {
    fields.reject("tokenizer.ggml.tokens", fmt::format("{} tokens", count),
                  fmt::format("1 to {}, the rows of the embedding", vocab_size));
  }
  if (!out.scores.empty() && out.scores.size() != count) {
    fields.reject("tokenizer.ggml.scores", fmt::format("{} scores", out.scores.size()),
                  fmt::format("one for each of the {} tokens", count));
  }
  for (const float score : out.scores) {
    if (std::isnan(score)) {
      fields.reject("tokenizer.ggml.scores", "not a number", "numbers");
      break;
    }
  }
  if (!out.token_types.empty() && out.token_types.size() != count) {
    fields.reject("tokenizer.ggml.token_type", fmt::format("{} types", out.token_types.size()),
                  fmt::format("one for each of the {} tokens", count));
  }
  const auto odd = std::find_if(out.token_types.begin(), out.token_types.end(),
                                [](std::int32_t type) { return type < 0 || type > 6; });
  if (odd != out.token_types.end()) {
    fields.reject("tokenizer.ggml.token_type", fmt::format("type {}", *odd), "0 to 6");
  }
  out.bos = read_id(fields, "tokenizer.ggml.bos_token_id", count);
  out.eos = read_id(fields, "tokenizer.ggml.eos_token_id", count);
  out.eot = read_id(fields, "tokenizer.ggml.eot_token_id", count);
  out.eom = read_id(fields, "tokenizer.ggml.eom_token_id", count);
  out.unknown = read_id(fields, "tokenizer.ggml.unknown_token_id", count);
  out.padding = read_id(fields, "tokenizer.ggml.padding_token_id", count);
  out.cls = read_id(fields, "tokenizer.ggml.cls_token_id", count);
  out.separator = read_id(fields, "tokenizer.ggml.seperator_token_id", count);  // as it is spelled
  out.add_bos = fields.optional_bool("tokenizer.ggml.add_bos_token");
  out.add_eos = fields.optional_bool("tokenizer.ggml.add_eos_token");
  out.add_space_prefix = fields.optional_bool("tokenizer.ggml.add_space_prefix");
  out.remove_extra_whitespaces = fields.optional_bool("tokenizer.ggml.remove_extra_whitespaces");
  out.charsmap = fields.bytes("tokenizer.ggml.precompiled_charsmap");
  out.lowercase = fields.optional_bool("tokenizer.ggml.normalizer.lowercase");
  out.strip_accents = fields.optional_bool("tokenizer.ggml.normalizer.strip_accents");
  if (auto status = fields.status(); !status) return fail(status.error());
  return out;
}

}  // namespace dovetail::load
