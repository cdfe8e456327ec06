#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "grammar/mutation.h"
#include "grammar/regex.h"
#include "grammar/schema_facts.h"

namespace dovetail::grammar {
namespace {

struct Pattern {
  std::string text;
  std::string where;
  Automaton names;
};

Result<std::vector<Pattern>> read_patterns(const Bundle& bundle, Spelling spelling, Work& work) {
  std::vector<Pattern> out;
  for (const SchemaRef& schema : bundle) {
    const Json* patterns = schema.find("patternProperties");
    if (patterns == nullptr) continue;
    for (const auto& [text, value] : patterns->items()) {
      if (std::any_of(out.begin(), out.end(),
                      [&text = text](const Pattern& known) { return known.text == text; })) {
        continue;
      }
      const std::string where = schema.child("patternProperties").child(text).where;
      auto names = compile_pattern(text, Span::kPart, spelling, where, work);
      if (!names) return fail(names.error());
      for (const Pattern& other : out) {
        const auto both = intersection(*names, other.names, where, work);
        if (!both) return fail(both.error());
        if (!both->empty()) {
          return fail(ErrorKind::kUnsupported,
                      "{}: not supported, as a name may match both this pattern and that of {}",
                      where, other.where);
        }
      }
      out.push_back({text, where, std::move(*names)});
    }
  }
  return out;
}

// All that the bundle says of members called `name`.
std::vector<SchemaRef> value_of(const Bundle& bundle, const std::string& name,
                                const std::vector<Pattern>& patterns, Spelling spelling) {
  const std::string spelled = spelling == Spelling::kJson ? write_json_string(name) : name;
  std::vector<SchemaRef> out;
  for (const SchemaRef& schema : bundle) {
    bool named = false;
    if (const Json* properties = schema.find("properties");
        properties && properties->contains(name)) {
      out.push_back(schema.child("properties").child(name));
      named = true;
    }
    const Json* own = schema.find("patternProperties");
    for (const Pattern& pattern : patterns) {
      if (own == nullptr || !own->contains(pattern.text)) continue;
      if (!matches(pattern.names, spelled)) continue;
      out.push_back(schema.child("patternProperties").child(pattern.text));
      named = true;
    }
    if (!named && schema.find("additionalProperties") != nullptr) {
      out.push_back(schema.child("additionalProperties"));
    }
  }
  return out;
}

// All that the bundle says of members that `pattern` matches, or none if it is null.
std::vector<SchemaRef> value_of(const Bundle& bundle, const Pattern* pattern) {
  std::vector<SchemaRef> out;
  for (const SchemaRef& schema : bundle) {
    const Json* own = schema.find("patternProperties");
    if (pattern != nullptr && own != nullptr && own->contains(pattern->text)) {
      out.push_back(schema.child("patternProperties").child(pattern->text));
    } else if (schema.find("additionalProperties") != nullptr) {
      out.push_back(schema.child("additionalProperties"));
    }
  }
  return out;
}

}  // namespace

Result<Members> read_members(const Bundle& bundle, const SchemaOptions& options, Work& work,
                             Spelling spelling) {
  Members out;
  const std::string where = bundle.empty() ? "#" : bundle[0].where;
  const auto patterns = read_patterns(bundle, spelling, work);
  if (!patterns) return fail(patterns.error());
  std::vector<std::string> names;
  std::set<std::string, std::less<>> seen;
  std::set<std::string, std::less<>> required;
  bool names_some = !patterns->empty();
  bool speaks_of_others = false;
  for (const SchemaRef& schema : bundle) {
    speaks_of_others = speaks_of_others || schema.find("additionalProperties") != nullptr;
    const Json* properties = schema.find("properties");
    if (properties == nullptr) continue;
    names_some = true;
    for (const auto& [name, value] : properties->items()) {
      if (seen.insert(name).second) names.push_back(name);
    }
  }
  for (const SchemaRef& schema : bundle) {
    const Json* list = schema.find("required");
    if (list == nullptr) continue;
    for (const Json& item : *list) {
      const auto& name = item.get_ref<const std::string&>();
      required.insert(name);
      if (seen.insert(name).second) names.push_back(name);
    }
  }
  for (const std::string& name : names) {
    // Looking a member up goes through all of them.
    work.spend(1 + bundle.size() * names.size() / 8 + patterns->size());
    if (const Status enough = work.check(where); !enough) return fail(enough.error());
    out.named.push_back(
        {name, required.contains(name), value_of(bundle, name, *patterns, spelling)});
  }

  const bool rest = options.literal || speaks_of_others || !names_some;
  if (names.empty() && patterns->empty()) {
    if (rest) out.others.push_back({std::nullopt, value_of(bundle, nullptr)});
    return out;
  }
  if (!rest && patterns->empty()) return out;
  const auto named = language_of(names, spelling, where, work);
  if (!named) return fail(named.error());
  for (const Pattern& pattern : *patterns) {
    auto left = difference(pattern.names, *named, pattern.where, work);
    if (!left) return fail(left.error());
    out.others.push_back({std::move(*left), value_of(bundle, &pattern)});
  }
  if (!rest) return out;
  auto left = compile_pattern("[\\s\\S]*", Span::kWhole, spelling, where, work);
  if (left && !mutated(Mutant::kAdditionalLikeNamed)) {
    left = difference(*left, *named, where, work);
  }
  for (const Pattern& pattern : *patterns) {
    if (left) left = difference(*left, pattern.names, where, work);
  }
  if (!left) return fail(left.error());
  out.others.push_back({std::move(*left), value_of(bundle, nullptr)});
  return out;
}

}  // namespace dovetail::grammar
