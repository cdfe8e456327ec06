#include "dialog/texts.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace dovetail::dialog {

namespace {

constexpr std::size_t kShortestMark = 3;  // bytes

std::string_view place_at(std::string_view literal, std::size_t at) {
  for (const std::string_view place : {kIdPlace, kIndexPlace}) {
    if (literal.substr(at).starts_with(place)) return place;
  }
  return {};
}

std::string with_ids(std::string_view literal, std::string_view id, std::size_t index) {
  std::string out;
  for (std::size_t i = 0; i < literal.size();) {
    const std::string_view place = place_at(literal, i);
    if (place.empty()) {
      out += literal[i++];
    } else {
      out += place == kIdPlace ? std::string(id) : std::to_string(index);
      i += place.size();
    }
  }
  return out;
}

// A value as templates write it: with a space after commas and colons; words as Python spells them.
std::string value_text(const Json& value, bool python) {
  if (python && value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (python && value.is_null()) return "None";
  if (!value.is_structured()) return value.dump();
  std::string out;
  for (const auto& item : value.items()) {
    if (!out.empty()) out += ", ";
    if (value.is_object()) out += Json(item.key()).dump() + ": ";
    out += value_text(item.value(), python);
  }
  return value.is_array() ? "[" + out + "]" : "{" + out + "}";
}

std::string write_arguments(const CallFormat& format, const Json& arguments) {
  if (format.style == ArgumentStyle::kJson || !arguments.is_object()) {
    return arguments.is_string() ? arguments.get<std::string>() : value_text(arguments, false);
  }
  std::string out;
  for (const auto& item : arguments.items()) {
    const bool is_text = item.value().is_string();
    if (format.style == ArgumentStyle::kPythonic) {
      if (!out.empty()) out += ", ";
      out += item.key() + "=" + value_text(item.value(), true);
    } else {
      const bool other = !is_text && !format.other_close.empty();
      out += format.key_open + item.key() + (other ? format.other_close : format.key_close);
      out += is_text ? item.value().get<std::string>() : value_text(item.value(), false);
      out += format.value_close;
    }
  }
  return out;
}

}  // namespace

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-';
}

std::string_view trim_left(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  return text;
}

std::string_view trim_right(std::string_view text) {
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

Matched match_text(std::string_view text, std::size_t at, std::string_view literal,
                   Trailing trailing) {
  const std::string_view core = trim_right(literal);
  const Match at_end = text.size() > at + kMaxMatch ? Match::kNo : Match::kMore;
  text = text.substr(0, at + kMaxMatch);
  Matched out;
  const auto take = [&](std::size_t end) {
    out.as_read += text.substr(at, end - at);
    at = end;
  };
  for (std::size_t i = 0; i < core.size();) {
    if (is_space(core[i])) {
      ++i;
      continue;
    }
    // A word is in one piece.
    if (i == 0 || !is_name_char(core[i - 1]) || !is_name_char(core[i])) {
      while (at < text.size() && is_space(text[at])) take(at + 1);
    }
    if (at == text.size()) return {.match = at_end};
    if (const std::string_view place = place_at(core, i); !place.empty()) {
      std::size_t end = at;
      while (end < text.size() && is_name_char(text[end])) ++end;
      if (end == text.size()) return {.match = at_end};
      if (end == at) return {};
      out.id = text.substr(at, end - at);
      out.as_read += place;
      at = end;
      i += place.size();
      continue;
    }
    if (text[at] != core[i]) return {};
    take(at + 1);
    ++i;
  }
  if (trailing == Trailing::kAll) {
    while (at < text.size() && is_space(text[at])) take(at + 1);
  } else if (trailing == Trailing::kExact) {
    for (const char c : literal.substr(core.size())) {
      if (at == text.size()) return {.match = at_end};
      if (text[at] != c) break;
      take(at + 1);
    }
  }
  out.match = Match::kYes;
  out.end = at;
  return out;
}

std::string call_mark(const CallFormat& format) {
  std::string_view text = format.section_open.empty() ? format.open : format.section_open;
  text = trim_left(text);
  // Brackets may come with or without space.
  std::size_t end = text.starts_with(kTokenOpen) ? 0 : std::min<std::size_t>(text.size(), 1);
  while (end < text.size() && !is_space(text[end]) && text[end] != kTokenOpen && text[end] != '{' &&
         text[end] != '[') {
    ++end;
  }
  if (text.substr(end).starts_with(kTokenOpen)) end = text.find(kTokenClose, end) + 1;
  return end < kShortestMark ? std::string() : std::string(text.substr(0, end));
}

std::string write_calls(const CallFormat& format, const Json& calls) {
  std::string out = format.section_open;
  std::size_t index = 0;
  for (const Json& call : calls) {
    const Json& function = call.at("function");
    Json arguments = function.value("arguments", Json::object());
    if (arguments.is_string()) {
      const Json parsed = Json::parse(arguments.get_ref<const std::string&>(), nullptr, false);
      if (parsed.is_object()) arguments = parsed;
    }
    const std::string id = string_at(call, "id");
    if (index > 0) out += format.between;
    out += with_ids(format.open, id, index) + string_at(function, "name") +
           with_ids(format.middle, id, index) + write_arguments(format, arguments) +
           with_ids(format.close, id, index);
    ++index;
  }
  return out += format.section_close;
}

std::string string_at(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

void append_escaped(std::string& out, std::string_view text) {
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        } else {
          out += c;
        }
    }
  }
}

}  // namespace dovetail::dialog
