#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/json_value.h"
#include "base/result.h"
#include "pipeline/sample/mistakes.h"

namespace dovetail::pipeline {

// `pointer` with one more step (RFC 6901: '~' and '/' in the key are escaped).
std::string pointer_to(std::string_view pointer, std::string_view key);
std::string pointer_to(std::string_view pointer, std::size_t index);

// A value as an error message shows it: JSON, cut to a line's worth.
std::string shown(const Json& value);

// "POINTER: VALUE; valid: VALID".
[[nodiscard]] tl::unexpected<Error> invalid_field(std::string_view pointer, const Json& value,
                                                  std::string_view valid);

// Says where in a file a value is.
class Places {
 public:
  // What goes before an error's message about the value at a JSON pointer, the pointer included.
  virtual std::string where(std::string_view pointer) const = 0;

 protected:
  ~Places() = default;
};

// Reads the members of a JSON object that describes something. What is wrong is kept, with its
// place, and reads as absent, so that a reader is straight-line code which ends with finish(); it
// looks at what members ask of each other only where it is ok(). A null member counts as absent. An
// object that is none is the only mistake.
class Fields {
 public:
  // Errors begin with `pointer`, that of the object.
  Fields(const Json& object, std::string pointer);
  // Errors begin with a place. All must outlive this.
  Fields(const Places& places, const Json& object, std::string pointer);

  const Json* find(std::string_view key);
  bool has(std::string_view key) const;

  // Members as base/json_value.h has them; nothing where absent.
  std::optional<std::int64_t> integer(std::string_view key, std::int64_t least, std::int64_t most);
  std::optional<double> number(std::string_view key, const NumberRange& range);
  // As it is written; judged as the float that will be used.
  std::optional<double> number_of_float(std::string_view key, const NumberRange& range);
  std::optional<bool> flag(std::string_view key);
  std::optional<std::string> text(std::string_view key);
  // A text, or a list of texts.
  std::optional<std::vector<std::string>> texts(std::string_view key);
  // A list of at least one text, none of them empty; empty where absent.
  std::vector<std::string> list(std::string_view key);
  // One of `names`, as its index.
  std::optional<std::size_t> choice(std::string_view key, std::span<const std::string_view> names);
  std::optional<std::size_t> choice(std::string_view key, const std::vector<std::string>& names);
  const Json* array(std::string_view key);
  const Json* object(std::string_view key);

  // The same, and wrong where absent: then nullptr, zero or empty. `valid`: what should be there.
  const Json* require(std::string_view key, std::string_view valid);
  std::int64_t required_integer(std::string_view key, std::int64_t least, std::int64_t most);
  double required_number(std::string_view key, const NumberRange& range);
  std::size_t required_choice(std::string_view key, std::span<const std::string_view> names);
  // Also wrong where empty.
  std::string required_text(std::string_view key,
                            std::string_view valid = "a string that is not empty");

  const std::string& pointer() const { return pointer_; }
  std::string at(std::string_view key) const { return pointer_to(pointer_, key); }

  // Keeps that a member is not what would be valid, unless it is known to be wrong.
  void reject(std::string_view key, std::string_view valid);
  // Keeps that something is wrong with a member, or with the object where `key` is empty.
  template <class... Args>
  void wrong(std::string_view key, fmt::format_string<Args...> format, Args&&... args) {
    note(key, where(key.empty() ? pointer_ : at(key)) +
                  fmt::format(format, std::forward<Args>(args)...));
  }
  // An error that already says where.
  void wrong(const Error& error);
  // What finish() said of the fields of a value inside.
  void take(const Status& inside);
  // What another reader met inside the member, unless that is known to be wrong: one error, or a
  // status of Mistakes.
  void take(std::string_view key, const Error& failure);
  void take(std::string_view key, const Status& several);

  bool ok() const { return notes_.empty(); }
  bool failed(std::string_view key) const;

  // All that is wrong: see Mistakes::status(). Also wrong: keys that were not asked for. One that
  // is spelled nearly like a known key is told in place of a known one that is missing. Where not
  // `all_are_known`, only such ones are wrong. May be called again, and says the same.
  Status finish(bool all_are_known = true);

 private:
  struct Note {
    std::string key;
    bool missing = false;  // the mistake is that the key is not there
    Mistakes what;
  };

  std::string where(std::string_view pointer) const;
  void note(std::string_view key, std::string message);
  void look_for_unknown(bool all_are_known);
  template <class T>
  std::optional<T> kept(std::string_view key, const Json& value, Wanted<T> wanted);

  const Places* places_ = nullptr;
  const Json& object_;
  std::string pointer_;
  std::vector<std::string> known_;
  std::vector<Note> notes_;
  bool finished_ = false;
};

}  // namespace dovetail::pipeline
