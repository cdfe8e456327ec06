#include <fmt/core.h>

#include <algorithm>

#include "load/limits.h"
#include "load/tensor_binding.h"

namespace dovetail::load {
namespace {

struct Size {
  std::string_view name;
  std::uint32_t value;
  std::uint32_t high;
};

Status check_sizes(std::initializer_list<Size> sizes, std::string_view source) {
  for (const Size& size : sizes) {
    if (size.value >= 1 && size.value <= size.high) continue;
    return fail(ErrorKind::kUnsupported, "{}: {}: {}; valid: 1 to {}", source, size.name,
                size.value, size.high);
  }
  return {};
}

Status check(const AttentionConfig& attention, const ModelConfig& config, std::string_view source) {
  if (auto status = check_sizes({{"number of heads", attention.heads, kMostHeads},
                                 {"number of key-value heads", attention.kv_heads, kMostHeads},
                                 {"head size", attention.head_dim, kLargestHeadDim}},
                                source);
      !status) {
    return status;
  }
  if (attention.heads % attention.kv_heads != 0) {
    return fail(ErrorKind::kInvalid,
                "{}: number of key-value heads: {}; valid: a divisor of the {} heads", source,
                attention.kv_heads, attention.heads);
  }
  if (attention.head_dim % 2 != 0) {
    return fail(ErrorKind::kUnsupported,
                "{}: head size: {}; valid: an even number, since rotary embedding turns pairs",
                source, attention.head_dim);
  }
  if (attention.rope < 0) return {};
  const std::uint32_t dims = config.ropes.at(static_cast<std::size_t>(attention.rope)).dims;
  if (dims % 2 != 0 || dims > attention.head_dim) {
    return fail(ErrorKind::kInvalid,
                "{}: elements that rotary embedding turns: {}; valid: an even number up to the "
                "head size {}",
                source, dims, attention.head_dim);
  }
  return {};
}

Status check_indexer(std::uint32_t heads, std::uint32_t dim, std::uint32_t top,
                     std::uint32_t rope_dim, std::string_view source) {
  if (auto status = check_sizes({{"heads of the indexer", heads, kMostHeads},
                                 {"head size of the indexer", dim, kLargestLatent},
                                 {"what the indexer picks", top, kLargestContext}},
                                source);
      !status) {
    return status;
  }
  if (dim >= rope_dim) return {};
  return fail(ErrorKind::kInvalid,
              "{}: head size of the indexer: {}; valid: at least the {} elements that turn", source,
              dim, rope_dim);
}

Status check(const LatentConfig& latent, const ModelConfig& config, std::string_view source) {
  if (auto status =
          check_sizes({{"number of heads", latent.heads, kMostHeads},
                       {"elements of a latent", latent.latent_dim, kLargestLatent},
                       {"elements that turn", latent.rope_dim, kLargestHeadDim},
                       {"latent and elements that turn", latent.cached_dim(), kLargestLatent},
                       {"size of a key without them", latent.key_dim, kLargestHeadDim},
                       {"size of a key", latent.head_dim(), kLargestHeadDim},
                       {"size of a value", latent.value_dim, kLargestHeadDim}},
                      source);
      !status) {
    return status;
  }
  if (latent.query_rank > kLargestHiddenSize) {
    return fail(ErrorKind::kUnsupported, "{}: rank of queries: {}; valid: 0 to {}", source,
                latent.query_rank, kLargestHiddenSize);
  }
  const std::uint32_t dims =
      latent.rope < 0 ? 0 : config.ropes.at(static_cast<std::size_t>(latent.rope)).dims;
  if (latent.rope_dim % 2 != 0 || (dims != 0 && dims != latent.rope_dim)) {
    return fail(ErrorKind::kUnsupported,
                "{}: elements that turn: {}; valid: an even number, all of which turn", source,
                latent.rope_dim);
  }
  if (latent.index_heads == 0) return {};
  if (latent.query_rank == 0) {
    return fail(ErrorKind::kUnsupported,
                "{}: rank of queries: 0; valid: at least 1 beside an indexer, which takes them too",
                source);
  }
  return check_indexer(latent.index_heads, latent.index_dim, latent.index_top, latent.rope_dim,
                       source);
}

Status check(const CompressedConfig& mixer, const ModelConfig& config, std::string_view source) {
  if (auto status = check_sizes({{"number of heads", mixer.heads, kMostHeads},
                                 {"head size", mixer.head_dim, kLargestLatent},
                                 {"elements that turn", mixer.rope_dim, mixer.head_dim},
                                 {"rank of queries", mixer.query_rank, kLargestHiddenSize},
                                 {"window", mixer.window, kLargestContext},
                                 {"groups of heads", mixer.groups, mixer.heads},
                                 {"rank of a group", mixer.group_rank, kLargestHiddenSize}},
                                source);
      !status) {
    return status;
  }
  if (mixer.heads % mixer.groups != 0) {
    return fail(ErrorKind::kInvalid, "{}: groups of heads: {}; valid: a divisor of the {} heads",
                source, mixer.groups, mixer.heads);
  }
  const std::uint32_t dims = config.ropes.at(static_cast<std::size_t>(mixer.rope)).dims;
  if (mixer.rope_dim % 2 != 0 || (dims != 0 && dims != mixer.rope_dim)) {
    return fail(ErrorKind::kUnsupported,
                "{}: elements that turn: {}; valid: an even number, all of which turn", source,
                mixer.rope_dim);
  }
  if (mixer.ratio == 0) return {};
  // Entries lie in blocks, whole or in slices, and blocks have 16 positions.
  constexpr auto kBlock = static_cast<std::uint32_t>(kernels::kBlockSize);
  const std::uint32_t odd =
      mixer.ratio < kBlock ? kBlock % std::max(mixer.ratio, 1U) : mixer.ratio % kBlock;
  if (mixer.ratio < 2 || mixer.ratio > kLargestRatio || odd != 0) {
    return fail(ErrorKind::kUnsupported,
                "{}: positions of a compressed entry: {}; valid: 2, 4, 8, or a multiple of {} up "
                "to {}",
                source, mixer.ratio, kBlock, kLargestRatio);
  }
  if (mixer.index_heads == 0) return {};
  return check_indexer(mixer.index_heads, mixer.index_dim, mixer.index_top, mixer.rope_dim, source);
}

Status check_groups(const ExpertsConfig& experts, std::string_view source) {
  if (experts.groups < 1 || experts.groups > kMostExpertGroups ||
      experts.count % experts.groups != 0) {
    return fail(ErrorKind::kInvalid,
                "{}: groups of experts: {}; valid: a divisor of the {} experts, {} at most", source,
                experts.groups, experts.count, kMostExpertGroups);
  }
  const std::uint32_t size = experts.count / experts.groups;
  const std::uint32_t fewest = (experts.used + size - 1) / size;
  if (experts.groups_used >= fewest && experts.groups_used <= experts.groups) return {};
  return fail(ErrorKind::kInvalid, "{}: groups used by a token: {}; valid: {} to {}", source,
              experts.groups_used, fewest, experts.groups);
}

Status check(const ExpertsConfig& experts, std::string_view source) {
  if (experts.count > kMostExperts) {
    return fail(ErrorKind::kUnsupported, "{}: number of experts: {}; valid: 0 to {}", source,
                experts.count, kMostExperts);
  }
  const std::uint32_t most_used = std::min(experts.count, kMostUsedExperts);
  if (experts.used < 1 || experts.used > most_used) {
    return fail(ErrorKind::kInvalid, "{}: experts used by a token: {}; valid: 1 to {}, of {}",
                source, experts.used, most_used, experts.count);
  }
  if (auto status = check_groups(experts, source); !status) return status;
  if (experts.shared_size > kLargestIntermediateSize) {
    return fail(ErrorKind::kUnsupported, "{}: size of the shared expert: {}; valid: 0 to {}",
                source, experts.shared_size, kLargestIntermediateSize);
  }
  return check_sizes({{"feed-forward size", experts.size, kLargestIntermediateSize}}, source);
}

Status check(const DeltaConfig& delta, std::string_view source) {
  return check_sizes({{"number of key heads", delta.key_heads, kMostHeads},
                      {"number of value heads", delta.value_heads, kMostHeads},
                      {"size of a key", delta.key_dim, kLargestDeltaDim},
                      {"size of a value", delta.value_dim, kLargestDeltaDim},
                      {"positions of the convolution", delta.convolution, kMostConvolution}},
                     source);
}

Status check(const KimiDeltaConfig& delta, std::string_view source) {
  return check_sizes({{"number of heads", delta.heads, kMostHeads},
                      {"size of a head", delta.head_dim, kLargestDeltaDim},
                      {"positions of the convolution", delta.convolution, kMostConvolution}},
                     source);
}

Status check(const MambaConfig& mamba, std::string_view source) {
  if (auto status = check_sizes({{"number of heads", mamba.heads, kMostHeads},
                                 {"size of a head", mamba.head_dim, kLargestHeadDim},
                                 {"number of groups", mamba.groups, mamba.heads},
                                 {"size of a state", mamba.state_dim, kLargestState}},
                                source);
      !status) {
    return status;
  }
  if (mamba.heads % mamba.groups != 0) {
    return fail(ErrorKind::kInvalid, "{}: number of heads: {}; valid: a multiple of the {} groups",
                source, mamba.heads, mamba.groups);
  }
  if (mamba.convolution >= 2 && mamba.convolution <= kMostConvolution) return {};
  return fail(ErrorKind::kUnsupported, "{}: positions of the convolution: {}; valid: 2 to {}",
              source, mamba.convolution, kMostConvolution);
}

Status check(const ShortConvConfig& convolution, std::string_view source) {
  if (convolution.convolution >= 2 && convolution.convolution <= kMostConvolution) return {};
  return fail(ErrorKind::kUnsupported, "{}: positions of the convolution: {}; valid: 2 to {}",
              source, convolution.convolution, kMostConvolution);
}

Status check_mixer(const LayerConfig& layer, const ModelConfig& config, std::string_view source) {
  if (!layer.mixes()) return {};
  if (const DeltaConfig* delta = layer.delta()) return check(*delta, source);
  if (const KimiDeltaConfig* delta = layer.kimi_delta()) return check(*delta, source);
  if (const MambaConfig* mamba = layer.mamba()) {
    if (auto status = check(*mamba, source); !status || !layer.beside) return status;
  }
  if (const ShortConvConfig* convolution = layer.short_conv()) return check(*convolution, source);
  if (const LatentConfig* latent = layer.latent()) return check(*latent, config, source);
  if (const CompressedConfig* compressed = layer.compressed())
    return check(*compressed, config, source);
  return check(*layer.attention(), config, source);
}

Status check(const LayerConfig& layer, const ModelConfig& config, std::string_view source) {
  if (auto status = check_mixer(layer, config, source); !status) return status;
  if (layer.experts() != nullptr) return check(*layer.experts(), source);
  if (layer.dense() == nullptr) return {};
  return check_sizes({{"feed-forward size", layer.dense()->size, kLargestIntermediateSize}},
                     source);
}

// Of an earlier layer's keys and values, whose shape and window the layer has as well.
Status check_shared(const ModelConfig& config, std::string_view source) {
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    const AttentionConfig* mine = config.layers[i].attention();
    if (mine == nullptr || mine->shares < 0) continue;
    const auto from = static_cast<std::size_t>(mine->shares);
    const AttentionConfig* other = from < i ? config.layers[from].attention() : nullptr;
    if (other != nullptr && other->shares < 0 && other->kv_heads == mine->kv_heads &&
        other->head_dim == mine->head_dim && other->window == mine->window &&
        other->causal == mine->causal) {
      continue;
    }
    return fail(ErrorKind::kInvalid,
                "{}: layer whose keys and values layer {} has: {}; valid: an earlier one with its "
                "own, heads and window the same",
                source, i, from);
  }
  return {};
}

Status check_layer_inputs(const ModelConfig& config, std::string_view source) {
  const std::uint64_t all = std::uint64_t{config.layer_inputs.size} * config.layers.size();
  if (all <= kLargestIntermediateSize) return {};
  return fail(ErrorKind::kUnsupported,
              "{}: inputs of all layers beside the residual: {}; valid: 0 to {} elements", source,
              all, kLargestIntermediateSize);
}

}  // namespace

Status check_config(const ModelConfig& config, std::string_view source) {
  const auto layers = static_cast<std::uint32_t>(
      std::min<std::size_t>(config.layers.size(), std::size_t{kMostLayers} + 1));
  if (auto status = check_sizes({{"vocabulary size", config.vocab_size, kLargestVocabulary},
                                 {"hidden size", config.hidden_size, kLargestHiddenSize},
                                 {"number of layers", layers, kMostLayers},
                                 {"context length", config.max_context, kLargestContext}},
                                source);
      !status) {
    return status;
  }
  if (auto status = check_sizes(
          {{"streams of hyper-connections", config.hyper.streams, kMostStreams}}, source);
      !status) {
    return status;
  }
  for (const RopeConfig& rope : config.ropes) {
    if (rope.scaling != RopeScaling::kYarn || rope.theta > 1.0F) continue;
    return fail(ErrorKind::kInvalid,
                "{}: base of the rotary embedding: {}; valid: above 1, since YaRN divides by its "
                "logarithm",
                source, rope.theta);
  }
  const bool attends =
      std::any_of(config.layers.begin(), config.layers.end(), [](const LayerConfig& layer) {
        return layer.attention() != nullptr || layer.latent() != nullptr ||
               layer.compressed() != nullptr;
      });
  if (!attends) {
    return fail(ErrorKind::kUnsupported,
                "{}: layers with attention: none; valid: one at least, whose cache is counted",
                source);
  }
  for (const LayerConfig& layer : config.layers) {
    if (auto status = check(layer, config, source); !status) return status;
  }
  if (auto status = check_shared(config, source); !status) return status;
  if (auto status = check_layer_inputs(config, source); !status) return status;
  if (config.draft_layer) {
    if (auto status = check(*config.draft_layer, config, source); !status) return status;
  }
  const std::uint32_t numbers = config.score == Score::kShareOfTwo ? 2 : 1;
  if (config.score != Score::kNone && (config.head.empty() || config.head.back().size != numbers)) {
    return fail(ErrorKind::kUnsupported, "{}: numbers that the head gives: {}; valid: {}", source,
                config.embedding_size(), numbers);
  }
  for (const HeadConfig& part : config.head) {
    const std::string name = fmt::format("size of {}", part.name);
    if (auto status = check_sizes({{name, part.size, kLargestHiddenSize}}, source); !status)
      return status;
  }
  return {};
}

}  // namespace dovetail::load
