#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/config/document.h"

namespace dovetail::pipeline {

// Reads the fields of one object of a document. The first thing that is wrong is kept, with its
// place, and everything after it reads as absent, so that a reader is straight-line code which ends
// with finish().
class Fields {
 public:
  // `value` is at `pointer`; an error if it is no object.
  Fields(const Document& document, const Json& value, std::string pointer);

  // Absent (or null) fields are nothing. Text: a string; numbers within the bounds.
  std::optional<std::string> text(std::string_view key);
  std::optional<bool> flag(std::string_view key);
  std::optional<std::int64_t> integer(std::string_view key, std::int64_t least, std::int64_t most);
  std::optional<double> real(std::string_view key, double least, double most);
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
    if (!error_) is_missing_ = key.empty() || !has(key);
    note(key.empty() ? pointer_ : at(key), fmt::format(format, std::forward<Args>(args)...));
  }
  // An error that already says where.
  void wrong(Error error);
  bool ok() const { return !error_; }

  // Also wrong: keys that nobody has asked for. One that is spelled nearly like a known key is told
  // first where something is missing.
  Status finish();

 private:
  const Json* find(std::string_view key);
  void note(const std::string& pointer, std::string message);

  const Document& document_;
  const Json* object_ = nullptr;
  std::string pointer_;
  std::vector<std::string> known_;
  std::optional<Error> error_;
  bool is_missing_ = false;  // the error is of what is not there
};

// A value as an error message shows it: JSON, cut to a line's worth.
std::string shown(const Json& value);

}  // namespace dovetail::pipeline
