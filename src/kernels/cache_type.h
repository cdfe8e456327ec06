#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace dovetail::kernels {

// Positions per block of the key/value cache.
inline constexpr std::size_t kBlockSize = 16;

// The types that keys and values are stored in: X(name, name in options and reports, bytes of an
// element). Q8_0 has a scale beside them for every 32 dimensions of a position, FP8 (E4M3, as
// Micikevicius et al. define it: https://arxiv.org/abs/2209.05433) one for every 64.
#define DOVETAIL_CACHE_TYPES(X) \
  X(F32, "f32", 4)              \
  X(F16, "f16", 2)              \
  X(BF16, "bf16", 2)            \
  X(Q8_0, "q8_0", 1)            \
  X(FP8, "fp8", 1)

#define DOVETAIL_LISTED(name, text, bytes) k##name,
enum class CacheType : std::uint8_t { DOVETAIL_CACHE_TYPES(DOVETAIL_LISTED) };
#undef DOVETAIL_LISTED

struct CacheTypeInfo {
  CacheType type;
  std::string_view name;
  std::size_t element_bytes;
};

#define DOVETAIL_LISTED(name, text, bytes) {CacheType::k##name, text, bytes},
inline constexpr CacheTypeInfo kCacheTypes[] = {DOVETAIL_CACHE_TYPES(DOVETAIL_LISTED)};
#undef DOVETAIL_LISTED

constexpr const CacheTypeInfo& info(CacheType type) {
  return kCacheTypes[static_cast<std::size_t>(type)];
}

// Of a latent, which is key and value at once.
inline constexpr std::size_t kMostLatentDims = 576;

// Dimensions of a stored position that share a scale, the last ones of it as many as there are; 0:
// the type has no scales.
constexpr std::size_t scaled_dims(CacheType type) {
  return type == CacheType::kQ8_0 ? 32 : type == CacheType::kFP8 ? 64 : 0;
}

// A tile holds the keys or the values of one block, layer and key/value head. Elements of keys are
// [dimension][position], so that attention reads one dimension of sixteen positions as a vector;
// those of values [position][dimension]. Dimensions are padded to whole vectors of sixteen. Behind
// the elements lie the scales, in F16, [group of scaled_dims() dimensions][position], for both.
constexpr std::size_t padded_dims(std::size_t head_dim) { return (head_dim + 15) / 16 * 16; }

// `positions`: those of a part of one.
constexpr std::size_t cache_tile_bytes(CacheType type, std::size_t head_dim,
                                       std::size_t positions = kBlockSize) {
  const std::size_t elements = positions * padded_dims(head_dim) * info(type).element_bytes;
  const std::size_t group = scaled_dims(type);
  return group == 0 ? elements : elements + (head_dim + group - 1) / group * positions * 2;
}

}  // namespace dovetail::kernels
