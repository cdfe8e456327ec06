#include "families/common.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "load/json_fields.h"
#include "load/quote.h"

namespace dovetail::families {
namespace {

// A number that changes nothing up to `high`.
struct NeutralCount {
  Key key;
  std::uint32_t high;
};
constexpr NeutralCount kNeutralCounts[] = {
    {{"expert_shared_count", ""}, 0},
    {{"expert_shared_feed_forward_length", ""}, 0},
    {{"expert_chunk_feed_forward_length", ""}, 0},
    {{"leading_dense_block_count", ""}, 0},
    {{"expert_group_count", ""}, 1},
    {{"expert_group_used_count", ""}, 1},
    {{"experts_per_group", ""}, 0},
    {{"moe_every_n_layers", ""}, 1},
    {{"interleave_moe_layer_step", ""}, 1},
    {{"moe_latent_size", ""}, 0},
    {{"nextn_predict_layers", ""}, 0},
    {{"attention.key_length_mla", ""}, 0},
    {{"attention.shared_kv_layers", ""}, 0},
    {{"embedding_length_per_layer_input", ""}, 0},
};

struct NeutralFlag {
  Key key;
  bool value;
};
constexpr NeutralFlag kNeutralFlags[] = {
    {{"attention.causal", ""}, true},
    {{"", "mlp_bias"}, false},
    {{"", "attention_bias"}, false},
};

constexpr Key kMayNotBeGiven[] = {
    {"attention.indexer.top_k", "index_topk"},
    {"attention.scale", ""},
    {"attention.sliding_window_pattern", ""},
    {"attention.clamp_kqv", ""},
    {"attention.max_alibi_bias", ""},
    {"attention.temperature_scale", ""},
    {"attention.temperature_length", ""},
    {"attn_logit_softcapping", ""},
    {"final_logit_softcapping", ""},
    {"logit_scale", ""},
    {"residual_scale", ""},
    {"embedding_scale", ""},
    {"expert_group_scale", ""},
    {"router_logit_softcapping", ""},
    {"swiglu_clamp_exp", ""},
    {"swiglu_clamp_shexp", ""},
    {"rope.dimension_sections", ""},
};

// As transformers 5 has it: what lies around the text's configuration says it, and a head that is
// stored and is not the embeddings once more is one of its own, whatever is said.
bool is_tied(Fields& fields, bool usually_tied) {
  const auto inside = fields.flag({"", "tie_word_embeddings"});
  const auto outside = fields.outer_flag("tie_word_embeddings");
  const bool said = outside.value_or(inside.value_or(usually_tied));
  const load::StoredTensor* head = fields.tensor("output.weight");
  const load::StoredTensor* embedding = fields.tensor("token_embd.weight");
  if (embedding == nullptr) return said;
  // Either of two may be what a class writes that was told nothing.
  if (head == nullptr) return said || inside.value_or(false) || (fields.wrapped() && !outside);
  return said && !head->parts && !embedding->parts && head->type == embedding->type &&
         head->shape == embedding->shape && head->data.size() == embedding->data.size() &&
         std::memcmp(head->data.data(), embedding->data.data(), head->data.size()) == 0;
}

}  // namespace

std::uint32_t read_sizes(Fields& fields, ModelConfig& config, bool usually_tied) {
  constexpr Key kLayers = {"block_count", "num_hidden_layers"};
  std::uint32_t layers = fields.required_count(kLayers, 1, load::kMostLayers);
  // Before so many are described.
  if (fields.gguf() && layers > fields.tensors()) {
    fields.reject(kLayers, fmt::format("{}", layers),
                  fmt::format("at most the {} tensors", fields.tensors()), ErrorKind::kInvalid);
    layers = 0;
  }
  config.max_context = fields.required_count({"context_length", "max_position_embeddings"}, 1,
                                             load::kLargestContext);
  config.hidden_size =
      fields.required_count({"embedding_length", "hidden_size"}, 1, load::kLargestHiddenSize);
  constexpr Key kVocabulary = {"vocab_size", "vocab_size"};
  if (!fields.gguf()) {
    config.vocab_size = fields.required_count(kVocabulary, 1, load::kLargestVocabulary);
    config.tied_embeddings = is_tied(fields, usually_tied);
    return layers;
  }
  config.tied_embeddings = !fields.has_tensor("output.weight");
  const auto declared = fields.count(kVocabulary, 1, load::kLargestVocabulary);
  const load::StoredTensor* embedding = fields.tensor("token_embd.weight");
  if (embedding == nullptr) {
    // The binding reports what is missing; any size serves until then.
    config.vocab_size = declared.value_or(1);
    return layers;
  }
  const std::uint64_t rows = embedding->shape.front();
  config.vocab_size =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(rows, load::kLargestVocabulary + 1ULL));
  if (declared && *declared != rows) {
    fields.reject(kVocabulary, fmt::format("{}", *declared),
                  fmt::format("the {} rows of token_embd.weight", rows), ErrorKind::kInvalid);
  }
  return layers;
}

AttentionConfig read_heads(Fields& fields, const ModelConfig& config, std::uint32_t head_dim,
                           std::uint32_t kv_heads) {
  constexpr Key kHeads = {"attention.head_count", "num_attention_heads"};
  AttentionConfig out;
  out.heads = fields.required_uniform(kHeads, 1, load::kMostHeads);
  out.kv_heads = kv_heads;
  if (kv_heads == 0) {
    out.kv_heads =
        fields.uniform({"attention.head_count_kv", "num_key_value_heads"}, 1, load::kMostHeads)
            .value_or(out.heads);
  }
  constexpr Key kHeadDim = {"attention.key_length", "head_dim"};
  const auto given = fields.count(kHeadDim, 1, load::kLargestHeadDim);
  if (given) {
    out.head_dim = *given;
  } else if (head_dim != 0 && !fields.gguf() && !fields.is_null(kHeadDim)) {
    out.head_dim = head_dim;
  } else if (out.heads != 0) {
    if (config.hidden_size % out.heads != 0) {
      fields.reject(
          kHeads, fmt::format("{}", out.heads),
          fields.gguf()
              ? fmt::format("a divisor of embedding_length {}, or an attention.key_length",
                            config.hidden_size)
              : fmt::format("a divisor of hidden_size {}, or an explicit head_dim",
                            config.hidden_size),
          ErrorKind::kInvalid);
    }
    out.head_dim = config.hidden_size / out.heads;
  }
  constexpr Key kValues = {"attention.value_length", ""};
  const auto values = fields.count(kValues, 0, 1U << 20U);
  if (values && *values != out.head_dim) {
    fields.reject(kValues, fmt::format("{}", *values),
                  fmt::format("the head size {}", out.head_dim));
  }
  out.scale = 1.0F / std::sqrt(static_cast<float>(out.head_dim));
  return out;
}

AttendingLayers read_attending_layers(Fields& fields, std::uint32_t layers) {
  constexpr Key kKeyHeads = {"attention.head_count_kv", ""};
  AttendingLayers out{std::vector<bool>(layers, true)};
  if (!fields.is_array(kKeyHeads)) return out;
  const std::vector<std::uint32_t> counts = fields.counts(kKeyHeads, layers, load::kMostHeads);
  for (std::uint32_t i = 0; i < layers && i < counts.size(); ++i) {
    out.attends[i] = counts[i] != 0;
    if (!out.attends[i] || counts[i] == out.kv_heads) continue;
    if (out.kv_heads != 0) {
      fields.reject(kKeyHeads,
                    fmt::format("{} in one layer, {} in another", out.kv_heads, counts[i]),
                    "the same for every layer with attention");
    }
    out.kv_heads = counts[i];
  }
  return out;
}

std::optional<std::vector<bool>> read_layer_types(Fields& fields, std::uint32_t layers,
                                                  std::string_view name, std::string_view valid) {
  constexpr Key kTypes = {"", "layer_types"};
  const nlohmann::json* types = fields.member("layer_types");
  if (types == nullptr) return std::nullopt;
  if (!types->is_array() || types->empty() || types->size() != layers) {
    fields.reject(kTypes, load::text_of(*types), fmt::format("a list of {} names", layers),
                  ErrorKind::kInvalid);
    return std::nullopt;
  }
  std::vector<bool> out;
  for (const nlohmann::json& type : *types) {
    if (type != "full_attention" && type != name) {
      fields.reject(kTypes, load::text_of(type), valid);
      return std::nullopt;
    }
    out.push_back(type == name);
  }
  return out;
}

NormConfig read_rms_norm(Fields& fields, float epsilon) {
  constexpr Key kEpsilon = {"attention.layer_norm_rms_epsilon", "rms_norm_eps"};
  NormConfig out;
  out.kind = load::NormKind::kRms;
  out.epsilon = fields.gguf() ? fields.required_number(kEpsilon, 0.0F, 1.0F)
                              : fields.number(kEpsilon, 0.0F, 1.0F).value_or(epsilon);
  return out;
}

MlpConfig read_mlp(Fields& fields) {
  MlpConfig out;
  out.size = fields.required_uniform({"feed_forward_length", "intermediate_size"}, 1,
                                     load::kLargestIntermediateSize);
  return out;
}

bool has_experts(Fields& fields) {
  return fields.gguf() &&
         fields.count({"expert_count", ""}, 0, load::kMostExperts).value_or(0) != 0;
}

ExpertsConfig read_experts(Fields& fields, const ExpertFields& names) {
  ExpertsConfig out;
  const Key count = {"expert_count", names.count};
  const Key other = {"", names.count == "num_experts" ? "num_local_experts" : "num_experts"};
  const auto again = fields.count(other, 1, load::kMostExperts);
  if (again && !fields.has(count)) {
    out.count = *again;
  } else {
    out.count = fields.required_count(count, 1, load::kMostExperts);
  }
  if (again && *again != out.count) {
    fields.reject(other, fmt::format("{}", *again),
                  fmt::format("the same as {} {}", count.hf, out.count), ErrorKind::kInvalid);
  }
  out.used = fields.required_count({"expert_used_count", "num_experts_per_tok"}, 1,
                                   load::kMostUsedExperts);
  out.size = fields.required_uniform(names.size, 1, load::kLargestIntermediateSize);
  constexpr Key kGating = {"expert_gating_func", ""};
  const auto gating = fields.count(kGating, 0, 1U << 30U);
  if (gating && *gating != names.gating) {
    fields.reject(kGating, fmt::format("{}", *gating),
                  fmt::format("{}, which is {}", names.gating, names.kind));
  }
  return out;
}

void drop_draft_layers(Fields& fields, std::uint32_t& layers, ModelConfig& config) {
  constexpr Key kDrafts = {"nextn_predict_layers", ""};
  config.draft_layers = fields.count(kDrafts, 0, load::kMostLayers).value_or(0);
  if (config.draft_layers >= layers) {
    fields.reject(kDrafts, fmt::format("{}", config.draft_layers),
                  fmt::format("fewer than the {} layers", layers), ErrorKind::kInvalid);
    config.draft_layers = 0;
  }
  layers -= config.draft_layers;
}

void read_draft_layer(Fields& fields, const LayerConfig& layer, ModelConfig& config) {
  const std::string name = config.draft_prefix() + "nextn.";
  const bool stored = fields.described() || (fields.has_tensor(name + "eh_proj.weight") &&
                                             fields.has_tensor(name + "shared_head_norm.weight"));
  if (config.draft_layers > 0 && stored) config.draft_layer = layer;
}

LayerConfig plain_layer(const NormConfig& norm, const AttentionConfig& attention,
                        const MlpConfig& mlp) {
  LayerConfig out;
  out.mixer_norms.before = norm;
  out.mixer = attention;
  out.mlp_norms.before = norm;
  out.mlp = mlp;
  return out;
}

LayerConfig plain_layer(const NormConfig& norm, const AttentionConfig& attention,
                        const ExpertsConfig& experts) {
  LayerConfig out = plain_layer(norm, attention, MlpConfig());
  out.mlp = experts;
  return out;
}

void read_pooling(Fields& fields, ModelConfig& config) {
  constexpr Key kPooling = {"pooling_type", ""};
  constexpr load::Pooling kKinds[] = {load::Pooling::kNone, load::Pooling::kMean,
                                      load::Pooling::kFirst, load::Pooling::kLast};
  const auto kind = fields.count(kPooling, 0, 1U << 30U);
  if (!kind || *kind == 0) return;
  // 4: to rank, where the head says that already.
  if (*kind == 4 && config.score != load::Score::kNone) return;
  if (*kind >= std::size(kKinds)) {
    fields.reject(kPooling, fmt::format("{}", *kind),
                  "0 (none), 1 (mean), 2 (first), 3 (last), or 4 (rank) with cls.output.weight");
    return;
  }
  config.pooling = kKinds[*kind];
}

void must_be(Fields& fields, std::string_view hf, bool valid) {
  const Key key = {"", hf};
  const auto given = fields.flag(key);
  if (given && *given != valid)
    fields.reject(key, fmt::format("{}", *given), fmt::format("{}", valid));
}

void must_say(Fields& fields, std::string_view hf, std::string_view valid) {
  const Key key = {"", hf};
  const auto given = fields.text(key);
  if (given && *given != valid) fields.reject(key, load::quote(*given), load::quote(valid));
}

void refuse_the_rest(Fields& fields) {
  constexpr Key kExperts = {"expert_count", ""};
  if (!fields.asked(kExperts)) {
    const auto count = fields.count(kExperts, 0, load::kMostExperts);
    if (count.value_or(0) != 0) {
      fields.reject(kExperts, fmt::format("{}", *count),
                    fmt::format("0 for architecture {}", fields.family()));
    }
  }
  for (const NeutralCount& known : kNeutralCounts) {
    if (fields.asked(known.key)) continue;
    const auto value = fields.count(known.key, 0, 1U << 30U);
    if (value && *value > known.high) {
      fields.reject(known.key, fmt::format("{}", *value), known.high == 0 ? "0" : "0 or 1");
    }
  }
  for (const NeutralFlag& known : kNeutralFlags) {
    if (fields.asked(known.key)) continue;
    const auto value = fields.flag(known.key);
    if (value && *value != known.value) {
      fields.reject(known.key, fmt::format("{}", *value), fmt::format("{}", known.value));
    }
  }
  constexpr Key kScale = {"expert_weights_scale", ""};
  const auto scale = fields.asked(kScale)
                         ? std::nullopt
                         : fields.number(kScale, -load::kLargestFactor, load::kLargestFactor);
  if (scale && *scale != 0.0F && *scale != 1.0F) {
    fields.reject(kScale, fmt::format("{}", *scale), "0 or 1");
  }
  constexpr Key kActivation = {"", "hidden_act"};
  const auto activation = fields.asked(kActivation) ? std::nullopt : fields.text(kActivation);
  if (activation && *activation != "silu") {
    fields.reject(kActivation, load::quote(*activation), "'silu'");
  }
  for (const Key& key : kMayNotBeGiven) {
    if (!fields.asked(key) && fields.has(key)) fields.reject(key, "given", "absent");
  }
}

}  // namespace dovetail::families
