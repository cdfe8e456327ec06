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
  std::uint32_t slice = 0;  // rows of a block; 0: one for each position

  // Of a block.
  std::size_t floats() const {
    if (slice > 0) return std::size_t{slice} * dim;
    return kernels::kBlockSize * (row ? dim : std::size_t{2} * kv_heads * dim);
  }
};

// `max_context`: a window that reaches so far is none.
std::vector<Part> parts_of(const load::LayerConfig& layer, std::uint32_t max_context) {
  const auto window = [max_context](std::uint32_t of) { return of < max_context ? of : 0; };
  if (const load::AttentionConfig* attention = layer.attention()) {
    if (attention->shares >= 0) return {};
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
    if (compressed->ratio > 0) {
      const EntryLayout entries(*compressed);
      parts.push_back({0, 1, entries.row_dim, true, false, entries.slice});
    }
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
      if (part.slice > 0) {
        shape.add_slices(part.slice, part.dim, group);
      } else if (part.row) {
        shape.add_latents(part.dim, group, part.tells_generated);
      } else {
        shape.add_layer(part.kv_heads, part.dim, group);
      }
    }
    if (const load::DeltaConfig* delta = layer.delta()) shape.add_state(delta->state_floats());
    if (const load::KimiDeltaConfig* delta = layer.kimi_delta())
      shape.add_state(delta->state_floats());
    if (const load::MambaConfig* mamba = layer.mamba()) shape.add_state(mamba->state_floats());
    if (const load::ShortConvConfig* convolution = layer.short_conv())
      shape.add_state(convolution->state_floats());
    const load::CompressedConfig* compressed = layer.compressed();
    if (compressed != nullptr && compressed->ratio > 0) {
      const std::size_t newest = EntryLayout(*compressed).newest_bytes(type);
      shape.add_state(compressed->state_floats() + newest / sizeof(float));
    }
  }
  return shape;
}

// The model's, and the one that drafts.
std::vector<load::LayerConfig> layers_of(const load::ModelConfig& config, bool drafts) {
  std::vector<load::LayerConfig> layers = config.layers;
  if (drafts && config.draft_layer) layers.push_back(*config.draft_layer);
  return layers;
}

std::size_t blocks_of(std::uint32_t positions) {
  return (std::size_t{positions} + kernels::kBlockSize - 1) / kernels::kBlockSize;
}

// Of one group that a sequence holds when so many of its positions are computed. A window's first
// block is rarely seen whole.
std::size_t blocks_held(std::uint32_t window, std::uint32_t positions) {
  const bool slides = window > 0 && window < positions;
  return slides ? std::min(blocks_of(window) + 1, blocks_of(positions)) : blocks_of(positions);
}

// Parts of layers that see as much.
struct Kind {
  std::uint32_t window = 0;
  std::vector<std::size_t> parts;   // among those of all layers
  std::vector<std::size_t> floats;  // of a block, by part
  std::size_t all = 0;              // of these

  // In which of `groups` equal ones the parts are, in their order.
  std::vector<std::size_t> cut(std::size_t groups) const {
    std::vector<std::size_t> group;
    std::size_t before = 0;
    for (const std::size_t each : floats) {
      group.push_back(before * groups / all);
      before += each;
    }
    return group;
  }

  // Of the largest of so many groups.
  std::size_t largest(std::size_t groups) const {
    const std::vector<std::size_t> group = cut(groups);
    std::vector<std::size_t> held(groups);
    for (std::size_t i = 0; i < floats.size(); ++i) held[group[i]] += floats[i];
    return *std::max_element(held.begin(), held.end());
  }

  // The fewest groups of at most so many floats; 0: a part has more.
  std::size_t groups_within(std::size_t size) const {
    for (std::size_t groups = 1; groups <= parts.size(); ++groups)
      if (largest(groups) <= size) return groups;
    return 0;
  }
};

// What the layers see, in the order in which the kinds first come.
std::vector<Kind> kinds_of(std::span<const load::LayerConfig> layers, std::uint32_t max_context) {
  std::vector<Kind> kinds;
  std::size_t count = 0;
  for (const load::LayerConfig& layer : layers) {
    for (const Part& part : parts_of(layer, max_context)) {
      auto kind = std::find_if(kinds.begin(), kinds.end(),
                               [&](const Kind& other) { return other.window == part.window; });
      if (kind == kinds.end()) kind = kinds.insert(kinds.end(), Kind{part.window, {}, {}, 0});
      kind->parts.push_back(count++);
      kind->floats.push_back(part.floats());
      kind->all += part.floats();
    }
  }
  return kinds;
}

}  // namespace

EntryLayout::EntryLayout(const load::CompressedConfig& config) {
  constexpr auto kBlock = static_cast<std::uint32_t>(kernels::kBlockSize);
  entries = std::max(1U, kBlock / config.ratio);
  rows = kBlock / entries;
  row_dim = (config.entry_dim() + rows - 1) / rows;
  const std::uint32_t blocks = config.ratio / kBlock;
  if (blocks > 1 && config.index_heads == 0) slice = (rows + blocks - 1) / blocks;
}

std::size_t CacheShape::sequence_bytes(std::uint32_t positions) const {
  std::size_t held = 0;
  for (const std::uint32_t window : windows_) held += sequence_bytes(positions, window);
  return held;
}

std::size_t CacheShape::sequence_bytes(std::uint32_t positions, std::uint32_t window) const {
  return blocks_held(window, positions) * unit_bytes_;
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
  const auto held = [&](const Kind& kind) { return blocks_held(kind.window, config.max_context); };
  std::size_t needed = 0;
  for (const Kind& kind : kinds) needed += held(kind) * kind.all;
  // Candidates are the sizes that divide one of the kinds into equal groups, or nearly so.
  std::vector<std::size_t> best;  // groups, by kind
  std::size_t best_groups = 0, best_waste = 0;
  for (const Kind& by : kinds) {
    for (std::size_t parts = 1; parts <= by.parts.size(); ++parts) {
      const std::size_t size = by.largest(parts);
      std::vector<std::size_t> counts;
      std::size_t groups = 0, taken = 0;
      for (const Kind& kind : kinds) {
        const std::size_t count = kind.groups_within(size);
        if (count == 0) break;
        counts.push_back(count);
        groups += count;
        taken += count * size * held(kind);
      }
      if (counts.size() < kinds.size()) continue;
      const std::size_t waste = taken - needed;
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
  for (const Kind& kind : kinds) parts += kind.parts.size();
  std::vector<std::uint32_t> groups(parts, 0);
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    const std::vector<std::size_t> cut = kinds[k].cut(best[k]);
    for (std::size_t i = 0; i < cut.size(); ++i)
      groups[kinds[k].parts[i]] = static_cast<std::uint32_t>(windows.size() + cut[i]);
    windows.insert(windows.end(), best[k], kinds[k].window);
  }
  return shape_of(of, type, std::move(windows), groups, config.max_context);
}

}  // namespace dovetail::model
