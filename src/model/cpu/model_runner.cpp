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

// No later row sees anything of a row that goes through it.
bool keeps_nothing(const load::LayerConfig& layer) {
  const load::AttentionConfig* attention = layer.attention();
  return !layer.mixes() || (attention != nullptr && attention->shares >= 0);
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

// What layers leave to those behind them while they are added.
struct ModelRunner::Adding {
  Residual before;
  std::size_t last = 0;           // the last layer that keeps something of a row: see row_set()
  std::uint32_t cache_layer = 0;  // the next one's
  std::uint32_t state_layer = 0;
  std::vector<std::uint32_t> cached;          // what the cache has of a layer
  std::vector<std::uint32_t> layers_of_kind;  // of experts

  // Behind the last layer that keeps something of a row only rows with outputs go on.
  RowSet row_set(std::size_t layer) const { return layer >= last ? RowSet::kWanted : RowSet::kAll; }
};

std::string ModelRunner::prefix(std::size_t layer) const {
  return fmt::format("blk.{}.", first_layer_ + layer);
}

// The first layer whose steps are as those of layer `i`: the first one follows no sublayer, and
// from `last` on fewer rows are computed.
std::size_t ModelRunner::alike(std::size_t i, std::size_t last) const {
  for (std::size_t j = i > last ? last + 1 : 1; j < i && i != last; ++j) {
    if (config_.layers[j] == config_.layers[i]) return j;
  }
  return i;
}

void ModelRunner::add_layers() {
  const std::size_t layers = config_.layers.size();
  add_experts();
  Adding adding;
  adding.cache_layer = first_cache_layer_;
  adding.cached.resize(layers);
  adding.layers_of_kind.resize(experts_.size());
  adding.last = layers - 1;
  while (adding.last > 0 && keeps_nothing(config_.layers[adding.last])) --adding.last;
  for (std::size_t i = 0; i < layers; ++i) {
    program_.begin_layer(static_cast<std::int32_t>(i),
                         static_cast<std::int32_t>(alike(i, adding.last)));
    if (config_.layers[i].mixes()) add_mixer(i, adding);
    if (config_.layers[i].beside) add_mixer_beside(i, adding);
    add_feed_forward(i, adding);
    add_layer_end(i, adding);
  }
  program_.end_layers();
  const std::string last_norm =
      first_layer_ == 0 ? "output_norm" : prefix(layers - 1) + "nextn.shared_head_norm";
  const std::string streams =
      first_layer_ == 0 ? "output_hc" : prefix(layers - 1) + "nextn.hc_head";
  logits_.emplace(config_, std::move(adding.before), *weights_, last_norm, work_,
                  stream_mix(streams, false));
  logits_->add_steps(program_);
  of_hidden_ = logits_->record();
}

// Experts that are alike share memory, so that each kind knows all its layers.
void ModelRunner::add_experts() {
  const std::size_t layers = config_.layers.size();
  for (std::size_t i = 0; i < layers; ++i) {
    const load::ExpertsConfig* experts = config_.layers[i].experts();
    if (experts == nullptr) continue;
    const bool known = std::any_of(experts_.begin(), experts_.end(),
                                   [&](const auto& kind) { return kind.first == *experts; });
    if (known) continue;
    std::vector<std::string> names;
    for (std::size_t j = i; j < layers; ++j) {
      if (config_.layers[j].experts() != nullptr && *config_.layers[j].experts() == *experts)
        names.push_back(prefix(j));
    }
    experts_.emplace_back(std::piecewise_construct, std::forward_as_tuple(*experts),
                          std::forward_as_tuple(*experts, work_.hidden, names, *weights_,
                                                work_.kernels, executor_.topology()));
  }
}

void ModelRunner::emplace_mixer(std::size_t i, Adding& adding) {
  const load::LayerConfig& layer = config_.layers[i];
  const std::string name = prefix(i);
  // What stands beside it takes all rows once more.
  const RowSet set = layer.beside ? RowSet::kAll : adding.row_set(i);
  if (const load::AttentionConfig* attention = layer.attention()) {
    adding.cached[i] = attention->shares < 0
                           ? adding.cache_layer++
                           : adding.cached[static_cast<std::size_t>(attention->shares)];
    mixers_.emplace_back(std::in_place_type<Attention>, *attention, *weights_, name,
                         adding.cached[i], set, rope(*attention), splits(*attention), work_);
  } else if (const load::LatentConfig* latent = layer.latent()) {
    const RopeTable* turns =
        latent->rope < 0 ? nullptr : &ropes_[static_cast<std::size_t>(latent->rope)];
    mixers_.emplace_back(std::in_place_type<LatentAttention>, *latent, *weights_, name,
                         adding.cache_layer, set, turns, latent_rows(*latent),
                         picked(1, latent->index_top), work_);
    adding.cache_layer += latent->index_heads > 0 ? 2 : 1;
  } else if (const load::CompressedConfig* compressed = layer.compressed()) {
    const bool entries = compressed->ratio > 0;
    mixers_.emplace_back(std::in_place_type<CompressedAttention>, *compressed, *weights_, name,
                         adding.cache_layer, adding.state_layer, set,
                         ropes_[static_cast<std::size_t>(compressed->rope)],
                         picked(compressed->ratio, compressed->index_top), work_);
    adding.cache_layer += entries ? 2 : 1;
    adding.state_layer += entries ? 1 : 0;
  } else if (const load::DeltaConfig* delta = layer.delta()) {
    mixers_.emplace_back(std::in_place_type<Delta>, *delta, *weights_, name, adding.state_layer++,
                         set, work_);
  } else if (const load::KimiDeltaConfig* kda = layer.kimi_delta()) {
    mixers_.emplace_back(std::in_place_type<KimiDelta>, *kda, *weights_, name, adding.state_layer++,
                         set, work_);
  } else if (const auto* mamba = std::get_if<load::MambaConfig>(&layer.mixer)) {
    mixers_.emplace_back(std::in_place_type<Mamba>, *mamba, *weights_, name, adding.state_layer++,
                         set, work_);
  } else if (const load::ShortConvConfig* convolution = layer.short_conv()) {
    mixers_.emplace_back(std::in_place_type<ShortConv>, *convolution, *weights_, name,
                         adding.state_layer++, set, work_);
  }
}

void ModelRunner::add_mixer(std::size_t i, Adding& adding) {
  const load::LayerConfig& layer = config_.layers[i];
  const std::string name = prefix(i);
  emplace_mixer(i, adding);
  const RowSet rows = i > adding.last ? adding.row_set(i) : RowSet::kAll;
  const auto add = [&](auto& mixer) {
    joins_
        .emplace_back(std::move(adding.before),
                      Norm(layer.mixer_norms.before, *weights_, name + "attn_norm", work_.kernels),
                      rows, mixer.input(), work_, false, stream_mix(name + "hc_attn", true))
        .add_steps("norm", program_);
    mixer.add_steps(program_);
    adding.before = Residual(layer.mixer_norms, *weights_, name, "post_attention_norm",
                             "attn_output_norm", mixer.output_bias(), work_.kernels);
  };
  std::visit(add, mixers_.back());
}

// LayerConfig::beside.
void ModelRunner::add_mixer_beside(std::size_t i, Adding& adding) {
  const load::LayerConfig& layer = config_.layers[i];
  const std::string name = prefix(i);
  mixers_.emplace_back(std::in_place_type<Mamba>, *layer.beside, *weights_, name,
                       adding.state_layer++, adding.row_set(i), work_);
  auto& mamba = std::get<Mamba>(mixers_.back());
  joins_
      .emplace_back(std::move(adding.before),
                    Norm(layer.mixer_norms.before, *weights_, name + "attn_norm", work_.kernels),
                    RowSet::kAll, mamba.input(), work_, true)
      .add_steps("norm-beside", program_);
  mamba.add_steps(program_);
  load::SublayerConfig end = layer.mixer_norms;
  end.scale = layer.beside_scale;
  adding.before = Residual(end, *weights_, name, "post_attention_norm", "attn_output_norm",
                           Mamba::output_bias(), work_.kernels);
}

void ModelRunner::add_feed_forward(std::size_t i, Adding& adding) {
  const load::LayerConfig& layer = config_.layers[i];
  const std::string name = prefix(i);
  const RowSet set = adding.row_set(i);
  if (const load::MlpConfig* dense = layer.dense()) {
    mlps_.emplace_back(std::in_place_type<model::Mlp>, *dense, *weights_, name, set, work_);
  } else if (layer.experts() != nullptr) {
    std::size_t kind = 0;
    while (experts_[kind].first != *layer.experts()) ++kind;
    mlps_.emplace_back(std::in_place_type<ExpertLayer>, *layer.experts(), *weights_, name,
                       experts_[kind].second, adding.layers_of_kind[kind]++, set, work_);
  } else {
    return;
  }
  const auto add = [&](auto& mlp) {
    const load::NormConfig& config =
        layer.parallel ? layer.mixer_norms.before : layer.mlp_norms.before;
    const bool first = layer.parallel || !layer.mixes();
    joins_
        .emplace_back(
            std::move(adding.before),
            Norm(config, *weights_, name + (first ? "attn_norm" : "ffn_norm"), work_.kernels), set,
            mlp.input(), work_, layer.parallel, stream_mix(name + "hc_ffn", true))
        .add_steps("mlp-norm", program_);
    mlp.add_steps(program_);
    adding.before = Residual(layer.mlp_norms, *weights_, name, "post_ffw_norm", "layer_output_norm",
                             mlp.output_bias(), work_.kernels);
  };
  std::visit(add, mlps_.back());
}

// What some models have behind the feed-forward.
void ModelRunner::add_layer_end(std::size_t i, Adding& adding) {
  const std::string name = prefix(i);
  if (layer_inputs_) {
    const RowSet set = adding.row_set(i);
    LayerInput& end = layer_ends_.emplace_back(config_, *weights_, name, i, set, work_);
    joins_.emplace_back(std::move(adding.before), Norm(), set, end.input(), work_)
        .add_steps("input-rows", program_);
    end.add_steps(program_);
    adding.before = Residual({{}, config_.layer_inputs.norm, {}}, *weights_, name, "post_norm", "",
                             end.output_bias(), work_.kernels);
  }
  if (config_.layers[i].scaled)
    adding.before.scale_sum(weights_->vector(name + "layer_output_scale.weight").front());
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
