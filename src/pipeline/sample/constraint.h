#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"

namespace dovetail::pipeline {

enum class Comparison { kLess, kLessEqual, kGreater, kGreaterEqual, kEqual, kNotEqual };

struct ColumnName {
  std::string name;
};

// column OP value, or column OP other column.
struct Constraint {
  std::string column;
  Comparison comparison = Comparison::kLess;
  std::variant<nlohmann::ordered_json, ColumnName> right;

  // "age >= limit", for messages.
  std::string text() const;
  // The columns it reads.
  std::vector<std::string> columns() const;
  // Numbers are compared as numbers, strings by their bytes (so ISO 8601 dates by time). Anything
  // can be equal or not; an order between two kinds of values, or a column that is not there, is an
  // error.
  Result<bool> holds(const nlohmann::ordered_json& record) const;
};

// Reads {"column": NAME, "operator": "<", "value": SCALAR} or {..., "other": NAME}. Operators: < <=
// >
// >= == !=, or lt le gt ge eq ne.
Result<Constraint> parse_constraint(const nlohmann::ordered_json& given, std::string_view pointer);

}  // namespace dovetail::pipeline
