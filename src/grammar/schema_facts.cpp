#include "grammar/schema_facts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "grammar/determinize.h"
#include "grammar/formats.h"
#include "grammar/regex.h"
#include "grammar/schema_keywords.h"

namespace dovetail::grammar {
namespace {

constexpr std::array<std::pair<std::string_view, std::uint32_t>, 7> kTypes = {
    {{"null", kNull},
     {"boolean", kBoolean},
     {"integer", kInteger},
     {"number", kNumber},
     {"string", kString},
     {"array", kArray},
     {"object", kObject}}};

// The types that a keyword speaks of; 0: all of them.
std::uint32_t types_of_keyword(std::string_view name, const Json& value) {
  if (value.is_null() || (name == "required" && !value.is_array())) return 0;  // left out
  if (name == "format") {
    if (!value.is_string()) return 0;
    const Format* format = find_format(value.get_ref<const std::string&>());
    return format == nullptr ? 0 : format->pattern.empty() ? kNumber : kString;
  }
  if (name == "uniqueItems") return value == Json(true) ? kArray : 0;
  for (const auto* keyword : {"minLength", "maxLength", "pattern"}) {
    if (name == keyword) return kString;
  }
  for (const auto* keyword :
       {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}) {
    if (name == keyword) return kNumber;
  }
  for (const auto* keyword : {"items", "additionalItems", "prefixItems", "minItems", "maxItems"}) {
    if (name == keyword) return kArray;
  }
  for (const auto* keyword : {"properties", "patternProperties", "additionalProperties",
                              "propertyNames", "required", "minProperties", "maxProperties"}) {
    if (name == keyword) return kObject;
  }
  return 0;
}

// check_keyword() says which names there are.
std::uint32_t types_of(const Json& type) {
  if (type.is_string()) return types_named(type.get_ref<const std::string&>(), true);
  std::uint32_t types = 0;
  for (const Json& name : type) types |= types_of(name);
  return types;
}

void read_counts(const SchemaRef& schema, std::string_view least, std::string_view most,
                 Counts& counts) {
  if (const Json* min = schema.find(least)) counts.min = std::max(counts.min, count_of(*min));
  if (const Json* max = schema.find(most)) {
    const std::uint64_t value = count_of(*max);
    counts.max = counts.max ? std::min(*counts.max, value) : value;
  }
}

void tighten(std::optional<Bound>& bound, const Bound& next, bool low) {
  const bool exclusive = next.exclusive;
  if (bound) {
    const int order = compare(next.value, bound->value);
    const bool tighter = low ? order > 0 : order < 0;
    if (!tighter && !(order == 0 && exclusive)) return;
  }
  bound = next;
}

void keep_common(Facts& facts, std::vector<const Json*> values, Work& work) {
  work.spend(values.size());
  if (facts.values) {
    work.spend(values.size() * facts.values->size());
    if (work.exhausted()) return;  // read_facts() says so
    std::erase_if(values, [&](const Json* value) {
      return std::none_of(facts.values->begin(), facts.values->end(),
                          [&](const Json* other) { return *other == *value; });
    });
  }
  facts.values = std::move(values);
}

std::uint64_t code_points(std::string_view utf8) {
  return static_cast<std::uint64_t>(std::count_if(utf8.begin(), utf8.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

// A whole number in decimal.
Bound bound_of(std::string_view number) {
  const bool negative = number.starts_with('-');
  return {{negative, std::string(number.substr(negative ? 1 : 0)), ""}, false};
}

void read_numbers(const SchemaRef& schema, NumberRange& numbers) {
  const auto tighten_to = [&](std::string_view name, std::string_view exclusive, bool low) {
    std::optional<Bound>& bound = low ? numbers.low : numbers.high;
    const Json* value = schema.find(name);
    const Json* beyond = schema.find(exclusive);
    // In draft 4, true makes the bound beside it exclusive.
    const bool flag = beyond != nullptr && beyond->is_boolean();
    if (value != nullptr) {
      tighten(bound, {decimal_of(*value), flag && beyond->get<bool>()}, low);
    }
    if (beyond != nullptr && !flag) tighten(bound, {decimal_of(*beyond), true}, low);
  };
  tighten_to("minimum", "exclusiveMinimum", true);
  tighten_to("maximum", "exclusiveMaximum", false);
  if (const Json* divisor = schema.find("multipleOf")) {
    numbers.divisors.push_back(decimal_of(*divisor));
  }
}

void read_format(const SchemaRef& schema, Facts& facts) {
  const Json* name = schema.find("format");
  if (name == nullptr) return;
  const Format* format = find_format(name->get_ref<const std::string&>());
  if (format == nullptr) return;
  if (!format->pattern.empty()) {
    facts.patterns.push_back(schema.child("format"));
    return;
  }
  tighten(facts.numbers.low, bound_of(format->low), true);
  tighten(facts.numbers.high, bound_of(format->high), false);
}

// Takes away what a "not" names (check_keyword() says what there is).
void read_not(const SchemaRef& schema, Facts& facts) {
  const Json* value = schema.find("not");
  if (value == nullptr || *value == Json(false)) return;
  const SchemaRef negated = schema.child("not");
  const auto exclude = [&](const Json& one) {
    if (one.is_null()) facts.types &= ~kNull;
    if (one.is_string()) facts.excluded.push_back(one.get<std::string>());
  };
  if (const Json* type = negated.find("type")) {
    facts.types &= ~types_of(*type);
  } else if (const Json* list = negated.find("enum")) {
    for (const Json& one : *list) exclude(one);
  } else if (const Json* one = negated.find("const")) {
    exclude(*one);
  } else {
    facts.types = 0;
  }
}

bool within(const Counts& counts, std::uint64_t count) {
  return count >= counts.min && (!counts.max || count <= *counts.max);
}

Result<Automaton> pattern_language(const SchemaRef& pattern, Spelling spelling, Work& work) {
  const auto& text = pattern.at->get_ref<const std::string&>();
  if (!pattern.where.ends_with("/format")) {
    return compile_pattern(text, Span::kPart, spelling, pattern.where, work);
  }
  return compile_pattern(find_format(text)->pattern, Span::kWhole, spelling, pattern.where, work);
}

}  // namespace

std::uint32_t type_of(const Json& value) {
  if (value.is_null()) return kNull;
  if (value.is_boolean()) return kBoolean;
  if (value.is_string()) return kString;
  if (value.is_array()) return kArray;
  if (value.is_object()) return kObject;
  return decimal_of(value).fraction.empty() ? kInteger : kFraction;
}

std::uint32_t types_named(std::string_view name, bool any_case) {
  std::string lower(name);
  const auto is_capital = [](char c) { return c >= 'A' && c <= 'Z'; };
  if (any_case && std::all_of(name.begin(), name.end(), is_capital)) {
    for (char& c : lower) c = static_cast<char>(c - 'A' + 'a');
  }
  const auto known = std::find_if(kTypes.begin(), kTypes.end(),
                                  [&](const auto& entry) { return entry.first == lower; });
  return known == kTypes.end() ? 0 : known->second;
}

std::uint64_t count_of(const Json& value) {
  return value.is_number_float() ? static_cast<std::uint64_t>(value.get<double>())
                                 : value.get<std::uint64_t>();
}

Result<Facts> read_facts(const Bundle& bundle, const SchemaOptions& options, Work& work) {
  Facts facts;
  if (!bundle.empty()) facts.where = bundle[0].where;
  std::uint32_t implied = 0;
  bool typed = false;
  for (const SchemaRef& schema : bundle) {
    work.spend(100);
    if (const Status enough = work.check(schema.where); !enough) return fail(enough.error());
    for (const auto& [name, value] : schema.at->items()) {
      if (!asserts(name)) continue;
      const std::uint32_t types = types_of_keyword(name, value);
      implied |= types;
      if (types == kObject && name != "minProperties" && name != "maxProperties") {
        facts.object_keyword = schema.where + "/" + name;
      }
      if (types == kArray && name != "minItems" && name != "maxItems") {
        facts.array_keyword = schema.where + "/" + name;
      }
    }
    if (const Json* type = schema.find("type")) {
      const Json* nullable = schema.find("nullable");
      facts.types &= types_of(*type) | (nullable != nullptr && nullable->get<bool>() ? kNull : 0);
      typed = true;
    }
    if (const Json* list = schema.find("enum")) {
      std::vector<const Json*> values;
      for (const Json& value : *list) values.push_back(&value);
      keep_common(facts, std::move(values), work);
    }
    if (const Json* value = schema.find("const")) keep_common(facts, {value}, work);
    read_counts(schema, "minLength", "maxLength", facts.length);
    read_counts(schema, "minItems", "maxItems", facts.items);
    read_counts(schema, "minProperties", "maxProperties", facts.members);
    read_numbers(schema, facts.numbers);
    if (schema.find("pattern") != nullptr) facts.patterns.push_back(schema.child("pattern"));
    read_format(schema, facts);
    if (schema.find("propertyNames") != nullptr) {
      facts.names.push_back(schema.child("propertyNames"));
    }
    if (const Json* unique = schema.find("uniqueItems"); unique && unique->get<bool>()) {
      facts.unique = schema.where + "/uniqueItems";
    }
  }
  if (const Status enough = work.check(facts.where); !enough) return fail(enough.error());
  if (!typed && !facts.values && implied != 0 && !options.literal) facts.types = implied;
  for (const SchemaRef& schema : bundle) read_not(schema, facts);
  facts.numbers.integer = (facts.types & kFraction) == 0;
  return facts;
}

Result<Automaton> language_of(const std::vector<std::string>& strings, Spelling spelling,
                              const std::string& where, Work& work) {
  Nfa nfa(kMaxNfaStates, work.stop());
  const Nfa::State start = nfa.add_state();
  const Nfa::State end = nfa.add_state();
  for (const std::string& text : strings) {
    nfa.nothing(nfa.literal(start, spelling == Spelling::kJson ? write_json_string(text) : text),
                end);
  }
  const std::array<Rule, 1> rules = {{{start, end, where}}};
  return determinize(nfa, rules, 0, where, work);
}

Result<Automaton> string_language(const Facts& facts, Spelling spelling, Work& work) {
  const Counts& length = facts.length;
  const std::string where = facts.where;
  std::string counted = "[\\s\\S]*";
  if (length.max && *length.max < length.min) {
    counted = "[^\\s\\S]";  // none
  } else if (length.max) {
    counted = fmt::format("[\\s\\S]{{{},{}}}", length.min, *length.max);
  } else if (length.min > 0) {
    counted = fmt::format("[\\s\\S]{{{},}}", length.min);
  }
  auto out = compile_pattern(counted, Span::kWhole, spelling, where, work);
  for (const SchemaRef& pattern : facts.patterns) {
    if (!out) return out;
    const auto part = pattern_language(pattern, spelling, work);
    if (!part) return part;
    out = intersection(*out, *part, pattern.where, work);
  }
  if (out && !facts.excluded.empty()) {
    const auto taken = language_of(facts.excluded, spelling, where, work);
    if (!taken) return taken;
    out = difference(*out, *taken, where, work);
  }
  return out;
}

Result<bool> allows(const Facts& facts, const Json& value, Work& work) {
  work.spend(1);
  const std::uint32_t type = type_of(value);
  if ((facts.types & type) == 0) return false;
  if (type == kString) {
    const auto& text = value.get_ref<const std::string&>();
    if (!within(facts.length, code_points(text))) return false;
    for (const SchemaRef& pattern : facts.patterns) {
      const auto language = pattern_language(pattern, Spelling::kPlain, work);
      if (!language) return fail(language.error());
      if (!matches(*language, text)) return false;
    }
    return std::none_of(facts.excluded.begin(), facts.excluded.end(),
                        [&](const std::string& other) { return other == text; });
  }
  if ((type & kNumber) != 0) {
    const Decimal number = decimal_of(value);
    if (const auto& low = facts.numbers.low) {
      const int order = compare(number, low->value);
      if (order < 0 || (order == 0 && low->exclusive)) return false;
    }
    if (const auto& high = facts.numbers.high) {
      const int order = compare(number, high->value);
      if (order > 0 || (order == 0 && high->exclusive)) return false;
    }
    return std::all_of(facts.numbers.divisors.begin(), facts.numbers.divisors.end(),
                       [&](const Decimal& divisor) { return is_multiple(number, divisor); });
  }
  if (type == kArray && !within(facts.items, value.size())) return false;
  if (type == kObject && !within(facts.members, value.size())) return false;
  const std::string& beside = type == kArray ? facts.array_keyword : facts.object_keyword;
  if ((type == kArray || type == kObject) && !beside.empty()) {
    return fail(ErrorKind::kUnsupported,
                "{}: not supported beside \"enum\" or \"const\" of arrays or objects", beside);
  }
  return true;
}

}  // namespace dovetail::grammar
