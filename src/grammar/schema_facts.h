#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "grammar/automaton.h"
#include "grammar/grammar.h"
#include "grammar/numbers.h"
#include "grammar/regex.h"
#include "grammar/schema_reader.h"

namespace dovetail::grammar {

// Types as bits. A whole number is kInteger however it is written; kFraction are all others.
constexpr std::uint32_t kNull = 1;
constexpr std::uint32_t kBoolean = 2;
constexpr std::uint32_t kInteger = 4;
constexpr std::uint32_t kFraction = 8;
constexpr std::uint32_t kString = 16;
constexpr std::uint32_t kArray = 32;
constexpr std::uint32_t kObject = 64;
constexpr std::uint32_t kNumber = kInteger | kFraction;
constexpr std::uint32_t kAllTypes = 127;

struct Counts {
  std::uint64_t min = 0;
  std::optional<std::uint64_t> max;
};

// What a bundle says of values, but for the members of arrays and objects.
struct Facts {
  std::string where;  // of the first schema
  std::uint32_t types = kAllTypes;
  std::optional<std::vector<const Json*>> values;  // of enum and const
  NumberRange numbers;                             // `integer` from types
  Counts length;                                   // of strings, in code points
  Counts items;
  Counts members;
  std::vector<SchemaRef> patterns;    // the keywords "pattern" and "format"
  std::vector<std::string> excluded;  // strings that a "not" names
  std::vector<SchemaRef> names;       // of members: the keywords "propertyNames"
  std::string unique;                 // where "uniqueItems" is true; empty: nowhere
  // A keyword about the members of arrays or objects; empty if there is none.
  std::string array_keyword;
  std::string object_keyword;
};

Result<Facts> read_facts(const Bundle& bundle, const SchemaOptions& options, Work& work);

std::uint32_t type_of(const Json& value);

// The types of a name in "type"; 0: there is none. `any_case`: also in capitals, as in Gemini's
// API.
std::uint32_t types_named(std::string_view name, bool any_case);

// A count of the right form.
std::uint64_t count_of(const Json& value);

// These strings, as compile_pattern() writes them.
Result<Automaton> language_of(const std::vector<std::string>& strings, Spelling spelling,
                              const std::string& where, Work& work);

// The strings of the facts, enum and const aside, as compile_pattern() writes them.
Result<Automaton> string_language(const Facts& facts, Spelling spelling, Work& work);

// Whether a value is one of those that the facts allow, `values` aside. An error where that
// depends on members of arrays and objects.
Result<bool> allows(const Facts& facts, const Json& value, Work& work);

// A member that is named by the schema.
struct NamedMember {
  std::string name;
  bool required = false;
  std::vector<SchemaRef> value;  // all must hold
};

// Members by the language of their names.
struct OtherMembers {
  std::optional<Automaton> names;  // in the spelling that was asked for; none: any string
  std::vector<SchemaRef> value;
};

// The members that objects of a bundle may have.
struct Members {
  std::vector<NamedMember> named;  // in order: as first named in "properties", then in "required"
  std::vector<OtherMembers> others;
};

// Errors: names that two patterns of patternProperties may match; patterns that are not supported.
Result<Members> read_members(const Bundle& bundle, const SchemaOptions& options, Work& work,
                             Spelling spelling = Spelling::kJson);

}  // namespace dovetail::grammar
