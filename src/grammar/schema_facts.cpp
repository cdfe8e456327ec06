#include "grammar/schema_facts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "grammar/determinize.h"
#include "grammar/regex.h"

namespace dovetail::grammar {
namespace {

// RFC 3339: full-date with real days, full-time without leap seconds.
#define DOVETAIL_DATE                                                                            \
  "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-" \
  "9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468]"  \
  "[048]|[13579][26])00)-02-29)"
#define DOVETAIL_HOUR "(?:[01][0-9]|2[0-3])"
#define DOVETAIL_TIME \
  DOVETAIL_HOUR ":[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?(?:Z|[+-]" DOVETAIL_HOUR ":[0-5][0-9])"

constexpr std::string_view kDate = DOVETAIL_DATE;
constexpr std::string_view kTime = DOVETAIL_TIME;
constexpr std::string_view kDateTime = DOVETAIL_DATE "T" DOVETAIL_TIME;

#undef DOVETAIL_TIME
#undef DOVETAIL_HOUR
#undef DOVETAIL_DATE

constexpr std::string_view kUuid = "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}";
constexpr std::string_view kIpv4 =
    "(?:(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])\\.){3}"
    "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
// A part of RFC 5321's mailboxes: a dot-atom of common characters and a name with two labels or
// more.
constexpr std::string_view kEmail =
    "[A-Za-z0-9_+-]+(?:\\.[A-Za-z0-9_+-]+)*@"
    "(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\\.)+[A-Za-z]{2,24}";

// The regular expression of a "format", for the whole text; empty where it is not supported.
std::string_view format_pattern(std::string_view name) {
  if (name == "date") return kDate;
  if (name == "time") return kTime;
  if (name == "date-time") return kDateTime;
  if (name == "uuid") return kUuid;
  if (name == "ipv4") return kIpv4;
  if (name == "email") return kEmail;
  return {};
}

// Those supported, for messages.
constexpr std::string_view kFormats = "date, time, date-time, uuid, ipv4, email";

constexpr std::array<std::pair<std::string_view, std::uint32_t>, 7> kTypes = {
    {{"null", kNull},
     {"boolean", kBoolean},
     {"integer", kInteger},
     {"number", kNumber},
     {"string", kString},
     {"array", kArray},
     {"object", kObject}}};

// The types that a keyword speaks of; 0: all of them.
std::uint32_t types_of_keyword(std::string_view name) {
  for (const auto* keyword : {"minLength", "maxLength", "pattern", "format"}) {
    if (name == keyword) return kString;
  }
  for (const auto* keyword : {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}) {
    if (name == keyword) return kNumber;
  }
  for (const auto* keyword : {"items", "prefixItems", "minItems", "maxItems"}) {
    if (name == keyword) return kArray;
  }
  for (const auto* keyword :
       {"properties", "patternProperties", "additionalProperties", "required"}) {
    if (name == keyword) return kObject;
  }
  return 0;
}

Result<std::uint32_t> types_of(const SchemaRef& schema, const Json& type) {
  std::vector<std::string> names;
  if (type.is_string()) names.push_back(type.get<std::string>());
  for (const Json& name : type) {
    if (type.is_array()) names.push_back(name.get<std::string>());
  }
  std::uint32_t types = 0;
  for (const std::string& name : names) {
    const auto known = std::find_if(kTypes.begin(), kTypes.end(),
                                    [&](const auto& entry) { return entry.first == name; });
    if (known == kTypes.end()) {
      return fail(ErrorKind::kInvalid,
                  "{}/type: \"{}\" is no type; there are null, boolean, integer, number, string, "
                  "array and object",
                  schema.where, name);
    }
    types |= known->second;
  }
  return types;
}

std::uint64_t count_of(const Json& value) {
  return value.is_number_float() ? static_cast<std::uint64_t>(value.get<double>())
                                 : value.get<std::uint64_t>();
}

void read_counts(const SchemaRef& schema, std::string_view least, std::string_view most,
                 Counts& counts) {
  if (const Json* min = schema.find(least)) counts.min = std::max(counts.min, count_of(*min));
  if (const Json* max = schema.find(most)) {
    const std::uint64_t value = count_of(*max);
    counts.max = counts.max ? std::min(*counts.max, value) : value;
  }
}

void tighten(std::optional<Bound>& bound, const Json* value, bool exclusive, bool low) {
  if (value == nullptr) return;
  const Bound next = {decimal_of(*value), exclusive};
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

bool within(const Counts& counts, std::uint64_t count) {
  return count >= counts.min && (!counts.max || count <= *counts.max);
}

Result<Automaton> pattern_language(const SchemaRef& pattern, Spelling spelling, Work& work) {
  const auto& text = pattern.at->get_ref<const std::string&>();
  if (!pattern.where.ends_with("/format")) {
    return compile_pattern(text, Span::kPart, spelling, pattern.where, work);
  }
  const std::string_view regex = format_pattern(text);
  if (regex.empty()) {
    return fail(ErrorKind::kUnsupported, "{}: the format \"{}\" is not supported; there are {}",
                pattern.where, text, kFormats);
  }
  return compile_pattern(regex, Span::kWhole, spelling, pattern.where, work);
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

Result<Facts> read_facts(const Bundle& bundle, const SchemaOptions& options, Work& work) {
  Facts facts;
  if (!bundle.empty()) facts.where = bundle[0].where;
  std::uint32_t implied = 0;
  bool typed = false;
  for (const SchemaRef& schema : bundle) {
    work.spend(100);
    if (const Status enough = work.check(schema.where); !enough) return fail(enough.error());
    for (const auto& [name, value] : schema.at->items()) {
      implied |= types_of_keyword(name);
      if (types_of_keyword(name) == kObject) facts.object_keyword = schema.where + "/" + name;
      if (types_of_keyword(name) == kArray && name != "minItems" && name != "maxItems") {
        facts.array_keyword = schema.where + "/" + name;
      }
    }
    if (const Json* type = schema.find("type")) {
      const auto types = types_of(schema, *type);
      if (!types) return fail(types.error());
      facts.types &= *types;
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
    tighten(facts.numbers.low, schema.find("minimum"), false, true);
    tighten(facts.numbers.low, schema.find("exclusiveMinimum"), true, true);
    tighten(facts.numbers.high, schema.find("maximum"), false, false);
    tighten(facts.numbers.high, schema.find("exclusiveMaximum"), true, false);
    if (schema.find("pattern") != nullptr) facts.patterns.push_back(schema.child("pattern"));
    if (schema.find("format") != nullptr) facts.patterns.push_back(schema.child("format"));
  }
  if (const Status enough = work.check(facts.where); !enough) return fail(enough.error());
  if (!typed && !facts.values && implied != 0 && !options.literal) facts.types = implied;
  facts.numbers.integer = (facts.types & kFraction) == 0;
  return facts;
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
    return true;
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
    return true;
  }
  if (type == kArray && !within(facts.items, value.size())) return false;
  const std::string& beside = type == kArray ? facts.array_keyword : facts.object_keyword;
  if ((type == kArray || type == kObject) && !beside.empty()) {
    return fail(ErrorKind::kUnsupported,
                "{}: not supported beside \"enum\" or \"const\" of arrays or objects", beside);
  }
  return true;
}

}  // namespace dovetail::grammar
