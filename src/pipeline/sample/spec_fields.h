#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace dovetail::pipeline {

// `pointer` with one more step (RFC 6901: '~' and '/' in the key are escaped).
std::string pointer_to(std::string_view pointer, std::string_view key);
std::string pointer_to(std::string_view pointer, std::size_t index);

// What a value is, for messages: JSON, cut after 60 bytes.
std::string text_of(const nlohmann::ordered_json& value);

// "POINTER: VALUE; valid: VALID".
[[nodiscard]] tl::unexpected<Error> invalid_field(std::string_view pointer,
                                                  const nlohmann::ordered_json& value,
                                                  std::string_view valid);

// Typed access to the members of a JSON object that describes something. The first failure sticks,
// and every failed access yields zero or nothing: a caller reads all it knows and asks finish()
// once, which also refuses the members that nobody asked for. A null member counts as absent.
class SpecFields {
 public:
  // Where `object` is no object, every access fails with an error that says so. It must outlive
  // this.
  SpecFields(const nlohmann::ordered_json& object, std::string pointer);

  const nlohmann::ordered_json* find(std::string_view key);
  // nullptr, and a failure, where absent.
  const nlohmann::ordered_json* require(std::string_view key, std::string_view valid);

  // Numbers are finite. Bounds are inclusive.
  double number(std::string_view key, double low, double high);
  std::optional<double> optional_number(std::string_view key, double low, double high);
  std::int64_t integer(std::string_view key, std::int64_t low, std::int64_t high);
  std::optional<std::int64_t> optional_integer(std::string_view key, std::int64_t low,
                                               std::int64_t high);
  bool boolean(std::string_view key, bool otherwise);
  std::string string(std::string_view key);
  std::optional<std::string> optional_string(std::string_view key);
  std::vector<std::string> optional_strings(std::string_view key);
  // The index of the name that the member holds.
  std::size_t choice(std::string_view key, std::span<const std::string_view> names);
  std::optional<std::size_t> optional_choice(std::string_view key,
                                             std::span<const std::string_view> names);

  void reject(std::string_view key, std::string_view valid);
  // Records a failure that another reader met.
  void take_failure(Error error);

  bool failed() const { return failure_.has_value(); }
  std::string pointer(std::string_view key) const { return pointer_to(pointer_, key); }
  Status finish();

 private:
  const nlohmann::ordered_json& object_;
  std::string pointer_;
  std::vector<std::string> known_;
  std::optional<Error> failure_;
};

}  // namespace dovetail::pipeline
