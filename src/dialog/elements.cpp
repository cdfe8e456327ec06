#include "dialog/elements.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "dialog/parameters.h"
#include "dialog/texts.h"

namespace dovetail::dialog {

namespace {

constexpr int kMaxHops = 32;

// What both texts begin with.
std::string_view begin_of(const CallFormat& format) {
  return std::string_view(format.key_open).substr(0, format.key_open.size() - 1);
}

bool has_only(const Json& schema, std::initializer_list<std::string_view> names) {
  return std::ranges::all_of(schema.items(), [&](const auto& item) {
    return std::ranges::find(names, std::string_view(item.key())) != names.end();
  });
}

bool is_name(std::string_view name) {
  return !name.empty() && name.front() != '/' &&
         name.find_first_of("<>[]\"\n\t ") == std::string_view::npos;
}

struct Element {
  std::string name;
  std::string_view text;
};

// The elements that a text is, white space between them aside; nothing where it is other text.
std::optional<std::vector<Element>> elements_of(const CallFormat& format, std::string_view text) {
  std::vector<Element> out;
  while (true) {
    text = trim_left(text);
    if (text.empty()) return out;
    if (!text.starts_with(format.key_open) || text.starts_with(format.value_close)) return {};
    text.remove_prefix(format.key_open.size());
    const std::size_t name_end = text.find(format.key_close);
    if (name_end == std::string_view::npos) return {};
    Element element{std::string(text.substr(0, name_end)), {}};
    text.remove_prefix(name_end + format.key_close.size());
    const auto end = ElementScanner().find_end(text, format);
    if (!end) return {};
    element.text = text.substr(0, *end);
    text.remove_prefix(*end + format.value_close.size());
    const std::string closing = element.name + format.key_close;
    if (!text.starts_with(closing)) return {};
    text.remove_prefix(closing.size());
    out.push_back(std::move(element));
  }
}

std::optional<std::string> place_under(const Json& document, const std::string& at,
                                       const std::string& name, bool is_list) {
  const Json* schema = value_at(document, at);
  std::string place = at + (is_list ? "/items" : "/properties/" + pointer_part(name));
  if (schema == nullptr || value_at(document, place) == nullptr) return std::nullopt;
  return place;
}

}  // namespace

std::optional<std::size_t> ElementScanner::find_end(std::string_view text,
                                                    const CallFormat& format) {
  const std::string_view begin = begin_of(format);
  while (true) {
    const std::size_t at = text.find(begin, seen_);
    if (at == std::string_view::npos) {
      // The rest may be the begin of one.
      seen_ = std::max(seen_, text.size() - std::min(text.size(), begin.size()));
      return std::nullopt;
    }
    seen_ = at;
    const std::string_view here = text.substr(at);
    if (here.size() < format.value_close.size()) return std::nullopt;
    if (here.starts_with(format.value_close)) {
      if (depth_ == 0) return at;
      --depth_;
    } else if (here.starts_with(format.key_open)) {
      ++depth_;
    }
    seen_ = at + begin.size();
  }
}

ElementSchema element_schema(const Json& document, std::string at) {
  ElementSchema out{std::move(at), ElementKind::kText};
  const Json* schema = value_at(document, out.at);
  for (int hops = 0; schema != nullptr && schema->is_object() && schema->contains("$ref"); ++hops) {
    const std::string target = string_at(*schema, "$ref");
    if (!target.starts_with('#') || hops > kMaxHops) return out;
    out.at = target.substr(1);
    schema = value_at(document, out.at);
  }
  if (schema == nullptr || !schema->is_object()) return out;
  const std::string type = string_at(*schema, "type");
  const auto member = [&](const char* name) {
    const auto found = schema->find(name);
    return found == schema->end() ? nullptr : &*found;
  };
  const Json* items = member("items");
  if (type == "array" && items != nullptr && (items->is_object() || items->is_boolean()) &&
      has_only(*schema, {"type", "items", "minItems", "maxItems", "title", "description", "default",
                         "examples"})) {
    out.kind = ElementKind::kArray;
  }
  const Json* properties = member("properties");
  if (type != "object" || properties == nullptr || !properties->is_object() ||
      !has_only(*schema, {"type", "properties", "required", "additionalProperties", "title",
                          "description", "default", "examples", "$defs", "definitions"})) {
    return out;
  }
  const Json none = Json::array();
  const Json* required = member("required");
  const bool named =
      std::ranges::all_of(properties->items(),
                          [](const auto& item) { return is_name(item.key()); }) &&
      std::ranges::all_of(required == nullptr ? none : *required, [&](const Json& name) {
        return name.is_string() && properties->contains(name.get<std::string>());
      });
  if (named) out.kind = ElementKind::kObject;
  return out;
}

Json read_element(const CallFormat& format, const Json& document,
                  const std::optional<std::string>& at, std::string_view text, int depth) {
  const ElementSchema its = at ? element_schema(document, *at) : ElementSchema{};
  const Json anything = true;
  const Json* known = at ? value_at(document, its.at) : nullptr;
  const Json& schema = known == nullptr ? anything : *known;
  const Strings strings = strings_of(document, schema);
  if (strings != Strings::kOnly && depth < kMaxElements) {
    const auto elements = elements_of(format, text);
    const bool may_be_empty = its.kind != ElementKind::kText && strings == Strings::kNone;
    if (elements && (!elements->empty() || may_be_empty)) {
      const bool is_list =
          its.kind == ElementKind::kArray ||
          (its.kind == ElementKind::kText && !elements->empty() &&
           std::ranges::all_of(*elements, [](const auto& each) { return each.name == kItem; }));
      Json out = is_list ? Json::array() : Json::object();
      for (const Element& each : *elements) {
        const auto place = at ? place_under(document, its.at, each.name, is_list) : std::nullopt;
        Json value = read_element(format, document, place, each.text, depth + 1);
        if (is_list) {
          out.push_back(std::move(value));
        } else {
          out[each.name] = std::move(value);
        }
      }
      return out;
    }
  }
  const bool is_other = strings == Strings::kNone
                            ? Json::accept(text)
                            : strings == Strings::kSome && is_other_value(document, schema, text);
  return is_other ? Json::parse(text) : Json(text);
}

void append_element(text::MarkedText& out, const CallFormat& format, const std::string& name,
                    const Json& value) {
  const auto tag = [&](const std::string& open) {
    out.append_trusted(open);
    out.append_from_outside(name);
    out.append_trusted(format.key_close);
  };
  tag(format.key_open);
  if (value.is_structured()) {
    for (const auto& [key, member] : value.items()) {
      append_element(out, format, value.is_array() ? std::string(kItem) : key, member);
    }
  } else {
    out.append_from_outside(value.is_string() ? value.get<std::string>() : value.dump());
  }
  tag(format.value_close);
}

}  // namespace dovetail::dialog
