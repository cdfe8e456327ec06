#include "model/cache_shape.h"

#include <algorithm>

namespace dovetail::model {
namespace {

// What one layer keeps in one group.
struct Part {
  std::uint32_t window = 0;
  std::uint32_t kv_heads = 1;
  std::uint32_t dim = 0;
  bool row = false;  // for all heads, keys and values at once
  bool tells_generated = false;

  std::size_t floats() const { return row ? dim : std::size_t{2} * kv_heads * dim; }
};

// `max_context`: a window that reaches so far is none.
std::vector<Part> parts_of(const load::LayerConfig& layer, std::uint32_t max_context) {
  const auto window = [max_context](std::uint32_t of) { return of < max_context ? of : 0; };
  if (const load::AttentionConfig* attention = layer.attention()) {
    return {{attention->causal ? window(attention->window) : 0, attention->kv_heads,
             attention->head_dim}};
  }
  std::vector<Part> parts;
  if (const load::LatentConfig* latent = layer.latent()) {
    parts.push_back({0, 1, latent->cached_dim(), true, true});
    if (latent->index_heads > 0) parts.push_back({0, 1, latent->index_dim, true, true});
  }
  if (const load::CompressedConfig* compressed = layer.compressed()) {
    parts.push_back({window(compressed->window), 1, compressed->head_dim, true});
    if (compressed->ratio > 0) parts.push_back({0, 1, entry_row_dim(*compressed), true});
  }
  return parts;
}

// `groups`: of the parts of the layers, in their order; empty: all in one.
CacheShape shape_of(std::span<const load::LayerConfig> layers, kernels::CacheType type,
                    std::vector<std::uint32_t> windows, std::span<const std::uint32_t> groups,
                    std::uint32_t max_context) {
  CacheShape shape(type, std::move(windows));
  std::size_t next = 0;
  for (const load::LayerConfig& layer : layers) {
    for (const Part& part : parts_of(layer, max_context)) {
      const std::uint32_t group = groups.empty() ? 0 : groups[next++];
      if (part.row) {
        shape.add_latents(part.dim, group, part.tells_generated);
      } else {
        shape.add_layer(part.kv_heads, part.dim, group);
      }
    }
    if (const load::DeltaConfig* delta = layer.delta()) shape.add_state(delta->state_floats());
    if (const load::ShortConvConfig* convolution = layer.short_conv())
      shape.add_state(convolution->state_floats());
    const load::CompressedConfig* compressed = layer.compressed();
    if (compressed != nullptr && compressed->ratio > 0) shape.add_state(compressed->state_floats());
  }
  return shape;
}

// The model's, and the one that drafts.
std::vector<load::LayerConfig> layers_of(const load::ModelConfig& config, bool drafts) {
  std::vector<load::LayerConfig> layers = config.layers;
  if (drafts && config.draft_layer) layers.push_back(*config.draft_layer);
  return layers;
}

// Parts of layers that see as much.
struct Kind {
  std::uint32_t window = 0;
  std::vector<std::size_t> layers;  // among all parts
  std::size_t bytes = 0;            // of the largest, for one position and cache element
};

// What the layers see, in the order in which the kinds first come.
std::vector<Kind> kinds_of(std::span<const load::LayerConfig> layers, std::uint32_t max_context) {
  std::vector<Kind> kinds;
  std::size_t count = 0;
  for (const load::LayerConfig& layer : layers) {
    for (const Part& part : parts_of(layer, max_context)) {
      auto kind = std::find_if(kinds.begin(), kinds.end(),
                               [&](const Kind& other) { return other.window == part.window; });
      if (kind == kinds.end()) kind = kinds.insert(kinds.end(), Kind{part.window, {}, 0});
      kind->layers.push_back(count++);
      kind->bytes = std::max(kind->bytes, part.floats());
    }
  }
  return kinds;
}

}  // namespace

std::uint32_t entries_of_block(const load::CompressedConfig& config) {
  constexpr auto kBlock = static_cast<std::uint32_t>(kernels::kBlockSize);
  return std::max(1U, kBlock / config.ratio);
}

std::uint32_t entry_row_dim(const load::CompressedConfig& config) {
  constexpr auto kBlock = static_cast<std::uint32_t>(kernels::kBlockSize);
  const std::uint32_t rows = kBlock / entries_of_block(config);
  return (config.entry_dim() + rows - 1) / rows;
}

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

bool CacheShape::groups_alike() const {
  std::vector<std::vector<std::size_t>> bytes(groups());
  for (const Layer& layer : layers_) {
    for (std::uint32_t i = 0; i < layer.kv_heads * layer.tiles; ++i)
      bytes[layer.group].push_back(layer.tile_bytes);
    bytes[layer.group].push_back(0);
  }
  const auto longest = std::max_element(
      bytes.begin(), bytes.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
  return std::all_of(bytes.begin(), bytes.end(), [&](const std::vector<std::size_t>& each) {
    return std::equal(each.begin(), each.end(), longest->begin());
  });
}

CacheShape cache_shape(const load::ModelConfig& config, kernels::CacheType type, bool drafts) {
  return shape_of(layers_of(config, drafts), type, {0}, {}, config.max_context);
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
  std::size_t parts = 0;
  for (const Kind& kind : kinds) parts += kind.layers.size();
  std::vector<std::uint32_t> groups(parts, 0);
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    const std::vector<std::size_t>& layers = kinds[k].layers;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      groups[layers[i]] = static_cast<std::uint32_t>(windows.size() + i * best[k] / layers.size());
    }
    windows.insert(windows.end(), best[k], kinds[k].window);
  }
  return shape_of(of, type, std::move(windows), groups, config.max_context);
}

}  // namespace dovetail::model
