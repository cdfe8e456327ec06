#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace dovetail::pipeline {

// A reader of one JSON value that mends what it can and keeps a list of what it mended. An empty
// list means that the text was JSON as RFC 8259 has it.
class LenientJson {
 public:
  static constexpr int kDeepest = 64;

  // `text` must be valid UTF-8. Reading starts at `at`.
  LenientJson(std::string_view text, std::size_t at) : text_(text), at_(at) {}

  // Nothing where there is no value that could be made sense of: see error() and position().
  std::optional<nlohmann::ordered_json> read();

  std::size_t position() const { return at_; }  // behind the value
  const std::string& error() const { return error_; }
  const std::vector<std::string>& repairs() const { return repairs_; }

  // Skips white space and comments, for what comes behind the value.
  void skip_space();

 private:
  bool end() const { return at_ >= text_.size(); }
  char peek() const { return text_[at_]; }
  bool starts(std::string_view what) const { return text_.substr(at_).starts_with(what); }
  bool fail_with(std::string message);
  void repaired(std::string_view what);

  bool read_value(Json& out, int depth);
  bool read_object(Json& out, int depth);
  bool read_array(Json& out, int depth);
  bool read_key(std::string& key);
  bool read_separator(bool& closed);
  void close();
  bool read_string(std::string& out, std::string_view closing, bool is_key);
  void read_escape(std::string& out);
  bool read_unicode(std::string& out);
  bool read_number(Json& out);
  bool read_word(Json& out);
  bool ends_string(std::string_view closing, bool is_key) const;

  std::string_view text_;
  std::size_t at_;
  std::string error_;
  std::string open_;  // the closing brackets that are due, the innermost last
  std::vector<std::string> repairs_;
};

}  // namespace dovetail::pipeline
