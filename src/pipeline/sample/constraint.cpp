#include "pipeline/sample/constraint.h"

#include <array>
#include <compare>
#include <optional>

#include "pipeline/sample/fields.h"
#include "pipeline/sample/mistakes.h"

namespace dovetail::pipeline {
namespace {

using nlohmann::ordered_json;

// In the order of Comparison, twice.
constexpr std::array<std::string_view, 12> kOperators = {
    "<", "<=", ">", ">=", "==", "!=", "lt", "le", "gt", "ge", "eq", "ne"};

template <class T>
bool compare(const T& left, const T& right, Comparison comparison) {
  switch (comparison) {
    case Comparison::kLess:
      return left < right;
    case Comparison::kLessEqual:
      return left <= right;
    case Comparison::kGreater:
      return left > right;
    case Comparison::kGreaterEqual:
      return left >= right;
    case Comparison::kEqual:
      return left == right;
    case Comparison::kNotEqual:
      return left != right;
  }
  return false;
}

}  // namespace

std::string Constraint::text() const {
  const auto* name = std::get_if<ColumnName>(&right);
  return fmt::format("{} {} {}", column, kOperators[static_cast<std::size_t>(comparison)],
                     name != nullptr ? name->name : shown(std::get<ordered_json>(right)));
}

std::vector<std::string> Constraint::columns() const {
  std::vector<std::string> names = {column};
  if (const auto* name = std::get_if<ColumnName>(&right)) names.push_back(name->name);
  return names;
}

Result<bool> Constraint::holds(const ordered_json& record) const {
  const auto found = record.find(column);
  if (found == record.end()) {
    return fail(ErrorKind::kInvalid, "constraint '{}': no column '{}'", text(), column);
  }
  const ordered_json* other = std::get_if<ordered_json>(&right);
  if (other == nullptr) {
    const std::string& name = std::get<ColumnName>(right).name;
    const auto right_found = record.find(name);
    if (right_found == record.end()) {
      return fail(ErrorKind::kInvalid, "constraint '{}': no column '{}'", text(), name);
    }
    other = &*right_found;
  }
  if (found->is_string() && other->is_string()) {
    return compare(found->get_ref<const std::string&>(), other->get_ref<const std::string&>(),
                   comparison);
  }
  const bool equality = comparison == Comparison::kEqual || comparison == Comparison::kNotEqual;
  // The library orders integers and reals by value, which is what is wanted of numbers alone.
  if ((found->is_number() && other->is_number()) || equality) {
    return compare(*found, *other, comparison);
  }
  return fail(ErrorKind::kInvalid,
              "constraint '{}': {} and {} have no order; valid: two numbers or two texts", text(),
              shown(*found), shown(*other));
}

Result<Constraint> parse_constraint(const ordered_json& given, std::string_view pointer) {
  Constraint constraint;
  Fields fields(given, std::string(pointer));
  constraint.column = fields.required_text("column");
  constraint.comparison =
      static_cast<Comparison>(fields.required_choice("operator", kOperators) % 6);
  const ordered_json* value = fields.find("value");
  const auto other = fields.text("other");
  if (value != nullptr && other) fields.reject("other", "only one of value and other");
  if (value == nullptr && !other && !fields.failed("other")) {
    fields.require("value", "a number or text, or another column in 'other'");
  }
  if (value != nullptr && value->is_structured()) fields.reject("value", "a number or text");
  if (other && fields.ok() && *other == constraint.column) fields.reject("other", "another column");
  if (const Status status = fields.finish(); !status) return fail(status.error());
  if (other) {
    constraint.right = ColumnName{*other};
  } else {
    constraint.right = *value;
  }
  return constraint;
}

}  // namespace dovetail::pipeline
