#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/jinja_value.h"

namespace dovetail::text::jinja {

// Python's format.format(...): {}, {0}, {name} with format specs of the types s, d, e, f, g and %;
// no attributes. Untrusted as a whole where the format has untrusted bytes, else the values in it
// as they are marked.
MarkedText format_braces(const MarkedText& format, const Arguments& arguments);

struct JsonStyle {
  bool ensure_ascii = false;
  std::optional<std::string> indent;  // of one level
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
};

// Python's json.dumps(value), without marks.
std::string to_json(const Value& value, const JsonStyle& style, Budget& budget);

}  // namespace dovetail::text::jinja
