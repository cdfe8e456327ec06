#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "kernels/data_type.h"

namespace dovetail::load {

// The container of GGUF files, versions 2 and 3, as the specification has it:
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md

// Types of metadata values, numbered as in the file.
enum class GgufType : std::uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

std::string_view name_of(GgufType type);

// Bytes of a value of fixed size; 0 for strings and arrays.
std::size_t size_of(GgufType type);

// A metadata value, still in the file. Everything inside `bytes` was walked and found to lie within
// the file; what the values say was not looked at.
struct GgufValue {
  GgufType type = GgufType::kUint8;
  GgufType element_type = GgufType::kUint8;  // arrays
  std::uint64_t count = 0;                   // arrays: elements
  std::span<const std::byte> bytes;  // the number, the string's characters, or the array's elements
};

struct GgufTensor {
  std::string_view name;
  std::optional<kernels::DataType> type;  // nothing: I32, which no weight may have
  std::string_view stored_type;
  std::vector<std::uint64_t> shape;  // outermost first, one to four dimensions of at least 1
  std::span<const std::byte> data;
};

// Views into the bytes that were parsed; valid as long as these are.
struct GgufFile {
  std::uint32_t version = 0;
  std::unordered_map<std::string_view, GgufValue> metadata;
  std::vector<GgufTensor> tensors;  // in the file's order; names are unique, data do not overlap
};

// Checks the whole structure: lengths, types, alignment, that every tensor lies within the file and
// no two overlap. `file` names the source in errors. Memory used is bounded by a small multiple of
// `bytes`, whatever counts the file claims.
Result<GgufFile> parse_gguf(std::span<const std::byte> bytes, std::string_view file);

}  // namespace dovetail::load
