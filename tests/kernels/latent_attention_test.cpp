#include <fmt/core.h>
#include <gtest/gtest.h>

#include "kernels/fixture.h"
#include "kernels/reference.h"

// Attention over latents, which are keys and values at once, and attention with values of another
// size than keys.
namespace dovetail::kernels {
namespace {

class LatentAttention : public EachKernels {};

// Latents in the cache; behind the last position lies NaN.
struct Latents {
  Latents(const Kernels& kernels, CacheType type, std::size_t positions, std::size_t dims,
          std::mt19937& random)
      : cache_type(type), dim(dims), tile(cache_tile_bytes(type, dims)) {
    const std::vector<float> all = reference::random_floats(positions * dims, random);
    const std::size_t blocks = positions / kBlockSize + 1;
    bytes.resize(blocks * tile);
    const std::vector<float> nothing(dims, NAN);
    for (std::size_t p = 0; p < blocks * kBlockSize; ++p) {
      kernels.store_value(type, p < positions ? all.data() + p * dims : nothing.data(), dims,
                          p % kBlockSize, bytes.data() + p / kBlockSize * tile);
    }
    for (std::size_t b = 0; b < blocks; ++b) tiles.push_back(bytes.data() + b * tile);
  }
  double at(std::size_t p, std::size_t d) const {
    return reference::cached(cache_type, reference::Tile::kValues, tiles[p / kBlockSize], dim,
                             p % kBlockSize, d);
  }

  CacheType cache_type;
  std::size_t dim, tile;
  reference::Bytes bytes;
  std::vector<const std::byte*> tiles;
};

struct LatentCase {
  std::size_t first, rows, heads, dim, value_dim;
  CacheType type;
};

AttentionArgs arguments(const Latents& latents, const LatentCase& c,
                        const std::vector<float>& query, std::vector<float>& output) {
  return {.cache_type = c.type,
          .value_blocks = latents.tiles.data(),
          .latent = true,
          .query = query.data(),
          .query_stride = c.heads * c.dim,
          .output = output.data(),
          .output_stride = c.heads * c.value_dim,
          .rows = c.rows,
          .heads = c.heads,
          .head_dim = c.dim,
          .value_dim = c.value_dim,
          .first_position = c.first,
          .scale = 1.0F / std::sqrt(static_cast<float>(c.dim))};
}

TEST_P(LatentAttention, IsNearTheSoftmaxInDouble) {
  const LatentCase cases[] = {
      {0, 1, 1, 16, 8, CacheType::kF32},      {0, 20, 2, 24, 16, CacheType::kF32},
      {15, 3, 16, 576, 512, CacheType::kF32}, {70, 2, 70, 576, 512, CacheType::kF16},
      {5, 50, 5, 33, 17, CacheType::kBF16},   {100, 1, 20, 576, 512, CacheType::kQ8_0},
      {90, 2, 7, 576, 512, CacheType::kFP8},  {12, 3, 2, 100, 72, CacheType::kFP8},
      {31, 2, 3, 100, 100, CacheType::kQ8_0}, {2040, 9, 3, 40, 32, CacheType::kF16}};
  std::mt19937 random(3);
  for (const LatentCase& c : cases) {
    SCOPED_TRACE(fmt::format("first={} rows={} heads={} dim={} of {} {}", c.first, c.rows, c.heads,
                             c.value_dim, c.dim, info(c.type).name));
    const Latents latents(kernels(), c.type, c.first + c.rows, c.dim, random);
    const auto query = reference::random_floats(c.rows * c.heads * c.dim, random, 2);
    std::vector<float> output(c.rows * c.heads * c.value_dim, NAN);
    const AttentionArgs args = arguments(latents, c, query, output);
    kernels().attention(args);
    for (std::size_t i = 0; i < c.rows * c.heads; ++i) {
      std::vector<double> weights;
      double top = -INFINITY;
      for (std::size_t p = 0; p <= c.first + i / c.heads; ++p) {
        double score = 0;
        for (std::size_t d = 0; d < c.dim; ++d)
          score += double{query[i * c.dim + d]} * latents.at(p, d);
        weights.push_back(score * double{args.scale});
        top = std::max(top, weights.back());
      }
      double sum = 0;
      for (double& w : weights) sum += w = std::exp(w - top);
      for (std::size_t d = 0; d < c.value_dim; ++d) {
        double expected = 0;
        for (std::size_t p = 0; p < weights.size(); ++p)
          expected += weights[p] / sum * latents.at(p, d);
        ASSERT_NEAR(output[i * c.value_dim + d], expected, 1e-5) << "pair " << i << " dim " << d;
      }
    }
  }
}

// A row and a head have the same bits alone, beside others, by segments, and in every set.
TEST_P(LatentAttention, HasTheSameBitsInEveryCompany) {
  std::mt19937 random(7);
  for (const CacheTypeInfo& type : kCacheTypes) {
    const LatentCase c = {kAttentionSegment - 6, 9, 7, 72, 64, type.type};
    const Latents latents(kernels(), c.type, c.first + c.rows, c.dim, random);
    const auto query = reference::random_floats(c.rows * c.heads * c.dim, random, 2);
    std::vector<float> whole(c.rows * c.heads * c.value_dim, NAN);
    kernels().attention(arguments(latents, c, query, whole));
    std::vector<float> other(whole.size(), NAN);
    find_kernels("portable")->attention(arguments(latents, c, query, other));
    ASSERT_EQ(other, whole) << type.name;
    constexpr std::size_t kSegments = 2;
    const std::size_t floats = attention_part_floats(c.value_dim);
    for (std::size_t row = 0; row < c.rows; ++row) {
      for (std::size_t head = 0; head < c.heads; ++head) {
        const std::size_t pair = row * c.heads + head;
        LatentCase one = c;
        one.first += row;
        one.rows = one.heads = 1;
        std::vector<float> out(c.value_dim, NAN);
        AttentionArgs args = arguments(latents, one, query, out);
        args.query += pair * c.dim;
        kernels().attention(args);
        const std::vector<float> wanted(
            whole.begin() + static_cast<std::ptrdiff_t>(pair * c.value_dim),
            whole.begin() + static_cast<std::ptrdiff_t>((pair + 1) * c.value_dim));
        ASSERT_EQ(out, wanted) << type.name << " row " << row << " head " << head;
        std::vector<float> parts(kSegments * floats, NAN);
        for (std::size_t segment = 0; segment < kSegments; ++segment) {
          args.segment = segment;
          args.output = parts.data() + segment * floats;
          kernels().attention(args);
        }
        std::fill(out.begin(), out.end(), NAN);
        kernels().merge_attention(parts.data(), kSegments, floats, c.value_dim, nullptr,
                                  out.data());
        ASSERT_EQ(out, wanted) << type.name << " row " << row << " head " << head;
      }
    }
  }
}

// As attention with values of as many dimensions as keys, of which the last ones are left out.
TEST_P(LatentAttention, ValuesMayBeShorterThanKeys) {
  std::mt19937 random(9);
  constexpr std::size_t kKeys = 40, kValues = 24, kRows = 20, kHeads = 3;
  for (const CacheTypeInfo& type : kCacheTypes) {
    // Scales are of whole groups of dimensions, which the cut would divide.
    if (scaled_dims(type.type) > 0) continue;
    const std::size_t key_tile = cache_tile_bytes(type.type, kKeys);
    const std::size_t value_tile = cache_tile_bytes(type.type, kValues);
    const std::size_t blocks = (kRows + kBlockSize - 1) / kBlockSize;
    reference::Bytes keys(blocks * key_tile), longs(blocks * key_tile), shorts(blocks * value_tile);
    std::vector<const std::byte*> key_at, long_at, short_at;
    for (std::size_t b = 0; b < blocks; ++b) {
      key_at.push_back(keys.data() + b * key_tile);
      long_at.push_back(longs.data() + b * key_tile);
      short_at.push_back(shorts.data() + b * value_tile);
    }
    for (std::size_t p = 0; p < kRows; ++p) {
      const auto key = reference::random_floats(kKeys, random);
      const auto value = reference::random_floats(kKeys, random);
      const std::size_t b = p / kBlockSize;
      kernels().store_key(type.type, key.data(), kKeys, p % kBlockSize, keys.data() + b * key_tile);
      kernels().store_value(type.type, value.data(), kKeys, p % kBlockSize,
                            longs.data() + b * key_tile);
      kernels().store_value(type.type, value.data(), kValues, p % kBlockSize,
                            shorts.data() + b * value_tile);
    }
    const auto query = reference::random_floats(kRows * kHeads * kKeys, random, 2);
    std::vector<float> whole(kRows * kHeads * kKeys, NAN), part(kRows * kHeads * kValues, NAN);
    AttentionArgs args = {.cache_type = type.type,
                          .key_blocks = key_at.data(),
                          .value_blocks = long_at.data(),
                          .query = query.data(),
                          .query_stride = kHeads * kKeys,
                          .output = whole.data(),
                          .output_stride = kHeads * kKeys,
                          .rows = kRows,
                          .heads = kHeads,
                          .head_dim = kKeys,
                          .scale = 0.2F};
    kernels().attention(args);
    args.value_blocks = short_at.data();
    args.output = part.data();
    args.output_stride = kHeads * kValues;
    args.value_dim = kValues;
    kernels().attention(args);
    for (std::size_t pair = 0; pair < kRows * kHeads; ++pair) {
      for (std::size_t d = 0; d < kValues; ++d)
        ASSERT_EQ(part[pair * kValues + d], whole[pair * kKeys + d]) << type.name;
    }
  }
}

TEST_P(LatentAttention, TilesOfValuesAreReadAsTheyAre) {
  std::mt19937 random(4);
  for (const CacheTypeInfo& type : kCacheTypes) {
    for (const std::size_t dim : {1U, 16U, 40U, 80U, 576U}) {
      const Latents latents(kernels(), type.type, kBlockSize, dim, random);
      std::vector<float> out(kBlockSize * dim, NAN);
      kernels().load_values(type.type, latents.tiles[0], dim, 0, kBlockSize, out.data());
      for (std::size_t p = 0; p < kBlockSize; ++p) {
        for (std::size_t d = 0; d < dim; ++d)
          ASSERT_EQ(out[p * dim + d], static_cast<float>(latents.at(p, d))) << type.name;
      }
      // A part of them, and nothing behind it.
      std::vector<float> part(4 * dim, NAN);
      kernels().load_values(type.type, latents.tiles[0], dim, 5, 8, part.data());
      for (std::size_t i = 0; i < 3 * dim; ++i) ASSERT_EQ(part[i], out[5 * dim + i]) << type.name;
      for (std::size_t i = 3 * dim; i < 4 * dim; ++i) ASSERT_TRUE(std::isnan(part[i])) << type.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, LatentAttention,
                         ::testing::ValuesIn(available_kernels().begin(),
                                             available_kernels().end()),
                         kernels_name);

}  // namespace
}  // namespace dovetail::kernels
