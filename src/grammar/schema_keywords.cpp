#include "grammar/schema_keywords.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "grammar/numbers.h"
#include "grammar/regex.h"
#include "grammar/schema_facts.h"

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
  kExclusive,
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
    {"exclusiveMinimum", Form::kExclusive},
    {"exclusiveMaximum", Form::kExclusive},
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
    case Form::kExclusive:  // of draft 4: of the bound beside it
      return value.is_number() || value.is_boolean() ? "" : "must be a number";
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

// What clients and converters write for a keyword that they do not have: null, an empty list, and
// "required" of a property as draft 3 has it.
bool is_slip(std::string_view name, const Json& value) {
  return value.is_null() || (value.is_array() && value.empty()) ||
         (name == "required" && value.is_boolean());
}

// Every name of a "type" of the right form is one.
Status check_types(const SchemaRef& type, bool lenient) {
  const auto check_one = [&](const Json& one) -> Status {
    const auto& name = one.get_ref<const std::string&>();
    if (types_named(name, lenient) != 0) return {};
    return fail(
        lenient ? ErrorKind::kUnsupported : ErrorKind::kInvalid,
        "{}: \"{}\" is no type; there are null, boolean, integer, number, string, array and "
        "object",
        type.where, name);
  };
  if (type.at->is_string()) return check_one(*type.at);
  for (const Json& one : *type.at) {
    if (Status good = check_one(one); !good) return good;
  }
  return {};
}

bool names_integer(const Json& type) {
  if (type.is_array()) return std::any_of(type.begin(), type.end(), names_integer);
  return types_named(type.get_ref<const std::string&>(), true) == kInteger;
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
        (name == "type" && wanted(value, Form::kType).empty() && !names_integer(value)) ||
        (name == "const" && plain(value)) ||
        (name == "enum" && value.is_array() && std::all_of(value.begin(), value.end(), plain));
    if (!good) return false;
    ++asserting;
  }
  return asserting <= 1;
}

// The largest count that a keyword of the right form holds.
std::uint64_t largest_count_of(std::string_view name, const Json& value) {
  const auto of_pattern = [](const std::string& pattern) {
    const auto regex = parse_regex(pattern);
    return regex ? largest_count(*regex) : 0;
  };
  if (name == "pattern") return of_pattern(value.get_ref<const std::string&>());
  if (name == "patternProperties") {
    std::uint64_t out = 0;
    for (const auto& [pattern, unused] : value.items()) out = std::max(out, of_pattern(pattern));
    return out;
  }
  return find_keyword(name)->form == Form::kCount ? count_of(value) : 0;
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

Status check_keyword(const SchemaRef& schema, std::string_view name, bool lenient, Work& work) {
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
  if (!wrong.empty()) {
    const bool unkept = lenient && is_slip(name, *at.at);
    return fail(unkept ? ErrorKind::kUnsupported : ErrorKind::kInvalid, "{}: \"{}\" {}", at.where,
                name, wrong);
  }
  if (name == "patternProperties") {
    for (const auto& [pattern, value] : at.at->items()) {
      const std::string why = refusal("pattern", pattern, work);
      if (!why.empty())
        return fail(ErrorKind::kUnsupported, "{}: {}", at.child(pattern).where, why);
    }
  }
  const std::string why = refusal(name, *at.at, work);
  if (!why.empty()) return fail(ErrorKind::kUnsupported, "{}: {}", at.where, why);
  if (name == "type") return check_types(at, lenient);
  if (name == "not" && at.find("type") != nullptr) return check_types(at.child("type"), lenient);
  if (lenient && !work.keeps(largest_count_of(name, *at.at))) {
    return fail(ErrorKind::kUnsupported, "{}: a count that is too large", at.where);
  }
  return {};
}

}  // namespace dovetail::grammar
