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

const Json* member(const Json& schema, const char* name) {
  const auto found = schema.find(name);
  return found == schema.end() ? nullptr : &*found;
}

bool has_any(const Json& schema, std::initializer_list<const char*> names) {
  return std::ranges::any_of(names, [&](const char* name) { return schema.contains(name); });
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
  if (const Json* type = member(schema, "type")) {
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
  if (out == kBoth && !has_any(schema, {"type", "enum", "const", "$ref", "anyOf", "oneOf"})) {
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
    if (const Json* type = member(schema, "type")) {
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
    return bound("minimum", std::greater_equal<>()) && bound("maximum", std::less_equal<>()) &&
           bound("exclusiveMinimum", std::greater<>()) && bound("exclusiveMaximum", std::less<>());
  }

  bool are_items(const Json& value, const Json& schema, int depth) const {
    if (value.size() < schema.value("minItems", std::size_t{0})) return false;
    if (value.size() > schema.value("maxItems", value.size())) return false;
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
