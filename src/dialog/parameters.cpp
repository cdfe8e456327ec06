#include "dialog/parameters.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

namespace dovetail::dialog {

namespace {

constexpr int kMaxDepth = 32;

// Types of JSON values, as bits.
enum : unsigned { kString = 1U, kOther = 2U, kBoth = 3U };

// Null says nothing of a value, but for that of a "const"; nor does an empty list. (Grammars of
// strict schemas refuse them, where they are wrong.)
const Json* member(const Json& schema, const char* name) {
  const auto found = schema.find(name);
  if (found == schema.end()) return nullptr;
  const bool empty = found->is_null() || (found->is_array() && found->empty());
  return empty && std::string_view(name) != "const" ? nullptr : &*found;
}

// Null, too, where one is unknown, so that a grammar left the keyword out.
const Json* type_of(const Json& schema) {
  const Json* type = member(schema, "type");
  return type != nullptr && are_types(*type) ? type : nullptr;
}

constexpr std::array<std::string_view, 7> kTypeNames = {"null",   "boolean", "integer", "number",
                                                        "string", "array",   "object"};

bool is_type_name(std::string_view name) {
  return std::ranges::find(kTypeNames, name) != kTypeNames.end();
}

void lower_type(Json& type) {
  if (type.is_array()) std::ranges::for_each(type, lower_type);
  if (!type.is_string()) return;
  std::string lower = type.get<std::string>();
  const auto is_capital = [](char c) { return c >= 'A' && c <= 'Z'; };
  if (!std::ranges::all_of(lower, is_capital)) return;
  for (char& c : lower) c = static_cast<char>(c - 'A' + 'a');
  if (is_type_name(lower)) type = std::move(lower);
}

bool has_any(const Json& schema, std::initializer_list<const char*> names) {
  return std::ranges::any_of(names, [&](const char* name) {
    const auto found = schema.find(name);
    if (found == schema.end() || found->is_null()) return false;
    return std::string_view(name) != "required" || found->is_array();  // not draft 3's
  });
}

const Json* target_of(const Json& document, const Json& schema) {
  const Json* reference = member(schema, "$ref");
  if (reference == nullptr || !reference->is_string()) return nullptr;
  const std::string_view text = reference->get_ref<const std::string&>();
  return text.starts_with('#') ? value_at(document, text.substr(1)) : nullptr;
}

unsigned kinds_of(const Json& document, const Json& schema, int depth) {
  if (schema.is_boolean()) return schema.get<bool>() ? kBoth : 0U;
  if (!schema.is_object() || depth > kMaxDepth) return kBoth;
  const auto kind = [](const Json& value) { return value.is_string() ? kString : kOther; };
  unsigned out = kBoth;
  if (const Json* type = type_of(schema)) {
    unsigned types = 0;
    for (const Json& name : type->is_array() ? *type : Json::array({*type})) {
      types |= name == "string" ? kString : kOther;
    }
    out &= types;
  }
  if (const Json* values = member(schema, "enum"); values != nullptr && values->is_array()) {
    unsigned kinds = 0;
    for (const Json& value : *values) kinds |= kind(value);
    out &= kinds;
  }
  if (const Json* value = member(schema, "const")) out &= kind(*value);
  if (const Json* target = target_of(document, schema)) {
    out &= kinds_of(document, *target, depth + 1);
  }
  if (const Json* parts = member(schema, "allOf")) {
    for (const Json& part : *parts) out &= kinds_of(document, part, depth + 1);
  }
  for (const char* name : {"anyOf", "oneOf"}) {
    const Json* parts = member(schema, name);
    if (parts == nullptr) continue;
    unsigned kinds = 0;
    for (const Json& part : *parts) kinds |= kinds_of(document, part, depth + 1);
    out &= kinds;
  }
  // A keyword for one type alone implies the type, as in grammars.
  constexpr std::array kTelling = {"enum", "const", "$ref", "anyOf", "oneOf"};
  const bool told = type_of(schema) != nullptr || std::ranges::any_of(kTelling, [&](auto name) {
                      return member(schema, name) != nullptr;
                    });
  if (out == kBoth && !told) {
    unsigned implied = 0;
    if (has_any(schema, {"minLength", "maxLength", "pattern", "format"})) implied |= kString;
    if (has_any(schema, {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "items",
                         "additionalItems", "prefixItems", "minItems", "maxItems", "properties",
                         "patternProperties", "additionalProperties", "required"})) {
      implied |= kOther;
    }
    if (implied != 0) out &= implied;
  }
  return out;
}

bool takes_any(const Json& document, const Json& schema, int depth) {
  if (schema.is_boolean()) return schema.get<bool>();
  if (!schema.is_object() || depth > kMaxDepth) return false;
  if ((kinds_of(document, schema, depth) & kString) == 0) return false;
  constexpr std::array kRestricting = {"enum",   "const",     "not",       "pattern",
                                       "format", "minLength", "maxLength", "allOf"};
  if (std::ranges::any_of(kRestricting,
                          [&](auto name) { return member(schema, name) != nullptr; })) {
    return false;
  }
  const auto of = [&](const Json& part) { return takes_any(document, part, depth + 1); };
  if (schema.contains("$ref")) {
    const Json* target = target_of(document, schema);
    if (target == nullptr || !of(*target)) return false;
  }
  return std::ranges::all_of(std::array{"anyOf", "oneOf"}, [&](const char* name) {
    const Json* parts = member(schema, name);
    return parts == nullptr || std::ranges::any_of(*parts, of);
  });
}

bool is_type(const Json& value, const Json& name) {
  if (name == "null") return value.is_null();
  if (name == "boolean") return value.is_boolean();
  if (name == "string") return value.is_string();
  if (name == "array") return value.is_array();
  if (name == "object") return value.is_object();
  if (name == "number") return value.is_number();
  if (name == "integer") return value.is_number_integer();
  return false;
}

class Instance {
 public:
  explicit Instance(const Json& document) : document_(document) {}

  bool is_of(const Json& value, const Json& schema, int depth) const {
    if (schema.is_boolean()) return schema.get<bool>();
    if (!schema.is_object() || depth > kMaxDepth) return false;
    const auto of = [&](const Json& part) { return is_of(value, part, depth + 1); };
    if (const Json* type = type_of(schema)) {
      const Json names = type->is_array() ? *type : Json::array({*type});
      if (std::ranges::none_of(names, [&](const Json& name) { return is_type(value, name); })) {
        return false;
      }
    }
    const Json* values = member(schema, "enum");
    if (values != nullptr && std::ranges::find(*values, value) == values->end()) return false;
    if (const Json* only = member(schema, "const"); only != nullptr && *only != value) return false;
    if (const Json* target = target_of(document_, schema); target != nullptr && !of(*target)) {
      return false;
    }
    const Json* all = member(schema, "allOf");
    if (all != nullptr && !std::ranges::all_of(*all, of)) return false;
    for (const char* name : {"anyOf", "oneOf"}) {
      const Json* parts = member(schema, name);
      if (parts != nullptr && std::ranges::none_of(*parts, of)) return false;
    }
    if (value.is_number()) return is_within(value.get<double>(), schema);
    if (value.is_array()) return are_items(value, schema, depth);
    return !value.is_object() || are_members(value, schema, depth);
  }

 private:
  static bool is_within(double value, const Json& schema) {
    const auto bound = [&](const char* name, auto holds) {
      const Json* limit = member(schema, name);
      return limit == nullptr || !limit->is_number() || holds(value, limit->get<double>());
    };
    // In draft 4, true makes the bound beside it exclusive.
    const auto is_true = [&](const char* name) { return schema.value(name, Json()) == true; };
    if (is_true("exclusiveMinimum") && !bound("minimum", std::greater<>())) return false;
    if (is_true("exclusiveMaximum") && !bound("maximum", std::less<>())) return false;
    return bound("minimum", std::greater_equal<>()) && bound("maximum", std::less_equal<>()) &&
           bound("exclusiveMinimum", std::greater<>()) && bound("exclusiveMaximum", std::less<>());
  }

  bool are_items(const Json& value, const Json& schema, int depth) const {
    const auto count = [&](const char* name, std::size_t otherwise) {
      const Json* said = member(schema, name);
      return said == nullptr || !said->is_number() ? otherwise : said->get<std::size_t>();
    };
    if (value.size() < count("minItems", 0)) return false;
    if (value.size() > count("maxItems", value.size())) return false;
    const Json* first = member(schema, "prefixItems");
    const Json* others = member(schema, "items");
    if (first == nullptr && others != nullptr && others->is_array()) {
      first = others;
      others = member(schema, "additionalItems");
    }
    for (std::size_t i = 0; i < value.size(); ++i) {
      const Json* item = first != nullptr && i < first->size() ? &(*first)[i] : others;
      if (item != nullptr && !is_of(value[i], *item, depth + 1)) return false;
    }
    return true;
  }

  bool are_members(const Json& value, const Json& schema, int depth) const {
    if (const Json* names = member(schema, "required")) {
      for (const Json& name : *names) {
        if (name.is_string() && !value.contains(name.get<std::string>())) return false;
      }
    }
    const Json* named = member(schema, "properties");
    const Json* others = member(schema, "additionalProperties");
    for (const auto& item : value.items()) {
      const Json* property = named == nullptr ? nullptr : member(*named, item.key().c_str());
      if (property == nullptr && !schema.contains("patternProperties")) property = others;
      if (property != nullptr && !is_of(item.value(), *property, depth + 1)) return false;
    }
    return true;
  }

  const Json& document_;
};

bool refers(const Json& value) {
  if (!value.is_structured()) return false;
  if (value.is_object() && value.contains("$ref")) return true;
  return std::ranges::any_of(value, refers);
}

// Where the keywords of a tool's own schema stand that say nothing of single parameters.
bool is_plain_keyword(std::string_view name) {
  static constexpr std::array kPlain = {
      "type",     "properties",  "required", "additionalProperties",
      "$defs",    "definitions", "title",    "description",
      "default",  "examples",    "$schema",  "$id",
      "$comment", "deprecated",  "readOnly", "writeOnly",
      "strict"};
  return std::ranges::find(kPlain, name) != kPlain.end();
}

}  // namespace

std::string pointer_part(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out += c;
    }
  }
  return out;
}

void lower_types(Json& schema) {
  if (schema.is_array()) std::ranges::for_each(schema, lower_types);
  if (!schema.is_object()) return;
  for (const auto& item : schema.items()) {
    const std::string& name = item.key();
    const auto is_one_of = [&](std::initializer_list<std::string_view> names) {
      return std::ranges::find(names, name) != names.end();
    };
    if (name == "type") {
      lower_type(item.value());
    } else if (is_one_of({"properties", "patternProperties", "$defs", "definitions"})) {
      for (Json& member : item.value()) lower_types(member);
    } else if (!is_one_of({"enum", "const", "default", "example", "examples"})) {
      lower_types(item.value());
    }
  }
}

bool are_types(const Json& type) {
  if (type.is_array()) return std::ranges::all_of(type, are_types);
  return type.is_string() && is_type_name(type.get_ref<const std::string&>());
}

bool takes_nothing(const Json& parameters) {
  if (parameters.is_null() || parameters.empty()) return true;
  if (!parameters.is_object()) return false;
  const Json* properties = member(parameters, "properties");
  if (properties == nullptr || !properties->is_object() || !properties->empty()) return false;
  return std::ranges::all_of(parameters.items(), [](const auto& item) {
    if (item.key() == "required") return item.value().empty();
    if (item.key() == "additionalProperties") return item.value() == false;
    return is_plain_keyword(item.key());
  });
}

Result<std::vector<Parameter>> list_parameters(const Tool& tool) {
  std::vector<Parameter> out;
  if (takes_nothing(tool.parameters)) return out;
  const Json* schema = &tool.parameters;
  std::string at;
  for (int hops = 0; schema->is_object() && !schema->contains("properties"); ++hops) {
    const Json* target = target_of(tool.parameters, *schema);
    if (target == nullptr || hops > kMaxDepth) break;
    at = schema->at("$ref").get<std::string>().substr(1);
    schema = target;
  }
  const auto refuse = [&](const std::string& where, std::string_view why) {
    return fail(ErrorKind::kUnsupported,
                "tool \"{}\": #{}: {}; this model writes arguments one by one, so a schema must be "
                "an object with \"properties\"",
                tool.name, where, why);
  };
  if (!schema->is_object()) return refuse(at, "is no object");
  for (const auto& item : schema->items()) {
    if (tool.strict && !is_plain_keyword(item.key())) {
      return refuse(at + "/" + pointer_part(item.key()), "is not supported");
    }
  }
  std::vector<std::string> required;
  if (const Json* names = member(*schema, "required"); names != nullptr && names->is_array()) {
    for (const Json& name : *names) {
      if (name.is_string()) required.push_back(name.get<std::string>());
    }
  }
  const Json* properties = member(*schema, "properties");
  if (properties != nullptr && properties->is_object()) {
    for (const auto& item : properties->items()) {
      out.push_back({.name = item.key(),
                     .at = at + "/properties/" + pointer_part(item.key()),
                     .strings = strings_of(tool.parameters, item.value()),
                     .required = std::erase(required, item.key()) > 0});
    }
  }
  if (!required.empty()) {
    return refuse(at + "/required", "names \"" + required.front() + "\", which is no property");
  }
  return out;
}

Strings strings_of(const Json& document, const Json& schema) {
  const unsigned kinds = kinds_of(document, schema, 0);
  if (kinds == kString) return Strings::kOnly;
  return kinds == kOther ? Strings::kNone : Strings::kSome;
}

bool takes_any_string(const Json& document, const Json& schema) {
  return takes_any(document, schema, 0);
}

Json without_strings(const Json& schema) {
  return {{"allOf", {schema, {{"type", {"null", "boolean", "number", "array", "object"}}}}}};
}

bool is_other_value(const Json& document, const Json& schema, std::string_view text) {
  const Json value = Json::parse(text, nullptr, false);
  return !value.is_discarded() && !value.is_string() && Instance(document).is_of(value, schema, 0);
}

const Json* value_at(const Json& document, std::string_view pointer) {
  try {
    const Json::json_pointer place{std::string(pointer)};
    return document.contains(place) ? &document.at(place) : nullptr;
  } catch (const Json::exception&) {
    return nullptr;  // no pointer
  }
}

Json document_of(const Json& document, const std::string& at) {
  const Json& schema = *value_at(document, at);
  if (refers(schema)) return document;
  Json out = schema;
  for (Json::json_pointer place(at); !place.empty(); place.pop_back()) {
    out = Json{{place.back(), std::move(out)}};
  }
  return out;
}

}  // namespace dovetail::dialog
