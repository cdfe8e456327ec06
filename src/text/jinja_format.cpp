#include "text/jinja_format.h"

#include <algorithm>
#include <cmath>

#include "text/jinja_unicode.h"

namespace dovetail::text::jinja {
namespace {

// Widest field and most digits of a number.
constexpr size_t kMaxWidth = 10'000;
constexpr int kMaxPrecision = 400;

struct Spec {
  std::string_view fill = " ";  // one code point
  char align = '\0';            // < > ^ =
  char sign = '-';
  char grouping = '\0';
  size_t width = 0;
  int precision = -1;
  char type = '\0';
};

std::string pad(std::string_view text, const Spec& spec, char otherwise, size_t sign_bytes = 0) {
  const size_t size = length(text);
  if (size >= spec.width) return std::string(text);
  const size_t missing = spec.width - size;
  const auto filling = [&](size_t count) {
    std::string out;
    for (size_t i = 0; i < count; ++i) out += spec.fill;
    return out;
  };
  switch (spec.align == '\0' ? otherwise : spec.align) {
    case '<':
      return std::string(text) + filling(missing);
    case '^':
      return filling(missing / 2) + std::string(text) + filling(missing - missing / 2);
    case '=':
      return std::string(text.substr(0, sign_bytes)) + filling(missing) +
             std::string(text.substr(sign_bytes));
    default:
      return filling(missing) + std::string(text);
  }
}

std::string grouped(std::string_view digits, char separator) {
  const size_t point = std::min(digits.find_first_of(".e"), digits.size());
  std::string out;
  for (size_t at = 0; at < digits.size(); ++at) {
    if (at > 0 && at < point && (point - at) % 3 == 0) out += separator;
    out += digits[at];
  }
  return out;
}

std::string real_digits(double value, const Spec& spec) {
  const double magnitude = std::fabs(value);
  if (!std::isfinite(value)) return fmt::format("{}", magnitude);
  if (spec.type == '\0') {
    if (spec.precision >= 0) raise("a precision of a number asks for a type: e, f, g or %");
    return float_text(magnitude);
  }
  const int precision = spec.precision < 0 ? 6 : spec.precision;
  switch (spec.type) {
    case '%':
      return fmt::format("{:.{}f}%", magnitude * 100, precision);
    case 'f':
      return fmt::format("{:.{}f}", magnitude, precision);
    case 'e':
      return fmt::format("{:.{}e}", magnitude, precision);
    default:
      return fmt::format("{:.{}g}", magnitude, precision);
  }
}

std::string signed_number(bool negative, std::string digits, const Spec& spec) {
  if (spec.grouping != '\0') digits = grouped(digits, spec.grouping);
  std::string sign;
  if (negative || spec.sign != '-') sign += negative ? '-' : spec.sign;
  return pad(sign + digits, spec, '>', sign.size());
}

std::string format_integer(int64_t value, const Spec& spec) {
  const uint64_t magnitude =
      value < 0 ? ~static_cast<uint64_t>(value) + 1 : static_cast<uint64_t>(value);
  return signed_number(value < 0, std::to_string(magnitude), spec);
}

std::string format_real(double value, const Spec& spec) {
  return signed_number(std::signbit(value) && !std::isnan(value), real_digits(value, spec), spec);
}

std::string format_string(std::string_view text, const Spec& spec) {
  if (spec.precision >= 0) {
    const std::vector<uint32_t> starts = offsets(text);
    text = text.substr(0, starts[std::min(starts.size() - 1, static_cast<size_t>(spec.precision))]);
  }
  return pad(text, spec, '<');
}

size_t read_number(std::string_view text, size_t& at, size_t most, std::string_view what) {
  size_t number = 0;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
    number = number * 10 + static_cast<size_t>(text[at++] - '0');
    if (number > most) raise("{} {} in a format: expected at most {}", what, number, most);
  }
  return number;
}

Spec parse_spec(std::string_view text) {
  Spec spec;
  size_t at = 0;
  const auto is_align = [&](size_t where) {
    return where < text.size() && std::string_view("<>^=").find(text[where]) != std::string::npos;
  };
  if (!text.empty()) {
    const size_t first = decode(text, 0).size;
    if (is_align(first)) {
      spec.fill = text.substr(0, first);
      spec.align = text[first];
      at = first + 1;
    } else if (is_align(0)) {
      spec.align = text[at++];
    }
  }
  const auto take = [&](std::string_view wanted) {
    if (at >= text.size() || wanted.find(text[at]) == std::string_view::npos) return '\0';
    return text[at++];
  };
  if (const char sign = take("+- ")) spec.sign = sign;
  if (take("0") != '\0' && spec.align == '\0') {
    spec.fill = "0";
    spec.align = '=';
  }
  spec.width = read_number(text, at, kMaxWidth, "width");
  spec.grouping = take(",_");
  if (take(".") != '\0') {
    spec.precision = static_cast<int>(read_number(text, at, kMaxPrecision, "precision"));
  }
  spec.type = take("sdefg%");
  if (at != text.size()) {
    raise("format specifier '{}': expected [[fill]<>^=][+- ][0][width][,_][.precision][sdefg%]",
          text);
  }
  return spec;
}

// A value by the rules of str.format(), without marks.
std::string format_value(const Value& value, std::string_view text) {
  const Spec spec = parse_spec(text);
  const bool is_real_type =
      spec.type != '\0' && std::string_view("efg%").find(spec.type) != std::string_view::npos;
  if (value.boolean() != nullptr && spec.type == '\0')
    return format_string(to_text(value).text, spec);
  if (const auto number = value.integer()) {
    if (is_real_type) return format_real(static_cast<double>(*number), spec);
    if (spec.type != 's' && spec.precision < 0) return format_integer(*number, spec);
  } else if (const double* real = value.real()) {
    if (is_real_type || spec.type == '\0') return format_real(*real, spec);
  } else if (value.string() != nullptr) {
    if (spec.type == '\0' || spec.type == 's') return format_string(*value.string(), spec);
  } else if (text.empty()) {
    return to_text(value).text;
  } else {
    raise("unsupported format string '{}' for '{}'", text, type_name(value));
  }
  raise("unknown format code '{}' for an object of type '{}'", spec.type, type_name(value));
}

class JsonWriter {
 public:
  JsonWriter(const JsonStyle& style, Budget& budget) : style_(style), budget_(budget) {}

  std::string run(const Value& value) {
    write(value, 0);
    return std::move(out_);
  }

 private:
  void write(const Value& value, size_t level) {
    budget_.charge(1);
    check_size(out_.size());
    if (value.is_none()) {
      out_ += "null";
    } else if (const bool* flag = value.boolean()) {
      out_ += *flag ? "true" : "false";
    } else if (const auto integer = value.integer()) {
      out_ += std::to_string(*integer);
    } else if (const double* real = value.real()) {
      out_ += real_text(*real);
    } else if (const std::string* text = value.string()) {
      quote(*text);
    } else if (const Dict* dict = value.dict()) {
      write_dict(*dict, level);
    } else if (type_name(value) == "list" || type_name(value) == "tuple") {
      write_items(value.sequence()->items, level);
    } else {
      raise("Object of type {} is not JSON serializable", type_name(value));
    }
  }

  static std::string real_text(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
    return float_text(value);
  }

  void new_line(size_t level) {
    if (!style_.indent) return;
    out_ += '\n';
    for (size_t i = 0; i < level; ++i) out_ += *style_.indent;
    check_size(out_.size());
  }

  void write_items(const Items& items, size_t level) {
    if (items.empty()) {
      out_ += "[]";
      return;
    }
    out_ += '[';
    bool first = true;
    for (const Value& item : items) {
      if (!first) out_ += style_.item_separator;
      first = false;
      new_line(level + 1);
      write(item, level + 1);
    }
    new_line(level);
    out_ += ']';
  }

  static std::string key_text(const Value& key) {
    if (const std::string* text = key.string()) return *text;
    if (key.is_none()) return "null";
    if (const bool* flag = key.boolean()) return *flag ? "true" : "false";
    if (const double* real = key.real()) return real_text(*real);
    if (key.integer()) return to_text(key).text;
    raise("keys must be str, int, float, bool or None, not {}", type_name(key));
  }

  void write_dict(const Dict& dict, size_t level) {
    if (dict.entries.empty()) {
      out_ += "{}";
      return;
    }
    auto entries = dict.entries;
    if (style_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(), [this](const auto& a, const auto& b) {
        return less(a.first, b.first, budget_);
      });
    }
    out_ += '{';
    bool first = true;
    for (const auto& [key, value] : entries) {
      if (!first) out_ += style_.item_separator;
      first = false;
      new_line(level + 1);
      quote(key_text(key));
      out_ += style_.key_separator;
      write(value, level + 1);
    }
    new_line(level);
    out_ += '}';
  }

  void quote(std::string_view text) {
    budget_.charge(text.size() / 64);
    out_ += '"';
    for (size_t at = 0; at < text.size();) {
      const CodePoint point = decode(text, at);
      const auto value = static_cast<uint32_t>(point.value);
      constexpr std::string_view kFrom = "\"\\\n\r\t\f\b";
      constexpr std::string_view kTo = "\"\\nrtfb";
      const size_t simple = value < 0x80 ? kFrom.find(static_cast<char>(value)) : std::string::npos;
      if (simple != std::string_view::npos) {
        out_ += '\\';
        out_ += kTo[simple];
      } else if (value < 0x20 || (style_.ensure_ascii && value > 0x7E)) {
        if (value >= 0x10000) {
          const uint32_t rest = value - 0x10000;
          out_ += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (rest >> 10), 0xDC00 + (rest & 0x3FF));
        } else {
          out_ += fmt::format("\\u{:04x}", value);
        }
      } else {
        out_ += text.substr(at, point.size);
      }
      at += point.size;
    }
    out_ += '"';
    check_size(out_.size());
  }

  const JsonStyle& style_;
  Budget& budget_;
  std::string out_;
};

}  // namespace

MarkedText format_braces(const MarkedText& marked, const Arguments& arguments) {
  const std::string_view format = marked.text;
  MarkedText out;
  size_t next = 0;
  for (size_t at = 0; at < format.size();) {
    const char c = format[at];
    if (c != '{' && c != '}') {
      out.text += c;
      ++at;
      continue;
    }
    if (at + 1 < format.size() && format[at + 1] == c) {
      out.text += c;
      at += 2;
      continue;
    }
    if (c == '}') raise("single '}}' encountered in format string");
    const size_t end = format.find('}', at);
    if (end == std::string_view::npos) raise("expected '}}' before end of format string");
    std::string_view field = format.substr(at + 1, end - at - 1);
    if (field.find('{') != std::string_view::npos) raise("nested format fields are not supported");
    at = end + 1;
    std::string_view spec;
    if (const size_t colon = field.find(':'); colon != std::string_view::npos) {
      spec = field.substr(colon + 1);
      field = field.substr(0, colon);
    }
    Value value;
    if (field.empty() || (field[0] >= '0' && field[0] <= '9')) {
      size_t read = 0;
      const size_t index = field.empty() ? next++ : read_number(field, read, kMaxWidth, "index");
      if (read != field.size()) raise("format field '{}' is not supported", field);
      if (index >= arguments.positional.size()) {
        raise("replacement index {} out of range for positional args tuple", index);
      }
      value = arguments.positional[index];
    } else {
      const auto found = std::find_if(arguments.named.begin(), arguments.named.end(),
                                      [&](const auto& entry) { return entry.first == field; });
      if (found == arguments.named.end()) raise("format field '{}' was not given", field);
      value = found->second;
    }
    // Its marks are those of what would be printed without a specification.
    out.append(to_text(value).carry_to(format_value(value, spec)));
    check_size(out.text.size());
  }
  if (!marked.all_trusted()) out.distrust();
  return out;
}

std::string to_json(const Value& value, const JsonStyle& style, Budget& budget) {
  return JsonWriter(style, budget).run(value);
}

}  // namespace dovetail::text::jinja
