// Filters of single values: texts, numbers, JSON.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "text/jinja_builtins.h"
#include "text/jinja_format.h"
#include "text/jinja_unicode.h"

namespace dovetail::text::jinja {
namespace {

Value trim(Context&, const Value& input, Arguments& arguments) {
  const Bound bound(arguments, "trim", {"chars"});
  const MarkedText text = to_text(input);
  const bool white_space = bound[0] == nullptr || bound[0]->is_none();
  const std::string characters = white_space ? "" : bound.string(0, "");
  if (!white_space && characters.empty()) return Value::of(text);
  return Value::of(text.part(strip(text.text, characters, Side::kBoth)));
}

Value replace(Context& context, const Value& input, Arguments& arguments) {
  const Bound bound(arguments, "replace", {"old", "new", "count"}, 2);
  const MarkedText marked = to_text(input);
  const std::string& text = marked.text;
  const std::string from = to_text(*bound[0]).text;
  const MarkedText to = to_text(*bound[1]);
  const bool all = bound[2] == nullptr || bound[2]->is_none() || bound.integer(2, 0) < 0;
  int64_t left = all ? INT64_MAX : bound.integer(2, 0);
  MarkedText out;
  if (from.empty()) raise("replace: expected a text to replace, found an empty one");
  context.budget.charge_search(text.size(), from.size());
  size_t done = 0;
  for (; left > 0; --left) {
    const size_t at = text.find(from, done);
    if (at == std::string::npos) break;
    out.append(marked, done, at - done);
    out.append(to);
    check_size(out.text.size());
    done = at + from.size();
  }
  out.append(marked, done, text.size() - done);
  return Value::of(std::move(out));
}

// Words start behind white space, a dash or an opening bracket.
Value title(Context& context, const Value& input, Arguments&) {
  const std::string text = to_text(input).text;
  context.budget.charge(text.size() / 8);
  std::string out;
  size_t start = 0;
  const auto flush = [&](size_t end) {
    const std::string_view word = std::string_view(text).substr(start, end - start);
    if (word.empty()) return;
    const size_t first = decode(word, 0).size;
    out += to_upper(word.substr(0, first)) + to_lower(word.substr(first));
  };
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = decode(text, at);
    const bool separates =
        is_space(point.value) ||
        (point.value < 0x80 &&
         std::string_view("-({[<").find(static_cast<char>(point.value)) != std::string_view::npos);
    if (separates) {
      flush(at);
      out.append(text, at, point.size);
      start = at + point.size;
    }
    at += point.size;
  }
  flush(text.size());
  return Value::of(std::move(out));
}

Value default_value(Context&, const Value& input, Arguments& arguments) {
  const Bound bound(arguments, "default", {"default_value", "boolean"});
  if (!input.is_undefined() && (!bound.flag(1, false) || truthy(input))) return input;
  return bound[0] == nullptr ? Value::of("") : *bound[0];
}

// Python's int(text), or nothing.
std::optional<int64_t> parse_integer(std::string_view text) {
  text = strip(text, "", Side::kBoth);
  const std::string shown(text.substr(0, 40));
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  if (read.ptr != end) return std::nullopt;
  if (read.ec == std::errc::result_out_of_range) {
    raise("integer {}{} is beyond 64 bits", shown, text.size() > shown.size() ? "..." : "");
  }
  return read.ec == std::errc() ? std::optional(value) : std::nullopt;
}

// Python's float(text), or nothing.
std::optional<double> parse_real(std::string_view text) {
  text = strip(text, "", Side::kBoth);
  if (text.find_first_of("xXpP") != std::string_view::npos || text.empty()) return std::nullopt;
  const std::string plain(text);
  char* end = nullptr;
  const double value = std::strtod(plain.c_str(), &end);
  if (end != plain.c_str() + plain.size()) return std::nullopt;
  return value;
}

Value to_integer(Context&, const Value& input, Arguments& arguments) {
  const Bound bound(arguments, "int", {"default"});
  const Value otherwise = bound[0] == nullptr ? Value::of(int64_t{0}) : *bound[0];
  std::optional<double> real;
  if (const std::string* text = input.string()) {
    if (const auto number = parse_integer(*text)) return Value::of(*number);
    real = parse_real(*text);
  } else if (const auto number = input.integer()) {
    return Value::of(*number);
  } else {
    real = input.number();
  }
  if (!real || std::isnan(*real) || std::isinf(*real)) return otherwise;
  if (std::fabs(*real) >= 9.2e18) raise("int: {} is beyond 64 bits", float_text(*real));
  return Value::of(static_cast<int64_t>(*real));
}

Value to_real(Context&, const Value& input, Arguments& arguments) {
  const Bound bound(arguments, "float", {"default"});
  const Value otherwise = bound[0] == nullptr ? Value::of(0.0) : *bound[0];
  const auto number = input.string() != nullptr ? parse_real(*input.string()) : input.number();
  return number ? Value::of(*number) : otherwise;
}

Value round(Context&, const Value& input, Arguments& arguments) {
  const Bound bound(arguments, "round", {"precision"});
  const int64_t precision = bound.integer(0, 0);
  if (precision < 0 || precision > 300) raise("round: precision {}: expected 0 to 300", precision);
  const auto number = input.number();
  if (!number) raise("round: expected a number, found '{}'", type_name(input));
  if (input.integer()) return Value::of(*input.integer());
  if (!std::isfinite(*number)) return input;
  // Printing rounds the exact binary value, half to even, as Python does.
  return Value::of(std::strtod(fmt::format("{:.{}f}", *number, precision).c_str(), nullptr));
}

Value absolute(Context&, const Value& input, Arguments&) {
  if (const auto number = input.integer()) {
    return *number < 0 ? negate(Value::of(*number)) : Value::of(*number);
  }
  if (const double* real = input.real()) return Value::of(std::fabs(*real));
  raise("bad operand type for abs(): '{}'", type_name(input));
}

Value escape(Context&, const Value& input, Arguments&) {
  std::string out;
  for (const char c : to_text(input).text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  }
  return Value::of(std::move(out));
}

Value indent(Context&, const Value& input, Arguments& arguments) {
  const Bound bound(arguments, "indent", {"width", "first"});
  const int64_t width = bound.integer(0, 4);
  if (width > 10'000) raise("indent: width {}: expected at most 10000", width);
  const std::string indentation(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
  const std::string text = to_text(input).text + "\n";
  std::string out;
  bool first = true;
  for (const std::string_view line : split_lines(text)) {
    if (!first) out += '\n';
    if (first ? bound.flag(1, false) : !line.empty()) out += indentation;
    first = false;
    out += line;
    check_size(out.size());
  }
  return Value::of(std::move(out));
}

Value truncate(Context&, const Value& input, Arguments& arguments) {
  const Bound bound(arguments, "truncate", {"length", "killwords", "end", "leeway"});
  const std::string text = to_text(input).text;
  const std::string end = bound.string(2, "...");
  const int64_t most = bound.integer(0, 255);
  const int64_t leeway = bound[3] == nullptr || bound[3]->is_none() ? 5 : bound.integer(3, 5);
  const auto end_length = static_cast<int64_t>(length(end));
  if (most < end_length) raise("truncate: expected length >= {}, got {}", end_length, most);
  if (leeway < 0) raise("truncate: expected leeway >= 0, got {}", leeway);
  const std::vector<uint32_t> starts = offsets(text);
  const auto size = static_cast<int64_t>(starts.size()) - 1;
  if (size <= most || size - most <= leeway) return Value::of(text);
  std::string kept = text.substr(0, starts[static_cast<size_t>(most - end_length)]);
  if (!bound.flag(1, false)) {
    if (const size_t space = kept.rfind(' '); space != std::string::npos) kept.resize(space);
  }
  return Value::of(kept + end);
}

Value tojson(Context& context, const Value& input, Arguments& arguments) {
  const Bound bound(arguments, "tojson", {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = bound.flag(0, false);
  style.sort_keys = bound.flag(3, false);
  if (bound[1] != nullptr && !bound[1]->is_none()) {
    if (const std::string* text = bound[1]->string()) {
      style.indent = *text;
    } else {
      const int64_t width = bound.integer(1, 0);
      if (width > 1000) raise("tojson: indent {}: expected at most 1000", width);
      style.indent = std::string(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
    }
    style.item_separator = ",";
  }
  if (bound[2] != nullptr && !bound[2]->is_none()) {
    const Items parts = iterate(*bound[2], context.budget);
    if (parts.size() != 2 || parts[0].string() == nullptr || parts[1].string() == nullptr) {
      raise("tojson: separators: expected two strings");
    }
    style.item_separator = *parts[0].string();
    style.key_separator = *parts[1].string();
  }
  return Value::of(to_json(input, style, context.budget));
}

constexpr auto kFilters = std::to_array<NamedFilter>({
    {"abs", absolute},
    {"capitalize", [](Context& c, const Value& v,
                      Arguments&) { return to_case(c, to_text(v).text, to_capitalized); }},
    {"default", default_value, Marks::kKept},
    {"escape", escape},
    {"float", to_real},
    {"indent", indent},
    {"int", to_integer},
    {"length", [](Context&, const Value& v, Arguments&) { return Value::of(length_of(v)); }},
    {"lower",
     [](Context& c, const Value& v, Arguments&) { return to_case(c, to_text(v).text, to_lower); }},
    {"replace", replace, Marks::kKept},
    {"round", round},
    {"safe", [](Context&, const Value& v, Arguments&) { return Value::of(to_text(v)); },
     Marks::kKept},
    {"string", [](Context&, const Value& v, Arguments&) { return Value::of(to_text(v)); },
     Marks::kKept},
    {"title", title},
    {"tojson", tojson},
    {"trim", trim, Marks::kKept},
    {"truncate", truncate},
    {"upper",
     [](Context& c, const Value& v, Arguments&) { return to_case(c, to_text(v).text, to_upper); }},
});

const NamedFilter* find_in(std::span<const NamedFilter> filters, std::string_view name) {
  const auto found = std::lower_bound(
      filters.begin(), filters.end(), name,
      [](const NamedFilter& entry, std::string_view wanted) { return entry.name < wanted; });
  return found != filters.end() && found->name == name ? &*found : nullptr;
}

}  // namespace

std::span<const NamedFilter> scalar_filters() { return kFilters; }

const NamedFilter* find_filter(std::string_view name) {
  if (const NamedFilter* filter = find_in(scalar_filters(), name)) return filter;
  return find_in(sequence_filters(), name);
}

}  // namespace dovetail::text::jinja
