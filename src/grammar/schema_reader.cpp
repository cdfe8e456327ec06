#include "grammar/schema_reader.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>
#include <optional>

namespace dovetail::grammar {
namespace {

constexpr std::size_t kMaxCombinations = 512;
constexpr std::size_t kMaxPath = 64;

// What a keyword's value must be; kIgnored says nothing of the instance.
enum class Form {
  kIgnored,
  kType,
  kList,
  kSchema,
  kSchemas,
  kSchemaMap,
  kNames,
  kCount,
  kNumber,
  kText,
  kReference,
  kAnything,
  kFalseOnly,
  kDefinitions
};

struct Keyword {
  std::string_view name;
  Form form;
};

constexpr std::array<Keyword, 36> kKeywords = {{
    {"title", Form::kIgnored},
    {"description", Form::kIgnored},
    {"default", Form::kIgnored},
    {"examples", Form::kIgnored},
    {"$schema", Form::kIgnored},
    {"$id", Form::kIgnored},
    {"$comment", Form::kIgnored},
    {"deprecated", Form::kIgnored},
    {"readOnly", Form::kIgnored},
    {"writeOnly", Form::kIgnored},
    {"$defs", Form::kDefinitions},
    {"definitions", Form::kDefinitions},
    {"type", Form::kType},
    {"enum", Form::kList},
    {"const", Form::kAnything},
    {"$ref", Form::kReference},
    {"allOf", Form::kSchemas},
    {"anyOf", Form::kSchemas},
    {"oneOf", Form::kSchemas},
    {"properties", Form::kSchemaMap},
    {"patternProperties", Form::kSchemaMap},
    {"additionalProperties", Form::kSchema},
    {"required", Form::kNames},
    {"items", Form::kSchema},
    {"prefixItems", Form::kSchemas},
    {"minItems", Form::kCount},
    {"maxItems", Form::kCount},
    {"uniqueItems", Form::kFalseOnly},
    {"minLength", Form::kCount},
    {"maxLength", Form::kCount},
    {"pattern", Form::kText},
    {"format", Form::kText},
    {"minimum", Form::kNumber},
    {"maximum", Form::kNumber},
    {"exclusiveMinimum", Form::kNumber},
    {"exclusiveMaximum", Form::kNumber},
}};

std::string_view wanted(const Json& value, Form form) {
  const auto all = [&](const auto& good) { return std::all_of(value.begin(), value.end(), good); };
  const auto is_schema = [](const Json& v) { return v.is_object() || v.is_boolean(); };
  switch (form) {
    case Form::kIgnored:
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
    case Form::kReference:
    case Form::kText:
      return value.is_string() ? "" : "must be a string";
    case Form::kFalseOnly:
      return value == Json(false) ? "" : "true is not supported";
  }
  return "";
}

Status check(const SchemaRef& schema) {
  for (const auto& [name, value] : schema.at->items()) {
    const auto known =
        std::find_if(kKeywords.begin(), kKeywords.end(),
                     [&name = name](const Keyword& keyword) { return keyword.name == name; });
    const SchemaRef at = schema.child(name);
    if (name.empty() || known == kKeywords.end()) {
      return fail(ErrorKind::kUnsupported, "{}: the keyword \"{}\" is not supported", at.where,
                  name);
    }
    if (name == "items" && value.is_array()) {
      return fail(ErrorKind::kUnsupported,
                  "{}: \"items\" as a list is not supported; use \"prefixItems\"", at.where);
    }
    const std::string_view wrong = wanted(value, known->form);
    if (!wrong.empty()) {
      const bool bad = known->form != Form::kFalseOnly || !value.is_boolean();
      return fail(bad ? ErrorKind::kInvalid : ErrorKind::kUnsupported, "{}: \"{}\" {}", at.where,
                  name, wrong);
    }
  }
  return {};
}

// Whether it has keywords that speak of the instance and are not followed here.
bool says_something(const Json& schema) {
  for (const auto& [name, value] : schema.items()) {
    const auto known =
        std::find_if(kKeywords.begin(), kKeywords.end(),
                     [&name = name](const Keyword& keyword) { return keyword.name == name; });
    if (known->form == Form::kIgnored || known->form == Form::kDefinitions ||
        known->form == Form::kReference) {
      continue;
    }
    if (name != "allOf" && name != "anyOf" && name != "oneOf") return true;
  }
  return false;
}

// Both hold: every pair.
Result<std::vector<Bundle>> combine(std::vector<Bundle> a, const std::vector<Bundle>& b,
                                    const std::string& where) {
  if (a.size() * b.size() > kMaxCombinations) {
    return fail(ErrorKind::kUnsupported, "{}: more than {} combinations of alternatives", where,
                kMaxCombinations);
  }
  if (b.size() == 1 && b[0].empty()) return a;
  std::vector<Bundle> out;
  for (const Bundle& left : a) {
    for (const Bundle& right : b) {
      Bundle both = left;
      for (const SchemaRef& schema : right) {
        const bool there = std::any_of(both.begin(), both.end(), [&](const SchemaRef& other) {
          return other.at == schema.at;
        });
        if (!there) both.push_back(schema);
      }
      out.push_back(std::move(both));
    }
  }
  return out;
}

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (i + 2 >= text.size() || std::isxdigit(static_cast<unsigned char>(text[i + 1])) == 0 ||
        std::isxdigit(static_cast<unsigned char>(text[i + 2])) == 0) {
      return std::nullopt;
    }
    out += static_cast<char>(std::stoi(std::string(text.substr(i + 1, 2)), nullptr, 16));
    i += 2;
  }
  return out;
}

}  // namespace

SchemaRef SchemaRef::child(std::string_view key) const {
  std::string path = where + "/";
  for (const char c : key) {
    if (c == '~') {
      path += "~0";
    } else if (c == '/') {
      path += "~1";
    } else {
      path += c;
    }
  }
  return {&*at->find(std::string(key)), std::move(path)};
}

SchemaRef SchemaRef::child(std::size_t index) const {
  return {&(*at)[index], fmt::format("{}/{}", where, index)};
}

const Json* SchemaRef::find(std::string_view key) const {
  if (!at->is_object()) return nullptr;
  const auto it = at->find(std::string(key));
  return it == at->end() ? nullptr : &*it;
}

std::vector<const Json*> key_of(const Bundle& bundle) {
  std::vector<const Json*> key;
  for (const SchemaRef& schema : bundle) key.push_back(schema.at);
  std::sort(key.begin(), key.end());
  return key;
}

std::optional<SchemaRef> SchemaReader::follow(std::string_view pointer) const {
  if (!pointer.empty() && pointer[0] != '/') return std::nullopt;
  SchemaRef at = root();
  while (!pointer.empty()) {
    const std::size_t slash = std::min(pointer.find('/', 1), pointer.size());
    std::string key;
    for (std::size_t i = 1; i < slash; ++i) {
      const char next = i + 1 < slash ? pointer[i + 1] : '\0';
      if (pointer[i] != '~') {
        key += pointer[i];
      } else if (next == '0' || next == '1') {
        key += next == '0' ? '~' : '/';
        ++i;
      } else {
        return std::nullopt;
      }
    }
    const bool number =
        !key.empty() && key.size() < 10 &&
        std::all_of(key.begin(), key.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (at.find(key) != nullptr) {
      at = at.child(key);
    } else if (at.at->is_array() && number && std::stoul(key) < at.at->size()) {
      at = at.child(std::stoul(key));
    } else {
      return std::nullopt;
    }
    pointer.remove_prefix(slash);
  }
  return at;
}

Result<SchemaRef> SchemaReader::resolve(const SchemaRef& schema, const Json& reference) const {
  const auto& text = reference.get_ref<const std::string&>();
  const std::string where = schema.where + "/$ref";
  if (text.empty() || text[0] != '#' || (text.size() > 1 && text[1] != '/')) {
    return fail(ErrorKind::kUnsupported,
                "{}: \"$ref\" to \"{}\" is not supported; it must point into this schema, as in "
                "\"#/$defs/name\"",
                where, text);
  }
  const auto pointer = percent_decoded(std::string_view(text).substr(1));
  const auto at = pointer ? follow(*pointer) : std::nullopt;
  if (!at) return fail(ErrorKind::kInvalid, "{}: \"{}\" leads nowhere", where, text);
  if (!at->at->is_object() && !at->at->is_boolean()) {
    return fail(ErrorKind::kInvalid, "{}: \"{}\" is not a schema", where, text);
  }
  return *at;
}

Result<std::vector<Bundle>> SchemaReader::flatten_one(const SchemaRef& schema,
                                                      std::vector<const Json*>& path) {
  // With room for what looking around in the schema takes.
  work_.spend(100);
  if (const Status enough = work_.check(schema.where); !enough) return fail(enough.error());
  if (schema.at->is_boolean()) {
    return schema.at->get<bool>() ? std::vector<Bundle>{{}} : std::vector<Bundle>{};
  }
  if (!schema.at->is_object()) {
    return fail(ErrorKind::kInvalid, "{}: a schema must be an object, true or false", schema.where);
  }
  if (std::find(path.begin(), path.end(), schema.at) != path.end()) {
    return fail(ErrorKind::kInvalid, "{}: refers to itself without a value in between",
                schema.where);
  }
  if (path.size() >= kMaxPath) {
    return fail(ErrorKind::kUnsupported, "{}: more than {} references and combinations in a row",
                schema.where, kMaxPath);
  }
  if (!checked_[schema.at]) {
    if (const Status good = check(schema); !good) return fail(good.error());
    checked_[schema.at] = true;
    if (schema.find("oneOf") != nullptr) one_ofs_.push_back(schema.child("oneOf"));
  }
  path.push_back(schema.at);
  std::vector<Bundle> out(1);
  if (says_something(*schema.at)) out[0].push_back(schema);
  const auto also = [&](const SchemaRef& part) -> Status {
    auto bundles = flatten_one(part, path);
    if (!bundles) return fail(std::move(bundles.error()));
    std::size_t copied = 1;
    for (const Bundle& bundle : out) copied += bundle.size();
    work_.spend(copied * bundles->size());
    auto both = combine(std::move(out), *bundles, schema.where);
    if (!both) return fail(std::move(both.error()));
    out = std::move(*both);
    return {};
  };
  if (const Json* reference = schema.find("$ref")) {
    const auto target = resolve(schema, *reference);
    if (!target) return fail(target.error());
    if (const Status good = also(*target); !good) return fail(good.error());
  }
  if (const Json* parts = schema.find("allOf")) {
    for (std::size_t i = 0; i < parts->size(); ++i) {
      if (const Status good = also(schema.child("allOf").child(i)); !good) {
        return fail(good.error());
      }
    }
  }
  for (const char* keyword : {"anyOf", "oneOf"}) {
    const Json* parts = schema.find(keyword);
    if (parts == nullptr) continue;
    std::vector<Bundle> any;
    for (std::size_t i = 0; i < parts->size(); ++i) {
      auto bundles = flatten_one(schema.child(keyword).child(i), path);
      if (!bundles) return fail(std::move(bundles.error()));
      any.insert(any.end(), bundles->begin(), bundles->end());
      if (any.size() > kMaxCombinations) {
        return fail(ErrorKind::kUnsupported, "{}: more than {} alternatives", schema.where,
                    kMaxCombinations);
      }
    }
    auto both = combine(std::move(out), any, schema.where);
    if (!both) return fail(std::move(both.error()));
    out = std::move(*both);
  }
  path.pop_back();
  return out;
}

Result<std::vector<Bundle>> SchemaReader::flatten(const std::vector<SchemaRef>& schemas) {
  std::vector<Bundle> out = {{}};
  for (const SchemaRef& schema : schemas) {
    if (const Status enough = work_.check(schema.where); !enough) return fail(enough.error());
    std::vector<const Json*> path;
    auto bundles = flatten_one(schema, path);
    if (!bundles) return bundles;
    auto both = combine(std::move(out), *bundles, schema.where);
    if (!both) return both;
    out = std::move(*both);
  }
  // Alternatives that come to the same are one.
  work_.spend(out.size() * out.size());
  std::vector<std::vector<const Json*>> keys;
  std::erase_if(out, [&](const Bundle& bundle) {
    auto key = key_of(bundle);
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) return true;
    keys.push_back(std::move(key));
    return false;
  });
  return out;
}

}  // namespace dovetail::grammar
