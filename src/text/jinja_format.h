#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/jinja_value.h"

namespace dovetail::text::jinja {

// Python's `format % values`: a tuple gives the values in order, a dict those by name, anything
// else is the one value.
std::string format_percent(std::string_view format, const Value& values);

// Python's format.format(...): {}, {0}, {name} with !s, !r and format specs; no attributes.
std::string format_braces(std::string_view format, const Arguments& arguments);

struct JsonStyle {
  bool ensure_ascii = false;
  std::optional<std::string> indent;  // of one level
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
};

// Python's json.dumps(value).
std::string to_json(const Value& value, const JsonStyle& style, Budget& budget);

}  // namespace dovetail::text::jinja
