#include "grammar/schema_keywords.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "grammar/numbers.h"
#include "grammar/regex.h"

namespace dovetail::grammar {
namespace {

// What a keyword's value must be; annotations say nothing of the instance.
enum class Form {
  kAnnotation,
  kType,
  kList,
  kSchema,
  kSchemas,
  kSchemaMap,
  kNames,
  kCount,
  kNumber,
  kDivisor,
  kText,
  kReference,
  kAnything,
  kFlag,
  kDefinitions
};

struct Keyword {
  std::string_view name;
  Form form;
};

constexpr std::array<Keyword, 51> kKeywords = {{
    {"title", Form::kAnnotation},
    {"description", Form::kAnnotation},
    {"default", Form::kAnnotation},
    {"examples", Form::kAnnotation},
    {"example", Form::kAnnotation},
    {"$schema", Form::kAnnotation},
    {"$id", Form::kAnnotation},
    {"$anchor", Form::kAnnotation},
    {"$comment", Form::kAnnotation},
    {"deprecated", Form::kAnnotation},
    {"readOnly", Form::kAnnotation},
    {"writeOnly", Form::kAnnotation},
    {"contentEncoding", Form::kAnnotation},
    {"contentMediaType", Form::kAnnotation},
    {"contentSchema", Form::kAnnotation},
    {"externalDocs", Form::kAnnotation},
    {"xml", Form::kAnnotation},
    {"discriminator", Form::kAnnotation},  // SchemaReader looks at it
    {"$defs", Form::kDefinitions},
    {"definitions", Form::kDefinitions},
    {"type", Form::kType},
    {"nullable", Form::kFlag},
    {"enum", Form::kList},
    {"const", Form::kAnything},
    {"not", Form::kSchema},
    {"$ref", Form::kReference},
    {"allOf", Form::kSchemas},
    {"anyOf", Form::kSchemas},
    {"oneOf", Form::kSchemas},
    {"properties", Form::kSchemaMap},
    {"patternProperties", Form::kSchemaMap},
    {"additionalProperties", Form::kSchema},
    {"propertyNames", Form::kSchema},
    {"required", Form::kNames},
    {"minProperties", Form::kCount},
    {"maxProperties", Form::kCount},
    {"items", Form::kSchema},  // or, as before draft 2020-12, kSchemas
    {"additionalItems", Form::kSchema},
    {"prefixItems", Form::kSchemas},
    {"minItems", Form::kCount},
    {"maxItems", Form::kCount},
    {"uniqueItems", Form::kFlag},
    {"minLength", Form::kCount},
    {"maxLength", Form::kCount},
    {"pattern", Form::kText},
    {"format", Form::kText},
    {"minimum", Form::kNumber},
    {"maximum", Form::kNumber},
    {"exclusiveMinimum", Form::kNumber},
    {"exclusiveMaximum", Form::kNumber},
    {"multipleOf", Form::kDivisor},
}};

const Keyword* find_keyword(std::string_view name) {
  const auto* known = std::find_if(kKeywords.begin(), kKeywords.end(),
                                   [&](const Keyword& keyword) { return keyword.name == name; });
  return known == kKeywords.end() ? nullptr : known;
}

bool is_vendor_keyword(std::string_view name) { return name.starts_with("x-"); }

std::string_view wanted(const Json& value, Form form) {
  const auto all = [&](const auto& good) { return std::all_of(value.begin(), value.end(), good); };
  const auto is_schema = [](const Json& v) { return v.is_object() || v.is_boolean(); };
  switch (form) {
    case Form::kAnnotation:
    case Form::kAnything:
      return "";
    case Form::kType:
      if (value.is_string()) return "";
      if (value.is_array() && !value.empty() && all([](const Json& v) { return v.is_string(); })) {
        return "";
      }
      return "must be the name of a type or a list of them";
    case Form::kList:
      return value.is_array() && !value.empty() ? "" : "must be a list of one value or more";
    case Form::kSchema:
      return is_schema(value) ? "" : "must be a schema (an object, true or false)";
    case Form::kSchemas:
      return value.is_array() && !value.empty() && all(is_schema) ? ""
                                                                  : "must be a list of schemas";
    case Form::kDefinitions:
    case Form::kSchemaMap:
      return value.is_object() && all(is_schema) ? "" : "must be an object of schemas";
    case Form::kNames:
      return value.is_array() && all([](const Json& v) { return v.is_string(); })
                 ? ""
                 : "must be a list of names";
    case Form::kCount:
      return value.is_number_unsigned() || (value.is_number_integer() && value >= 0) ||
                     (value.is_number_float() && value >= 0 && value <= 1e15 &&
                      value == Json(static_cast<double>(value.get<std::uint64_t>())))
                 ? ""
                 : "must be a whole number, 0 or more";
    case Form::kNumber:
      return value.is_number() ? "" : "must be a number";
    case Form::kDivisor:
      return value.is_number() && value > 0 ? "" : "must be a number above 0";
    case Form::kReference:
    case Form::kText:
      return value.is_string() ? "" : "must be a string";
    case Form::kFlag:
      return value.is_boolean() ? "" : "must be true or false";
  }
  return "";
}

// Whether read_facts() can take the values of a "not" away: all of them, none, those of some types,
// or null and some strings.
bool can_negate(const Json& schema) {
  if (schema.is_boolean()) return true;
  std::size_t asserting = 0;
  for (const auto& [name, value] : schema.items()) {
    const Keyword* known = find_keyword(name);
    if (known != nullptr && known->form == Form::kAnnotation) continue;
    const auto plain = [](const Json& one) { return one.is_string() || one.is_null(); };
    const bool good =
        (name == "type" && wanted(value, Form::kType).empty() && value != Json("integer") &&
         std::find(value.begin(), value.end(), Json("integer")) == value.end()) ||
        (name == "const" && plain(value)) ||
        (name == "enum" && value.is_array() && std::all_of(value.begin(), value.end(), plain));
    if (!good) return false;
    ++asserting;
  }
  return asserting <= 1;
}

// Why a keyword of the right form cannot be kept; empty if it can.
std::string refusal(std::string_view name, const Json& value, Work& work) {
  const auto of_pattern = [&](const std::string& pattern) {
    work.spend(pattern.size());
    const auto regex = parse_regex(pattern);
    return regex ? std::string() : regex.error().message;
  };
  if (name == "pattern") return of_pattern(value.get_ref<const std::string&>());
  if (name == "multipleOf" && !is_divisor(decimal_of(value))) {
    return fmt::format(
        "{} is not supported; there are divisors of up to {} units of their last decimal place",
        value.dump(), kMaxDivisor);
  }
  if (name == "not" && !can_negate(value)) {
    return "\"not\" is supported of \"type\" (but for integer), and of \"const\" and \"enum\" of "
           "strings and null";
  }
  return "";
}

}  // namespace

bool asserts(std::string_view keyword) {
  const Keyword* known = find_keyword(keyword);
  if (known == nullptr || keyword == "nullable") return false;
  if (known->form == Form::kAnnotation || known->form == Form::kDefinitions ||
      known->form == Form::kReference) {
    return false;
  }
  return keyword != "allOf" && keyword != "anyOf" && keyword != "oneOf";
}

Status check_keyword(const SchemaRef& schema, std::string_view name, Work& work) {
  if (is_vendor_keyword(name)) return {};
  const SchemaRef at = schema.child(name);
  const Keyword* known = find_keyword(name);
  if (known == nullptr) {
    return fail(ErrorKind::kUnsupported, "{}: the keyword \"{}\" is not supported", at.where, name);
  }
  const bool list = name == "items" && at.at->is_array();
  if (list && schema.find("prefixItems") != nullptr) {
    return fail(ErrorKind::kUnsupported,
                "{}: \"items\" as a list is not supported beside \"prefixItems\"", at.where);
  }
  const std::string_view wrong = wanted(*at.at, list ? Form::kSchemas : known->form);
  if (!wrong.empty()) return fail(ErrorKind::kInvalid, "{}: \"{}\" {}", at.where, name, wrong);
  if (name == "patternProperties") {
    for (const auto& [pattern, value] : at.at->items()) {
      const std::string why = refusal("pattern", pattern, work);
      if (!why.empty())
        return fail(ErrorKind::kUnsupported, "{}: {}", at.child(pattern).where, why);
    }
  }
  const std::string why = refusal(name, *at.at, work);
  if (!why.empty()) return fail(ErrorKind::kUnsupported, "{}: {}", at.where, why);
  return {};
}

}  // namespace dovetail::grammar
