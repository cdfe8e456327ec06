#include "grammar/schema_reader.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <optional>

#include "grammar/schema_keywords.h"

namespace dovetail::grammar {
namespace {

constexpr std::size_t kMaxCombinations = 512;
constexpr std::size_t kMaxPath = 64;

// Whether it has keywords that speak of the instance and are not followed here.
bool says_something(const Json& schema) {
  for (const auto& [name, value] : schema.items()) {
    if (asserts(name)) return true;
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
  return {&*at->find(std::string(key)), std::move(path), left_out};
}

SchemaRef SchemaRef::child(std::size_t index) const {
  return {&(*at)[index], fmt::format("{}/{}", where, index), left_out};
}

const Json* SchemaRef::find(std::string_view key) const {
  if (!at->is_object()) return nullptr;
  const auto it = at->find(std::string(key));
  if (it == at->end() || (left_out != nullptr && left_out->contains(&*it))) return nullptr;
  return &*it;
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

Status SchemaReader::leave_out(const std::string& where, const Error& error) {
  if (!lenient_ || error.kind != ErrorKind::kUnsupported || work_.exhausted()) return fail(error);
  left_out_.insert(where);
  return {};
}

Status SchemaReader::check(const SchemaRef& schema) {
  for (const auto& [name, value] : schema.at->items()) {
    const Status good = check_keyword(schema, name, lenient_, work_);
    if (good) continue;
    const auto without = [&](const std::string& keyword) {
      const SchemaRef at = schema.child(keyword);
      left_out_values_.insert(at.at);
      return leave_out(at.where, good.error());
    };
    if (const Status left = without(name); !left) return left;
    // Members that a pattern was for are not "additional".
    if (name == "patternProperties" && value.is_object() &&
        schema.find("additionalProperties") != nullptr) {
      if (const Status left = without("additionalProperties"); !left) return left;
    }
  }
  return {};
}

std::vector<SchemaRef> SchemaReader::tag(const SchemaRef& schema,
                                         const std::vector<Bundle>& bundles) {
  const Json* discriminator = schema.find("discriminator");
  if (discriminator == nullptr || !discriminator->is_object()) return {};
  const auto name = discriminator->find("propertyName");
  if (name == discriminator->end() || !name->is_string()) return {};
  const bool all = std::all_of(bundles.begin(), bundles.end(), [&](const Bundle& bundle) {
    return std::any_of(bundle.begin(), bundle.end(), [&](const SchemaRef& part) {
      const Json* properties = part.find("properties");
      return properties != nullptr && properties->contains(name->get_ref<const std::string&>());
    });
  });
  if (!all) return {};
  Json& required = tags_[discriminator];
  if (required.is_null()) required = {{"required", {*name}}};
  return {{&required, schema.child("discriminator").where, nullptr}};
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
  const bool fresh = checked_.insert(schema.at).second;
  if (fresh) {
    if (const Status good = check(schema); !good) return fail(good.error());
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
    const Status good = target ? also(*target) : leave_out(schema.where + "/$ref", target.error());
    if (!good) return fail(good.error());
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
    const std::vector<SchemaRef> beside = tag(schema, any);
    if (std::string_view(keyword) == "oneOf" && fresh) {
      one_ofs_.push_back({schema.child(keyword), beside});
    }
    if (!beside.empty()) any = *combine(std::move(any), {beside}, schema.where);
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
