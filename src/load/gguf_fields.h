#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "load/gguf.h"

namespace dovetail::load {

// Typed access to metadata. The first failure sticks and every failed access yields zero or
// nothing, so that a caller reads all it needs and asks status() once before it uses any of it.
class GgufFields {
 public:
  // `gguf` must outlive the object.
  GgufFields(const GgufFile& gguf, std::string file) : gguf_(gguf), file_(std::move(file)) {}

  bool has(std::string_view key) const { return gguf_.metadata.contains(key); }
  bool is_array(std::string_view key) const {
    const auto found = gguf_.metadata.find(key);
    return found != gguf_.metadata.end() && found->second.type == GgufType::kArray;
  }

  // Any integer type is taken; a value outside [low, high] is an error.
  std::uint32_t required_count(std::string_view key, std::uint32_t low, std::uint32_t high);
  std::optional<std::uint32_t> optional_count(std::string_view key, std::uint32_t low,
                                              std::uint32_t high);
  // Any integer type; within [low, high].
  std::optional<std::int32_t> optional_int(std::string_view key, std::int32_t low,
                                           std::int32_t high);
  // As required_count, and an array (one number per layer) whose elements are all the same.
  std::optional<std::uint32_t> optional_uniform_count(std::string_view key, std::uint32_t low,
                                                      std::uint32_t high);
  // Finite and within [low, high].
  std::optional<float> optional_float(std::string_view key, float low, float high);
  std::optional<bool> optional_bool(std::string_view key);
  // Views into the file.
  std::optional<std::string_view> optional_string(std::string_view key);

  // Arrays; empty where the key is absent.
  std::vector<std::string> strings(std::string_view key);
  std::vector<float> floats(std::string_view key);
  std::vector<std::int32_t> int32s(std::string_view key);
  std::string bytes(std::string_view key);  // of int8 or uint8
  // The first `most` elements: integers of any type, up to `high`.
  std::vector<std::uint32_t> counts(std::string_view key, std::size_t most, std::uint32_t high);
  // Elements are bools, or whole numbers that are 0 or 1.
  std::vector<bool> bools(std::string_view key);

  // Records a failure of this key unless there was one before.
  void reject(std::string_view key, std::string_view value, std::string_view valid,
              ErrorKind kind = ErrorKind::kInvalid);

  Status status() const;

 private:
  const GgufValue* find(std::string_view key) const;
  const GgufValue* find_array(std::string_view key, GgufType element, std::string_view valid);
  // Nothing, and a failure, where the value is not an integer within the range.
  std::optional<std::uint32_t> count_of(std::string_view key, GgufType type,
                                        std::span<const std::byte> bytes, std::uint32_t low,
                                        std::uint32_t high);

  const GgufFile& gguf_;
  std::string file_;
  std::optional<Error> error_;
};

}  // namespace dovetail::load
