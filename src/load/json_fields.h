#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_value.h"
#include "base/result.h"

namespace dovetail::load {

inline constexpr std::size_t kLargestConfig = std::size_t{16} << 20U;
inline constexpr std::size_t kLargestTokenizer = std::size_t{256} << 20U;

// Parses a JSON object of at most `most_bytes` bytes, 64 levels deep. A key that comes twice within
// the outermost object is an error. `file` names the text in errors.
Result<nlohmann::json> parse_json_object(std::string_view text, std::string_view file,
                                         std::size_t most_bytes);

// The same for an array.
Result<nlohmann::json> parse_json_array(std::string_view text, std::string_view file,
                                        std::size_t most_bytes);

// A text of JSON in which Python's Infinity, -Infinity and NaN, which are no JSON and which its
// json module writes all the same, are strings.
std::string with_python_words(std::string_view text);

// What a value is, for messages: "'silu'", "12", "an array", ...
std::string text_of(const nlohmann::json& value);

// Typed access to the members of a JSON object. The first failure sticks and every failed access
// yields zero or nothing, so that a caller reads all it needs and asks status() once before it uses
// any of it. A null member counts as absent.
class JsonFields {
 public:
  // `object` must be an object and outlive this. `prefix` goes before field names in errors.
  JsonFields(const nlohmann::json& object, std::string file, std::string prefix = {})
      : object_(object), file_(std::move(file)), prefix_(std::move(prefix)) {}

  // nullptr where absent or null.
  const nlohmann::json* find(std::string_view key) const;
  bool has(std::string_view key) const { return find(key) != nullptr; }
  bool is_null(std::string_view key) const;

  std::uint32_t required_count(std::string_view key, std::uint32_t low, std::uint32_t high);
  std::optional<std::uint32_t> optional_count(std::string_view key, std::uint32_t low,
                                              std::uint32_t high);
  std::optional<std::int32_t> optional_int(std::string_view key, std::int32_t low,
                                           std::int32_t high);
  // Any finite number within [low, high].
  std::optional<float> optional_float(std::string_view key, float low, float high);
  std::optional<bool> optional_bool(std::string_view key);
  std::optional<std::string> optional_string(std::string_view key);
  // One integer or a list of them.
  std::vector<std::int32_t> optional_ids(std::string_view key, std::uint32_t below);

  // Records a failure of this key unless there was one before.
  void reject(std::string_view key, std::string_view value, std::string_view valid,
              ErrorKind kind = ErrorKind::kInvalid);
  // Records a failure that another reader met.
  void take_failure(const Status& status);

  Status status() const;

 private:
  template <class T>
  std::optional<T> kept(std::string_view key, const nlohmann::json& value, Wanted<T> wanted);

  const nlohmann::json& object_;
  std::string file_;
  std::string prefix_;
  std::optional<Error> error_;
};

}  // namespace dovetail::load
