#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "pipeline/sample/mistakes.h"

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

// Typed access to the members of a JSON object that describes something. Every failed access is
// kept, one for each member, and yields zero or nothing: a caller reads all it knows, looks at what
// members ask of each other only where none has failed(), and asks finish() once, which also
// refuses unknown members. A null member counts as absent.
class SpecFields {
 public:
  // Where `object` is no object, that is the only failure. It must outlive this.
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
  // Keeps what another reader met inside the member: one error, or a status of Mistakes.
  void take(std::string_view key, const Error& failure);
  void take(std::string_view key, const Status& several);

  bool failed() const { return !failures_.empty(); }
  bool failed(std::string_view key) const;
  std::string pointer(std::string_view key) const { return pointer_to(pointer_, key); }
  // All failures: see Mistakes::status(). A member that is spelled nearly like a known one is told
  // in place of the one that is missing.
  Status finish();

 private:
  struct Failure {
    std::string key;
    Mistakes what;
    bool missing = false;
  };
  // Of a member that has not failed yet; nothing to be found in what is no object.
  void note(std::string_view key, const Error& error, bool missing = false);

  const nlohmann::ordered_json& object_;
  std::string pointer_;
  std::vector<std::string> known_;
  std::vector<Failure> failures_;
};

}  // namespace dovetail::pipeline
