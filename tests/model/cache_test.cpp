#include "model/cpu/cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace dovetail::model {
namespace {

constexpr std::uint32_t kLongest = 8192;

struct LayerKind {
  std::uint32_t window = 0;
  std::uint32_t kv_heads = 2;
  bool causal = true;
};

load::ModelConfig config_of(const std::vector<LayerKind>& layers) {
  load::ModelConfig config;
  config.max_context = kLongest;
  for (const LayerKind& of : layers) {
    load::AttentionConfig attention;
    attention.heads = attention.kv_heads = of.kv_heads;
    attention.head_dim = 64;
    attention.window = of.window;
    attention.causal = of.causal;
    config.layers.emplace_back().mixer = attention;
  }
  return config;
}

// `count` layers of which every `every`-th sees all.
std::vector<LayerKind> pattern(std::uint32_t count, std::uint32_t every, std::uint32_t window) {
  std::vector<LayerKind> layers;
  for (std::uint32_t i = 1; i <= count; ++i) layers.push_back({i % every == 0 ? 0 : window});
  return layers;
}

struct ShapeCase {
  std::string name;
  std::vector<LayerKind> layers;
  std::vector<std::uint32_t> windows;  // of the groups
  std::size_t unit;                    // layers' worth of bytes in a block
};

const std::vector<ShapeCase> kShapes = {
    {"Full", pattern(4, 1, 0), {0}, 4},
    {"WindowsAlone", pattern(4, 5, 512), {512}, 4},
    {"WindowsBeyondTheContext", pattern(4, 2, kLongest), {0}, 4},
    {"BothDirections", {{512, 2, false}, {0, 2, false}}, {0}, 2},
    {"Halves", pattern(24, 2, 128), {128, 0}, 12},
    {"Gemma3Of1B", pattern(26, 6, 512), {512, 512, 512, 512, 512, 512, 0}, 4},
    {"Gemma3Of4B", pattern(34, 6, 1024), {1024, 1024, 1024, 1024, 1024, 1024, 0}, 5},
    {"TwoWindows", {{64}, {128}, {0}}, {64, 128, 0}, 1},
    {"SmallFullLayers", {{64, 4}, {64, 4}, {0, 2}, {0, 2}}, {64, 64, 0}, 2},
};

TEST(CacheShape, GroupsLayersByWhatTheySee) {
  for (const ShapeCase& one : kShapes) {
    const load::ModelConfig config = config_of(one.layers);
    const CacheShape shape = grouped_cache_shape(config, kernels::CacheType::kF16);
    const std::vector<std::uint32_t> windows(shape.windows().begin(), shape.windows().end());
    EXPECT_EQ(windows, one.windows) << one.name;
    const std::size_t layer = cache_shape(config_of({{}}), kernels::CacheType::kF16).block_bytes();
    EXPECT_EQ(shape.unit_bytes(), one.unit * layer) << one.name;
    EXPECT_EQ(shape.block_bytes(), one.unit * layer * windows.size()) << one.name;
    for (std::size_t i = 0; i < one.layers.size(); ++i) {
      const LayerKind& of = one.layers[i];
      const std::uint32_t seen = of.causal && of.window < kLongest ? of.window : 0;
      EXPECT_EQ(windows[shape.layers()[i].group], seen) << one.name << ", layer " << i;
    }
  }
}

// Layers that have another one's keys and values take nothing.
TEST(CacheShape, SharedLayersHaveNone) {
  load::ModelConfig config = config_of(pattern(6, 2, 512));
  const CacheShape alone = grouped_cache_shape(config, kernels::CacheType::kF16);
  config.layers.push_back(config.layers[4]);
  std::get<load::AttentionConfig>(config.layers.back().mixer).shares = 4;
  config.layers.push_back(config.layers[5]);
  std::get<load::AttentionConfig>(config.layers.back().mixer).shares = 5;
  const CacheShape shape = grouped_cache_shape(config, kernels::CacheType::kF16);
  EXPECT_EQ(shape.layers().size(), 6U);
  EXPECT_EQ(shape.unit_bytes(), alone.unit_bytes());
  EXPECT_EQ(shape.groups(), alone.groups());
}

// A group's layers lie beside each other in its blocks, and fit them.
TEST(CacheShape, LayersOfAGroupDoNotOverlap) {
  for (const ShapeCase& one : kShapes) {
    const CacheShape shape = grouped_cache_shape(config_of(one.layers), kernels::CacheType::kF16);
    std::vector<std::size_t> bytes(shape.groups());
    for (const CacheShape::Layer& layer : shape.layers()) {
      EXPECT_EQ(layer.before, bytes[layer.group]) << one.name;
      bytes[layer.group] += 2 * layer.kv_heads * layer.tile_bytes;
    }
    for (const std::size_t of_group : bytes) EXPECT_LE(of_group, shape.unit_bytes()) << one.name;
  }
}

// Any block may become any group's: what the layers of one write to theirs is in no other's.
TEST(Cache, BlocksOfGroupsDoNotOverlap) {
  for (const ShapeCase& one : kShapes) {
    const CacheShape shape = grouped_cache_shape(config_of(one.layers), kernels::CacheType::kF16);
    const Cache cache = *Cache::create(shape, 7);
    std::vector<std::uint32_t> group_of(cache.blocks());
    for (std::uint32_t block = 0; block < cache.blocks(); ++block)
      group_of[block] = (block * 5 + block / 3) % shape.groups();
    const auto each_tile = [&](const auto& function) {
      for (std::uint32_t block = 0; block < cache.blocks(); ++block) {
        for (std::uint32_t layer = 0; layer < shape.layers().size(); ++layer) {
          const CacheShape::Layer& of = shape.layers()[layer];
          if (of.group != group_of[block]) continue;
          for (std::uint32_t head = 0; head < of.kv_heads; ++head) {
            const auto value = static_cast<std::byte>(block * 31 + layer * 7 + head + 1);
            function(cache.keys(layer, head, block), of.tile_bytes, value);
            function(cache.values(layer, head, block), of.tile_bytes, value);
          }
        }
      }
    };
    each_tile([](std::byte* tile, std::size_t bytes, std::byte value) {
      std::fill_n(tile, bytes, value);
    });
    std::size_t others = 0;
    each_tile([&](const std::byte* tile, std::size_t bytes, std::byte value) {
      others += bytes - static_cast<std::size_t>(std::count(tile, tile + bytes, value));
    });
    EXPECT_EQ(others, 0U) << one.name;
  }
}

// DeepSeek-V4-Flash: windows of 43 layers, entries of 4 positions in 21 of them and of 128 in the
// other 20, of which a block has an eighth. A long sequence holds little else than entries.
TEST(CacheShape, LayersOfSeveralSizesWasteLittle) {
  constexpr std::uint32_t kPositions = 65536;
  load::ModelConfig config;
  config.max_context = kPositions;
  for (std::uint32_t i = 0; i < 43; ++i) {
    load::CompressedConfig mixer;
    mixer.head_dim = 512;
    mixer.window = 128;
    mixer.ratio = i < 2 ? 0 : i % 2 == 0 ? 4 : 128;
    mixer.overlaps = mixer.ratio == 4;
    if (mixer.overlaps) mixer.index_heads = 64, mixer.index_dim = 128;
    config.layers.emplace_back().mixer = mixer;
  }
  for (const kernels::CacheTypeInfo& type : kernels::kCacheTypes) {
    const CacheShape shape = grouped_cache_shape(config, type.type);
    std::size_t needed = 0;
    for (const CacheShape::Layer& layer : shape.layers())
      needed += layer.tile_bytes * (shape.windows()[layer.group] > 0 ? 9 : kPositions / 16);
    EXPECT_LE(12 * shape.sequence_bytes(kPositions), 13 * needed) << type.name;
    if (kernels::scaled_dims(type.type) > 0) continue;
    // A token's: entries of 640 and 512 elements for 4 and 128.
    const std::size_t entries = kPositions * (21 * std::size_t{640} / 4 + 20 * 512 / 128);
    const std::size_t windows = 43 * std::size_t{9 * 16 * 512};
    EXPECT_EQ(needed, (entries + windows) * kernels::info(type.type).element_bytes) << type.name;
  }
}

TEST(CacheShape, SaysWhatASequenceHolds) {
  const CacheShape shape =
      grouped_cache_shape(config_of(pattern(6, 6, 512)), kernels::CacheType::kF16);
  ASSERT_EQ(shape.groups(), 6U);
  EXPECT_EQ(shape.sequence_bytes(16), 6 * shape.unit_bytes());
  EXPECT_EQ(shape.sequence_bytes(512), 6 * 32 * shape.unit_bytes());
  EXPECT_EQ(shape.sequence_bytes(4096), (256 + 5 * 33) * shape.unit_bytes());
}

}  // namespace
}  // namespace dovetail::model
