#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace dovetail::kernels {

// Positions per block of the key/value cache.
inline constexpr std::size_t kBlockSize = 16;

// The types that keys and values are stored in: X(name, name in options and reports, bytes of an
// element). Q8_0 has a scale beside them for every 32 dimensions of a position.
#define DOVETAIL_CACHE_TYPES(X) \
  X(F32, "f32", 4)              \
  X(F16, "f16", 2)              \
  X(BF16, "bf16", 2)            \
  X(Q8_0, "q8_0", 1)

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

// Dimensions of a stored position that share a scale in Q8_0.
inline constexpr std::size_t kScaledDims = 32;

// A tile holds the keys or the values of one block, layer and key/value head. Elements of keys are
// [dimension][position], so that attention reads one dimension of sixteen positions as a vector;
// those of values [position][dimension]. Dimensions are padded to whole vectors of sixteen. Behind
// the elements Q8_0 has scales in F16, [group of kScaledDims dimensions][position], for both.
constexpr std::size_t padded_dims(std::size_t head_dim) { return (head_dim + 15) / 16 * 16; }

constexpr std::size_t cache_tile_bytes(CacheType type, std::size_t head_dim) {
  const std::size_t elements = kBlockSize * padded_dims(head_dim) * info(type).element_bytes;
  const std::size_t scales = (head_dim + kScaledDims - 1) / kScaledDims * kBlockSize * 2;
  return type == CacheType::kQ8_0 ? elements + scales : elements;
}

}  // namespace dovetail::kernels
