#include "model/cpu/model_runner.h"

#include <fmt/core.h>

#include <algorithm>
#include <cassert>
#include <new>
#include <utility>

#include "model/cpu/pack_weights.h"

namespace dovetail::model {
namespace {

// Throws std::bad_alloc where rows that have to be made do not fit the memory.
std::shared_ptr<const ModelWeights> unpacked_weights(
    std::shared_ptr<const load::ModelSource> source, const kernels::Kernels& kernels) {
  auto weights = std::make_shared<ModelWeights>(bind_weights(std::move(source), kernels));
  PackOptions only_parts;
  only_parts.types = {};
  if (!pack_weights(*weights, kernels, only_parts)) throw std::bad_alloc();
  return weights;
}

load::ModelConfig config_of(const load::ModelConfig& config, ModelRunner::Layers layers) {
  load::ModelConfig out = config;
  out.draft_layer.reset();
  if (layers != ModelRunner::Layers::kDraft) return out;
  out.layers = {*config.draft_layer};
  out.layer_inputs = {};
  return out;
}

bool has_experts(const load::ModelConfig& config) {
  return std::any_of(config.layers.begin(), config.layers.end(),
                     [](const load::LayerConfig& layer) { return layer.experts() != nullptr; });
}

bool shares_keys(const load::LayerConfig& layer) {
  return layer.attention() != nullptr && layer.attention()->shares >= 0;
}

// Steps of a layer at most, joins and all.
constexpr std::size_t kMostLayerSteps = 20;
// And outside of the layers.
constexpr std::size_t kMostOtherSteps = 8;

}  // namespace

ModelRunner::ModelRunner(std::shared_ptr<const load::ModelSource> source,
                         const kernels::Kernels& kernels, cores::Executor& executor,
                         std::uint32_t context)
    : ModelRunner(unpacked_weights(std::move(source), kernels), kernels, executor, context) {}

ModelRunner::ModelRunner(std::shared_ptr<const ModelWeights> weights,
                         const kernels::Kernels& kernels, cores::Executor& executor,
                         std::uint32_t context, Layers layers)
    : weights_(std::move(weights)),
      config_(config_of(weights_->source->config, layers)),
      executor_(executor),
      // All lanes gather for experts, and none should be long in coming.
      work_(kernels, executor.topology().lanes(), config_.hidden_size, config_.hyper.streams,
            has_experts(config_)),
      head_(config_, *weights_, kernels),
      graphs_(program_, work_, executor) {
  assert(executor.threads() == work_.lanes);
  for (std::size_t i = 0; i < config_.ropes.size(); ++i) {
    std::uint32_t head_dim = 0;
    for (const load::LayerConfig& layer : config_.layers) {
      const load::AttentionConfig* attention = layer.attention();
      if (attention != nullptr && attention->rope == static_cast<std::int32_t>(i))
        head_dim = attention->head_dim;
      const load::LatentConfig* latent = layer.latent();
      if (latent != nullptr && latent->rope == static_cast<std::int32_t>(i))
        head_dim = latent->rope_dim;
      const load::CompressedConfig* compressed = layer.compressed();
      if (compressed != nullptr && compressed->rope == static_cast<std::int32_t>(i))
        head_dim = compressed->rope_dim;
    }
    ropes_.emplace_back(config_.ropes[i], head_dim, context == 0 ? config_.max_context : context);
  }
  if (layers == Layers::kDraft) {
    const load::ModelConfig& model = weights_->source->config;
    first_layer_ = model.layers.size();
    first_cache_layer_ = static_cast<std::uint32_t>(
        model::cache_shape(model, kernels::CacheType::kF32).layers().size());
    const std::string layer = fmt::format("blk.{}.", first_layer_);
    input_.emplace(std::in_place_type<DraftInput>, config_, *weights_, layer, work_);
  } else {
    input_.emplace(std::in_place_type<Embed>, config_, *weights_, work_);
  }
  std::visit([this](auto& input) { input.add_steps(program_); }, *input_);
  if (config_.layer_inputs.size > 0)
    layer_inputs_.emplace(config_, *weights_, work_).add_steps(program_);
  add_layers();
  assert(program_.steps().size() <= kMostLayerSteps * config_.layers.size() + kMostOtherSteps);
}

std::uint32_t ModelRunner::max_tasks(const load::ModelConfig& config) {
  return Graphs::max_tasks(kMostLayerSteps * config.layers.size() + kMostOtherSteps);
}

const RopeTable* ModelRunner::rope(const load::AttentionConfig& config) {
  return config.rope < 0 ? nullptr : &ropes_[static_cast<std::size_t>(config.rope)];
}

AttentionSplits& ModelRunner::splits(const load::AttentionConfig& config) {
  for (auto& [known, splits] : splits_) {
    if (known == config) return splits;
  }
  return splits_.emplace_back(config, AttentionSplits(config, work_.lanes)).second;
}

LatentRows& ModelRunner::latent_rows(const load::LatentConfig& config) {
  for (auto& [known, rows] : latent_rows_) {
    if (known == config) return rows;
  }
  return latent_rows_.emplace_back(config, LatentRows(config, work_.lanes)).second;
}

PickedEntries& ModelRunner::picked(std::uint32_t ratio, std::uint32_t top) {
  for (PickedEntries& known : picked_) {
    if (known.is_of(ratio, top)) return known;
  }
  return picked_.emplace_back(ratio, top, work_.lanes);
}

std::optional<StreamMix> ModelRunner::stream_mix(const std::string& name, bool gives_back) {
  if (config_.hyper.streams == 1) return std::nullopt;
  return StreamMix(config_.hyper, *weights_, name, gives_back, work_);
}

void ModelRunner::add_layers() {
  const std::size_t layers = config_.layers.size();
  const auto prefix = [this](std::size_t layer) {
    return fmt::format("blk.{}.", first_layer_ + layer);
  };
  const kernels::Kernels& kernels = work_.kernels;

  // Experts that are alike share memory, so that each kind knows all its layers.
  for (std::size_t i = 0; i < layers; ++i) {
    const load::ExpertsConfig* experts = config_.layers[i].experts();
    if (experts == nullptr) continue;
    const bool known = std::any_of(experts_.begin(), experts_.end(),
                                   [&](const auto& kind) { return kind.first == *experts; });
    if (known) continue;
    std::vector<std::string> alike;
    for (std::size_t j = i; j < layers; ++j) {
      if (config_.layers[j].experts() != nullptr && *config_.layers[j].experts() == *experts)
        alike.push_back(prefix(j));
    }
    experts_.emplace_back(std::piecewise_construct, std::forward_as_tuple(*experts),
                          std::forward_as_tuple(*experts, work_.hidden, alike, *weights_, kernels,
                                                executor_.topology()));
  }
  std::vector<std::uint32_t> layers_of_kind(experts_.size(), 0);

  Residual before;
  std::uint32_t cache_layer = first_cache_layer_, state_layer = 0;
  std::vector<std::uint32_t> cached(layers);  // what the cache has of a layer
  // Behind the last layer that keeps something of a row only rows with outputs go on.
  std::size_t last = layers - 1;
  while (last > 0 && (!config_.layers[last].mixes() || shares_keys(config_.layers[last]))) --last;
  for (std::size_t i = 0; i < layers; ++i) {
    const load::LayerConfig& layer = config_.layers[i];
    const std::string name = prefix(i);
    const RowSet set = i >= last ? RowSet::kWanted : RowSet::kAll;
    // The first layer follows no sublayer, and the last ones compute fewer rows.
    std::size_t like = i;
    for (std::size_t j = i > last ? last + 1 : 1; j < i && i != last; ++j) {
      if (config_.layers[j] == layer) {
        like = j;
        break;
      }
    }
    program_.begin_layer(static_cast<std::int32_t>(i), static_cast<std::int32_t>(like));

    // What stands beside it takes all rows once more.
    const RowSet mixer_set = layer.beside ? RowSet::kAll : set;
    if (const load::AttentionConfig* attention = layer.attention()) {
      cached[i] = attention->shares < 0 ? cache_layer++
                                        : cached[static_cast<std::size_t>(attention->shares)];
      mixers_.emplace_back(std::in_place_type<Attention>, *attention, *weights_, name, cached[i],
                           mixer_set, rope(*attention), splits(*attention), work_);
    } else if (const load::LatentConfig* latent = layer.latent()) {
      mixers_.emplace_back(std::in_place_type<LatentAttention>, *latent, *weights_, name,
                           cache_layer, mixer_set, ropes_[static_cast<std::size_t>(latent->rope)],
                           latent_rows(*latent), picked(1, latent->index_top), work_);
      cache_layer += latent->index_heads > 0 ? 2 : 1;
    } else if (const load::CompressedConfig* compressed = layer.compressed()) {
      const bool entries = compressed->ratio > 0;
      mixers_.emplace_back(std::in_place_type<CompressedAttention>, *compressed, *weights_, name,
                           cache_layer, state_layer, mixer_set,
                           ropes_[static_cast<std::size_t>(compressed->rope)],
                           picked(compressed->ratio, compressed->index_top), work_);
      cache_layer += entries ? 2 : 1;
      state_layer += entries ? 1 : 0;
    } else if (const load::DeltaConfig* delta = layer.delta()) {
      mixers_.emplace_back(std::in_place_type<Delta>, *delta, *weights_, name, state_layer++,
                           mixer_set, work_);
    } else if (const auto* mamba = std::get_if<load::MambaConfig>(&layer.mixer)) {
      mixers_.emplace_back(std::in_place_type<Mamba>, *mamba, *weights_, name, state_layer++,
                           mixer_set, work_);
    } else if (const load::ShortConvConfig* convolution = layer.short_conv()) {
      mixers_.emplace_back(std::in_place_type<ShortConv>, *convolution, *weights_, name,
                           state_layer++, mixer_set, work_);
    }
    const auto add_mixer = [&](auto& mixer) {
      joins_
          .emplace_back(std::move(before),
                        Norm(layer.mixer_norms.before, *weights_, name + "attn_norm", kernels),
                        i > last ? set : RowSet::kAll, mixer.input(), work_, false,
                        stream_mix(name + "hc_attn", true))
          .add_steps("norm", program_);
      mixer.add_steps(program_);
      before = Residual(layer.mixer_norms, *weights_, name, "post_attention_norm",
                        "attn_output_norm", mixer.output_bias(), kernels);
    };
    if (layer.mixes()) std::visit(add_mixer, mixers_.back());
    if (layer.beside) {
      mixers_.emplace_back(std::in_place_type<Mamba>, *layer.beside, *weights_, name, state_layer++,
                           set, work_);
      auto& mamba = std::get<Mamba>(mixers_.back());
      joins_
          .emplace_back(std::move(before),
                        Norm(layer.mixer_norms.before, *weights_, name + "attn_norm", kernels),
                        RowSet::kAll, mamba.input(), work_, true)
          .add_steps("norm-beside", program_);
      mamba.add_steps(program_);
      load::SublayerConfig end = layer.mixer_norms;
      end.scale = layer.beside_scale;
      before = Residual(end, *weights_, name, "post_attention_norm", "attn_output_norm",
                        Mamba::output_bias(), kernels);
    }

    if (const load::MlpConfig* dense = layer.dense()) {
      mlps_.emplace_back(std::in_place_type<model::Mlp>, *dense, *weights_, name, set, work_);
    } else if (layer.experts() != nullptr) {
      std::size_t kind = 0;
      while (experts_[kind].first != *layer.experts()) ++kind;
      mlps_.emplace_back(std::in_place_type<ExpertLayer>, *layer.experts(), *weights_, name,
                         experts_[kind].second, layers_of_kind[kind]++, set, work_);
    }
    const auto add_mlp = [&](auto& mlp) {
      Norm norm = layer.parallel
                      ? Norm(layer.mixer_norms.before, *weights_, name + "attn_norm", kernels)
                      : Norm(layer.mlp_norms.before, *weights_,
                             name + (layer.mixes() ? "ffn_norm" : "attn_norm"), kernels);
      joins_
          .emplace_back(std::move(before), std::move(norm), set, mlp.input(), work_, layer.parallel,
                        stream_mix(name + "hc_ffn", true))
          .add_steps("mlp-norm", program_);
      mlp.add_steps(program_);
      before = Residual(layer.mlp_norms, *weights_, name, "post_ffw_norm", "layer_output_norm",
                        mlp.output_bias(), kernels);
    };
    if (!std::holds_alternative<std::monostate>(layer.mlp)) std::visit(add_mlp, mlps_.back());
    if (layer_inputs_) {
      LayerInput& end = layer_ends_.emplace_back(config_, *weights_, name, i, set, work_);
      joins_.emplace_back(std::move(before), Norm(), set, end.input(), work_)
          .add_steps("input-rows", program_);
      end.add_steps(program_);
      before = Residual({{}, config_.layer_inputs.norm, {}}, *weights_, name, "post_norm", "",
                        end.output_bias(), kernels);
    }
    if (layer.scaled)
      before.scale_sum(weights_->vector(name + "layer_output_scale.weight").front());
  }
  program_.end_layers();
  const std::string last_norm =
      first_layer_ == 0 ? "output_norm" : prefix(layers - 1) + "nextn.shared_head_norm";
  const std::string streams =
      first_layer_ == 0 ? "output_hc" : prefix(layers - 1) + "nextn.hc_head";
  logits_.emplace(config_, std::move(before), *weights_, last_norm, work_,
                  stream_mix(streams, false));
  logits_->add_steps(program_);
  of_hidden_ = logits_->record();
}

void ModelRunner::logits(std::span<const float* const> hidden, std::span<float> logits) {
  logits_->reserve(hidden, logits);
  logits_->cut(of_hidden_);
  [[maybe_unused]] const Status ran = executor_.run(of_hidden_);
  assert(ran);
}

void ModelRunner::forward(std::span<const Segment> segments, const Cache& cache,
                          std::span<float> logits, std::span<float> hidden) {
  TileRows worth;
  if (!experts_.empty()) worth = experts_.front().second.tile_rows();
  // Rows that see what follows them would wait for later tiles.
  if (!config_.causal()) worth = {TileRows::kAll, TileRows::kAll};
  work_.pass.lay_out(segments, static_cast<std::uint32_t>(work_.lanes), worth, keeps_);
  work_.cache = &cache;
  for (const Segment& segment : segments) {
    if (segment.load != Segment::kNoState) cache.load_state(segment.slot, segment.load);
  }
  work_.reserve();
  for (RopeTable& rope : ropes_) rope.extend(work_.pass.positions());
  for (auto& [config, splits] : splits_) splits.choose(work_.pass);
  for (auto& [config, rows] : latent_rows_) rows.lay_out(work_.pass);
  for (PickedEntries& picked : picked_) picked.lay_out(work_.pass);
  for (auto& [config, experts] : experts_) experts.reserve(work_.pass.rows().size());
  if (keeps_) grow(kept_, work_.pass.rows().size() * kept_size());
  logits_->reserve(logits, hidden, keeps_ ? kept_.data() : nullptr);
  graphs_.run();
}

}  // namespace dovetail::model
