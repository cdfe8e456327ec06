#include "model/cache_shape.h"

#include <algorithm>

namespace dovetail::model {
namespace {

// `groups`: of the layers with attention, in their order.
CacheShape shape_of(std::span<const load::LayerConfig> layers, kernels::CacheType type,
                    std::vector<std::uint32_t> windows, std::span<const std::uint32_t> groups) {
  CacheShape shape(type, std::move(windows));
  std::size_t next = 0;
  for (const load::LayerConfig& layer : layers) {
    if (const load::AttentionConfig* attention = layer.attention())
      shape.add_layer(attention->kv_heads, attention->head_dim, groups[next++]);
    if (const load::LatentConfig* latent = layer.latent())
      shape.add_latents(latent->cached_dim(), groups[next++]);
    if (const load::DeltaConfig* delta = layer.delta()) shape.add_state(delta->state_floats());
    if (const load::ShortConvConfig* convolution = layer.short_conv())
      shape.add_state(convolution->state_floats());
  }
  return shape;
}

// The model's, and the one that drafts.
std::vector<load::LayerConfig> layers_of(const load::ModelConfig& config, bool drafts) {
  std::vector<load::LayerConfig> layers = config.layers;
  if (drafts && config.draft_layer) layers.push_back(*config.draft_layer);
  return layers;
}

// Layers that see as much.
struct Kind {
  std::uint32_t window = 0;
  std::vector<std::size_t> layers;  // among those with attention
  std::size_t bytes = 0;            // of the largest layer, for one position and cache element
};

// What the layers see, in the order in which the kinds first come.
std::vector<Kind> kinds_of(std::span<const load::LayerConfig> layers, std::uint32_t max_context) {
  std::vector<Kind> kinds;
  std::size_t count = 0;
  for (const load::LayerConfig& layer : layers) {
    const load::AttentionConfig* attention = layer.attention();
    const load::LatentConfig* latent = layer.latent();
    if (attention == nullptr && latent == nullptr) continue;
    const bool slides =
        attention != nullptr && attention->causal && attention->window < max_context;
    const std::uint32_t window = slides ? attention->window : 0;
    const std::size_t bytes = latent != nullptr
                                  ? latent->cached_dim()
                                  : std::size_t{2} * attention->kv_heads * attention->head_dim;
    auto kind = std::find_if(kinds.begin(), kinds.end(),
                             [&](const Kind& other) { return other.window == window; });
    if (kind == kinds.end()) kind = kinds.insert(kinds.end(), Kind{window, {}, 0});
    kind->layers.push_back(count++);
    kind->bytes = std::max(kind->bytes, bytes);
  }
  return kinds;
}

}  // namespace

std::size_t CacheShape::sequence_bytes(std::uint32_t positions) const {
  const auto blocks = [](std::uint32_t count) {
    return std::size_t{count} / kernels::kBlockSize + (count % kernels::kBlockSize != 0 ? 1 : 0);
  };
  std::size_t held = 0;
  for (const std::uint32_t window : windows_) {
    // A window's first block is rarely seen whole.
    const bool slides = window > 0 && window < positions;
    held += slides ? std::min(blocks(window) + 1, blocks(positions)) : blocks(positions);
  }
  return held * unit_bytes_;
}

CacheShape cache_shape(const load::ModelConfig& config, kernels::CacheType type, bool drafts) {
  const std::vector<load::LayerConfig> layers = layers_of(config, drafts);
  const std::vector<std::uint32_t> groups(layers.size(), 0);
  return shape_of(layers, type, {0}, groups);
}

CacheShape grouped_cache_shape(const load::ModelConfig& config, kernels::CacheType type,
                               bool drafts) {
  constexpr std::size_t kWaste = 12;
  const std::vector<load::LayerConfig> of = layers_of(config, drafts);
  const std::vector<Kind> kinds = kinds_of(of, config.max_context);
  if (kinds.size() < 2 && (kinds.empty() || kinds[0].window == 0))
    return cache_shape(config, type, drafts);
  std::size_t needed = 0;
  for (const Kind& kind : kinds) needed += kind.layers.size() * kind.bytes;
  // Candidates are the sizes that divide one of the kinds into equal groups, or nearly so.
  std::vector<std::size_t> best;  // groups, by kind
  std::size_t best_groups = 0, best_waste = 0;
  for (const Kind& by : kinds) {
    for (std::size_t parts = 1; parts <= by.layers.size(); ++parts) {
      const std::size_t size = (by.layers.size() + parts - 1) / parts * by.bytes;
      std::vector<std::size_t> counts;
      std::size_t groups = 0;
      for (const Kind& kind : kinds) {
        const std::size_t fit = size / kind.bytes;
        if (fit == 0) break;
        counts.push_back((kind.layers.size() + fit - 1) / fit);
        groups += counts.back();
      }
      if (counts.size() < kinds.size()) continue;
      const std::size_t waste = groups * size - needed;
      const bool fine = waste * kWaste <= needed;
      const bool best_fine = !best.empty() && best_waste * kWaste <= needed;
      const bool better = best.empty()        ? true
                          : fine != best_fine ? fine
                          : fine              ? groups < best_groups
                                              : waste < best_waste;
      if (!better) continue;
      best = counts;
      best_groups = groups;
      best_waste = waste;
    }
  }
  std::vector<std::uint32_t> windows;
  std::vector<std::uint32_t> groups(of.size(), 0);
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    const std::vector<std::size_t>& layers = kinds[k].layers;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      groups[layers[i]] = static_cast<std::uint32_t>(windows.size() + i * best[k] / layers.size());
    }
    windows.insert(windows.end(), best[k], kinds[k].window);
  }
  return shape_of(of, type, std::move(windows), groups);
}

}  // namespace dovetail::model
