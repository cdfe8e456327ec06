#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/json.h"
#include "pipeline/schema/format.h"
#include "pipeline/schema/regex.h"

namespace dovetail::pipeline {

// Kinds of JSON values as bits; a whole number is kIntegers as well as kNumbers.
enum SchemaTypes : std::uint8_t {
  kNulls = 1,
  kBooleans = 2,
  kIntegers = 4,
  kNumbers = 8,
  kStrings = 16,
  kArrays = 32,
  kObjects = 64,
};

using NodeId = std::size_t;  // into SchemaProgram::nodes

// One schema of a document, its keywords read.
struct SchemaNode {
  std::string pointer;        // where it stands
  std::optional<bool> fixed;  // true and false

  std::optional<std::uint8_t> types;
  std::optional<std::vector<Json>> values;  // enum and const
  std::optional<Json> minimum, maximum, exclusive_minimum, exclusive_maximum, multiple_of;
  std::optional<std::uint64_t> min_length, max_length;
  std::optional<Regex> pattern;
  std::string format;
  FormatCheck format_check = nullptr;

  std::optional<std::uint64_t> min_items, max_items;
  bool unique_items = false;
  std::vector<NodeId> prefix_items;
  std::optional<NodeId> items, contains;
  std::optional<std::uint64_t> min_contains, max_contains;

  std::vector<std::pair<std::string, NodeId>> properties;
  std::unordered_map<std::string, NodeId> property;  // the same, by name
  std::vector<std::pair<Regex, NodeId>> pattern_properties;
  std::optional<NodeId> additional_properties, property_names;
  std::vector<std::string> required;
  std::optional<std::uint64_t> min_properties, max_properties;
  std::vector<std::pair<std::string, std::vector<std::string>>> dependent_required;
  std::vector<std::pair<std::string, NodeId>> dependent_schemas;

  std::optional<NodeId> ref, negated, condition, consequence, alternative;
  std::vector<NodeId> all_of, any_of, one_of;
};

struct SchemaProgram {
  nlohmann::ordered_json source;
  std::vector<SchemaNode> nodes;  // the first one is the whole schema
};

// The type as its bit; 0 where there is none of that name.
std::uint8_t type_bit(std::string_view name);
std::uint8_t types_of(const nlohmann::ordered_json& value);
// The value of a number; exact for all that JSON holds.
long double number_of(const nlohmann::ordered_json& number);
// As JSON schemas see it: numbers by value, objects whatever the order of their members.
bool same_value(const nlohmann::ordered_json& a, const nlohmann::ordered_json& b);
// Whether a value fits the keywords of one schema that need no other schema.
bool fits_alone(const SchemaNode& node, const nlohmann::ordered_json& value);

}  // namespace dovetail::pipeline
