#include "dialog/texts.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "dialog/elements.h"

namespace dovetail::dialog {

namespace {

constexpr std::size_t kShortestMark = 3;  // bytes

std::string_view place_at(std::string_view literal, std::size_t at) {
  for (const std::string_view place : {kIdPlace, kIndexPlace, kNumberPlace, kTypePlace}) {
    if (literal.substr(at).starts_with(place)) return place;
  }
  return {};
}

// What stands at the places of a text.
struct Places {
  std::string_view id = {};
  std::size_t index = 0;
  std::string_view type = {};
};

void append_text(text::MarkedText& out, std::string_view literal, const Places& places) {
  for (std::size_t i = 0; i < literal.size();) {
    const std::string_view place = place_at(literal, i);
    if (place.empty()) {
      out.append_trusted(literal.substr(i++, 1));
      continue;
    }
    if (place == kIdPlace) {
      out.append_from_outside(places.id);
    } else if (place == kTypePlace) {
      out.append_trusted(places.type);
    } else {
      out.append_trusted(std::to_string(places.index + (place == kNumberPlace ? 1 : 0)));
    }
    i += place.size();
  }
}

std::string_view type_name(const Json& value) {
  if (value.is_null()) return "null";
  if (value.is_boolean()) return "boolean";
  if (value.is_number()) return "number";
  if (value.is_string()) return "string";
  return value.is_array() ? "array" : "object";
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

void append_bare(text::MarkedText& out, const CallFormat& format, const Json& value);

// Names in the order in which templates write them.
void append_bare_members(text::MarkedText& out, const CallFormat& format, const Json& members) {
  const Json sorted = with_sorted_members(members);
  bool first = true;
  for (const auto& item : sorted.items()) {
    out.append_trusted(first ? "" : ",");
    out.append_from_outside(item.key());
    out.append_trusted(":");
    append_bare(out, format, item.value());
    first = false;
  }
}

void append_bare(text::MarkedText& out, const CallFormat& format, const Json& value) {
  if (value.is_string()) {
    out.append_trusted(format.quote);
    out.append_from_outside(value.get_ref<const std::string&>());
    out.append_trusted(format.quote);
  } else if (value.is_object()) {
    out.append_trusted("{");
    append_bare_members(out, format, value);
    out.append_trusted("}");
  } else if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      out.append_trusted(i == 0 ? "[" : ",");
      append_bare(out, format, value[i]);
    }
    out.append_trusted(value.empty() ? "[]" : "]");
  } else {
    out.append_from_outside(value.dump());
  }
}

void append_arguments(text::MarkedText& out, const CallFormat& format, const Json& arguments) {
  if (arguments.is_string()) {
    out.append_from_outside(arguments.get_ref<const std::string&>());
    return;
  }
  if (format.style == ArgumentStyle::kJson || !arguments.is_object()) {
    out.append_from_outside(value_text(arguments, false));
    return;
  }
  if (format.style == ArgumentStyle::kBare) {
    append_bare_members(out, format, arguments);
    return;
  }
  if (format.style == ArgumentStyle::kElements) {
    for (const auto& [name, value] : arguments.items()) append_element(out, format, name, value);
    return;
  }
  bool first = true;
  for (const auto& item : arguments.items()) {
    const bool is_text = item.value().is_string();
    if (format.style == ArgumentStyle::kPythonic) {
      out.append_from_outside((first ? "" : ", ") + item.key() + "=" +
                              value_text(item.value(), true));
    } else {
      const bool other = !is_text && !format.other_close.empty();
      out.append_trusted(format.key_open);
      out.append_from_outside(item.key());
      append_text(out, other ? format.other_close : format.key_close,
                  {.type = type_name(item.value())});
      out.append_from_outside(is_text ? item.value().get<std::string>()
                                      : value_text(item.value(), false));
      out.append_trusted(format.value_close);
    }
    first = false;
  }
}

}  // namespace

Json with_sorted_members(const Json& object) {
  const auto folded = [](std::string text) {
    for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    return text;
  };
  std::vector<std::string> names;
  for (const auto& item : object.items()) names.push_back(item.key());
  std::ranges::stable_sort(names, {}, folded);
  Json out = Json::object();
  for (const std::string& name : names) out[name] = object.at(name);
  return out;
}

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

text::MarkedText write_calls(const CallFormat& format, const Json& calls, bool as_they_are) {
  text::MarkedText out;
  out.append_trusted(format.section_open);
  Places places;
  for (const Json& call : calls) {
    const Json& function = call.at("function");
    Json arguments = function.value("arguments", Json::object());
    if (arguments.is_string() && !as_they_are) {
      const Json parsed = Json::parse(arguments.get_ref<const std::string&>(), nullptr, false);
      if (parsed.is_object()) arguments = parsed;
    }
    const std::string id = string_at(call, "id");
    places.id = id;
    if (places.index > 0) out.append_trusted(format.between);
    append_text(out, format.open, places);
    out.append_from_outside(string_at(function, "name"));
    append_text(out, format.middle, places);
    append_arguments(out, format, arguments);
    append_text(out, format.close, places);
    ++places.index;
  }
  out.append_trusted(format.section_close);
  return out;
}

std::string name_index_id(std::string_view name, std::size_t index) {
  return fmt::format("functions.{}:{}", name, index);
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
