#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dovetail::kernels {

// The types that weights are stored in: an entry for each file of types/, which says all there is
// to know of it. Readers' tables, products, messages and docs derive from these lists: GGUF's
// types, and those that quantised safetensors become as they are loaded.
// clang-format off
#define DOVETAIL_GGUF_TYPES(X)                                        \
  X(F32) X(F16) X(BF16)                                               \
  X(Q4_0) X(Q4_1) X(Q5_0) X(Q5_1) X(Q8_0)                             \
  X(Q2_K) X(Q3_K) X(Q4_K) X(Q5_K) X(Q6_K)                             \
  X(IQ1_S) X(IQ1_M) X(IQ2_XXS) X(IQ2_XS) X(IQ2_S) X(IQ3_XXS) X(IQ3_S) \
  X(IQ4_NL) X(IQ4_XS) X(TQ1_0) X(TQ2_0) X(MXFP4) X(NVFP4)
#define DOVETAIL_WEIGHT_TYPES(X) \
  DOVETAIL_GGUF_TYPES(X) X(INT4_32) X(INT4_128) X(INT8) X(FP8_E4M3)
// clang-format on

#define DOVETAIL_ENUMERATOR(name) k##name,
enum class DataType : std::uint8_t { DOVETAIL_WEIGHT_TYPES(DOVETAIL_ENUMERATOR) };
#undef DOVETAIL_ENUMERATOR

#define DOVETAIL_ONE(name) +1  // NOLINT(bugprone-macro-parentheses)
inline constexpr std::size_t kDataTypes = 0 DOVETAIL_WEIGHT_TYPES(DOVETAIL_ONE);
#undef DOVETAIL_ONE

// How the elements of a tensor are stored. Block types hold their elements along the innermost
// dimension in blocks of `elements_per_block`; layouts are those of the GGUF specification
// (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md and ggml-common.h).
struct DataTypeInfo {
  std::string_view name;           // as GGUF spells it: "F32", "Q4_K", ...
  std::uint32_t gguf;              // GGUF's number of it; of no meaning for others
  std::size_t elements_per_block;  // 1 for plain types
  std::size_t bytes_per_block;
};

DataTypeInfo info(DataType type);

// The type with this GGUF number, or nothing.
std::optional<DataType> gguf_type(std::uint32_t number);

// The names of GGUF's types, for messages: "F32, F16, ... and NVFP4".
std::string gguf_type_names();

// Whether elements are stored one by one, as floats; else in blocks.
bool is_plain(DataType type);

// Whether products take the elements as floats; else as whole numbers with scales.
bool is_float(DataType type);

// Bytes of one row of `elements` elements; `elements` must be a multiple of the block.
std::size_t row_bytes(DataType type, std::size_t elements);

// The element of a plain type at `at`, any address, as a float.
float read_element(DataType type, const std::byte* at);

}  // namespace dovetail::kernels
