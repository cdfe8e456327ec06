#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/config/document.h"
#include "pipeline/sample/mistakes.h"

namespace dovetail::pipeline {

// Reads the fields of one object of a document. What is wrong is kept, with its place, and reads as
// absent, so that a reader is straight-line code which ends with finish(). An object that is none
// is the only mistake.
class Fields {
 public:
  // `value` is at `pointer`; an error if it is no object.
  Fields(const Document& document, const Json& value, std::string pointer);

  // Absent (or null) fields are nothing. Text: a string; numbers within the bounds.
  std::optional<std::string> text(std::string_view key);
  std::optional<bool> flag(std::string_view key);
  std::optional<std::int64_t> integer(std::string_view key, std::int64_t least, std::int64_t most);
  std::optional<double> real(std::string_view key, double least, double most,
                             bool least_excluded = false);
  std::optional<std::vector<std::string>> texts(std::string_view key);
  // One of `names`, as its index.
  std::optional<std::size_t> choice(std::string_view key, const std::vector<std::string>& names);
  const Json* array(std::string_view key);
  const Json* object(std::string_view key);
  const Json* any(std::string_view key);

  // As text(), and wrong where it is absent or empty.
  std::string required_text(std::string_view key);

  bool has(std::string_view key) const;
  const std::string& pointer() const { return pointer_; }
  std::string at(std::string_view key) const { return pointer_to(pointer_, key); }

  // Notes that something is wrong with a field, or with the object where `key` is empty.
  template <class... Args>
  void wrong(std::string_view key, fmt::format_string<Args...> format, Args&&... args) {
    const bool missing = key.empty() || !has(key);
    note(key.empty() ? pointer_ : at(key), fmt::format(format, std::forward<Args>(args)...),
         missing ? std::optional<std::string>(key) : std::nullopt);
  }
  // An error that already says where.
  void wrong(const Error& error);
  // What finish() said of the fields of a value inside.
  void take(const Status& inside);
  bool ok() const { return notes_.empty(); }

  // All that is wrong: see Mistakes::status(). Also wrong: keys that were not asked for. One that
  // is spelled nearly like a known key is told in place of a known one that is missing. Where not
  // `all_are_known`, only such ones are wrong. May be called again, and says the same.
  Status finish(bool all_are_known = true);

 private:
  const Json* find(std::string_view key);
  // `missing`: the key that is not there, where the mistake is that.
  void note(const std::string& pointer, std::string message,
            std::optional<std::string> missing = std::nullopt);
  void look_for_unknown(bool all_are_known);

  struct Note {
    Status what;
    std::optional<std::string> missing;
  };

  const Document& document_;
  const Json* object_ = nullptr;
  std::string pointer_;
  std::vector<std::string> known_;
  std::vector<Note> notes_;
  bool finished_ = false;
};

// A value as an error message shows it: JSON, cut to a line's worth.
std::string shown(const Json& value);

}  // namespace dovetail::pipeline
