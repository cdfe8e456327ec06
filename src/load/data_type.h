#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace dovetail::load {

// How the elements of a tensor are stored. Block types hold their elements along the innermost
// dimension in blocks of `elements_per_block`; layouts are those of the GGUF specification
// (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md and ggml-common.h).
enum class DataType : std::uint8_t { kF32, kF16, kBF16, kQ8_0, kQ4_0, kQ4_K, kQ5_K, kQ6_K };

struct DataTypeInfo {
  std::string_view name;           // as GGUF spells it: "F32", "Q4_K", ...
  std::size_t elements_per_block;  // 1 for plain types
  std::size_t bytes_per_block;
};

constexpr DataTypeInfo info(DataType type) {
  switch (type) {
    case DataType::kF32:
      return {"F32", 1, 4};
    case DataType::kF16:
      return {"F16", 1, 2};
    case DataType::kBF16:
      return {"BF16", 1, 2};
    case DataType::kQ8_0:
      return {"Q8_0", 32, 34};
    case DataType::kQ4_0:
      return {"Q4_0", 32, 18};
    case DataType::kQ4_K:
      return {"Q4_K", 256, 144};
    case DataType::kQ5_K:
      return {"Q5_K", 256, 176};
    case DataType::kQ6_K:
      return {"Q6_K", 256, 210};
  }
  return {"?", 1, 1};
}

// Bytes of one row of `elements` elements; `elements` must be a multiple of the block.
constexpr std::size_t row_bytes(DataType type, std::size_t elements) {
  return elements / info(type).elements_per_block * info(type).bytes_per_block;
}

}  // namespace dovetail::load
