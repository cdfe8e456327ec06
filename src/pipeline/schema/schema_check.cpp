#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "pipeline/sample/fields.h"
#include "pipeline/schema/json_schema.h"
#include "pipeline/schema/schema_program.h"

namespace dovetail::pipeline {
namespace {

constexpr std::uint64_t kMostSteps = 1'000'000;
constexpr std::size_t kDeepest = 2000;  // calls within one another

struct Failure {
  std::string pointer;  // in the value
  std::string message;
  bool limit = false;  // no answer: a bound was met
};
using Found = std::optional<Failure>;

template <class... Args>
Found wrong(fmt::format_string<Args...> format, Args&&... args) {
  return Failure{"", fmt::format(format, std::forward<Args>(args)...)};
}

std::uint64_t code_points(const std::string& text) {
  return static_cast<std::uint64_t>(std::count_if(text.begin(), text.end(), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
  }));
}

bool is_multiple(const Json& value, const Json& of) {
  // The remainder does not depend on the sign; `of` is above 0.
  const auto magnitude = [](const Json& number) {
    const auto bits = number.get<std::uint64_t>();
    return number.is_number_unsigned() || number.get<std::int64_t>() >= 0 ? bits : 0 - bits;
  };
  if (value.is_number_integer() && of.is_number_integer()) {
    return magnitude(value) % magnitude(of) == 0;
  }
  // Decimal fractions are not exact in binary: 0.07 is a multiple of 0.01 all the same.
  const double quotient = value.get<double>() / of.get<double>();
  return std::isfinite(quotient) &&
         std::abs(quotient - std::round(quotient)) <= 1e-9 * std::max(1.0, std::abs(quotient));
}

std::string type_names(std::uint8_t bits) {
  std::vector<std::string_view> names;
  for (const std::string_view name :
       {"null", "boolean", "integer", "number", "string", "array", "object"}) {
    if ((bits & type_bit(name)) != 0) names.push_back(name);
  }
  return fmt::format("{}", fmt::join(names, " or "));
}

Found too_many_steps() {
  return Failure{"", "the schema takes too many steps on this value", true};
}

class Checker {
 public:
  explicit Checker(const std::vector<SchemaNode>& nodes) : nodes_(nodes) {}

  Found check(NodeId id, const Json& value) {
    if (++steps_ > kMostSteps) return too_many_steps();
    if (depth_ > kDeepest) return Failure{"", "the value nests too deep for the schema", true};
    ++depth_;
    Found found = check_all(nodes_[id], value);
    --depth_;
    return found;
  }

 private:
  Found check_all(const SchemaNode& node, const Json& value) {
    if (node.fixed) return *node.fixed ? std::nullopt : wrong("{} is not allowed", shown(value));
    if (Found found = check_scalar(node, value)) return found;
    if (value.is_string()) {
      if (Found found = check_text(node, value.get_ref<const std::string&>())) return found;
    } else if (value.is_array()) {
      if (Found found = check_array(node, value)) return found;
    } else if (value.is_object()) {
      if (Found found = check_object(node, value)) return found;
    }
    return check_combinations(node, value);
  }

  static Found check_scalar(const SchemaNode& node, const Json& value) {
    const std::uint8_t types = types_of(value);
    if (node.types && (*node.types & types) == 0) {
      return wrong("{} is no {}", shown(value), type_names(*node.types));
    }
    if (node.values && std::none_of(node.values->begin(), node.values->end(),
                                    [&](const Json& one) { return same_value(one, value); })) {
      std::vector<std::string> allowed;
      for (const Json& one : *node.values) allowed.push_back(shown(one));
      return allowed.size() == 1
                 ? wrong("{} is not {}", shown(value), allowed[0])
                 : wrong("{} is none of {}", shown(value), fmt::join(allowed, ", "));
    }
    if ((types & kNumbers) == 0) return std::nullopt;
    const long double number = number_of(value);
    if (node.minimum && number < number_of(*node.minimum)) {
      return wrong("{} is less than {}", shown(value), shown(*node.minimum));
    }
    if (node.maximum && number > number_of(*node.maximum)) {
      return wrong("{} is more than {}", shown(value), shown(*node.maximum));
    }
    if (node.exclusive_minimum && number <= number_of(*node.exclusive_minimum)) {
      return wrong("{} is not more than {}", shown(value), shown(*node.exclusive_minimum));
    }
    if (node.exclusive_maximum && number >= number_of(*node.exclusive_maximum)) {
      return wrong("{} is not less than {}", shown(value), shown(*node.exclusive_maximum));
    }
    if (node.multiple_of && !is_multiple(value, *node.multiple_of)) {
      return wrong("{} is no multiple of {}", shown(value), shown(*node.multiple_of));
    }
    return std::nullopt;
  }

  static Found check_text(const SchemaNode& node, const std::string& text) {
    if (node.min_length || node.max_length) {
      const std::uint64_t length = code_points(text);
      if (node.min_length && length < *node.min_length) {
        return wrong("{} has {} characters, fewer than {}", shown(text), length, *node.min_length);
      }
      if (node.max_length && length > *node.max_length) {
        return wrong("{} has {} characters, more than {}", shown(text), length, *node.max_length);
      }
    }
    if (node.pattern) {
      const auto matched = node.pattern->is_in(text);
      if (!matched) {
        return Failure{"", matched.error().message, matched.error().kind == ErrorKind::kExhausted};
      }
      if (!*matched) return wrong("{} does not match {}", shown(text), node.pattern->text());
    }
    if (node.format_check != nullptr && !node.format_check(text)) {
      return wrong("{} is no {}", shown(text), node.format);
    }
    return std::nullopt;
  }

  template <class Step>
  Found within(const Step& step, NodeId id, const Json& value) {
    Found found = check(id, value);
    if (found) found->pointer = pointer_to("", step) + found->pointer;
    return found;
  }

  Found check_array(const SchemaNode& node, const Json& value) {
    if (node.min_items && value.size() < *node.min_items) {
      return wrong("{} items, fewer than {}", value.size(), *node.min_items);
    }
    if (node.max_items && value.size() > *node.max_items) {
      return wrong("{} items, more than {}", value.size(), *node.max_items);
    }
    for (std::size_t i = 0; i < value.size(); ++i) {
      const bool fixed = i < node.prefix_items.size();
      if (!fixed && !node.items) break;
      if (Found found = within(i, fixed ? node.prefix_items[i] : *node.items, value[i]))
        return found;
    }
    if (node.unique_items) {
      if (Found found = check_unique(value)) return found;
    }
    return node.contains ? check_contains(node, value) : std::nullopt;
  }

  Found check_unique(const Json& value) {
    for (std::size_t i = 1; i < value.size(); ++i) {
      steps_ += i;
      if (steps_ > kMostSteps) return too_many_steps();
      for (std::size_t j = 0; j < i; ++j) {
        if (same_value(value[i], value[j])) return wrong("items {} and {} are the same", j, i);
      }
    }
    return std::nullopt;
  }

  Found check_contains(const SchemaNode& node, const Json& value) {
    std::uint64_t count = 0;
    for (const Json& item : value) {
      const Found found = check(*node.contains, item);
      if (found && found->limit) return found;
      if (!found) ++count;
    }
    const std::uint64_t least = node.min_contains.value_or(1);
    if (count < least) return wrong("{} items fit contains, fewer than {}", count, least);
    if (node.max_contains && count > *node.max_contains) {
      return wrong("{} items fit contains, more than {}", count, *node.max_contains);
    }
    return std::nullopt;
  }

  Found check_object(const SchemaNode& node, const Json& value) {
    for (const std::string& name : node.required) {
      if (!value.contains(name)) return wrong("the property {} is missing", shown(name));
    }
    if (node.min_properties && value.size() < *node.min_properties) {
      return wrong("{} properties, fewer than {}", value.size(), *node.min_properties);
    }
    if (node.max_properties && value.size() > *node.max_properties) {
      return wrong("{} properties, more than {}", value.size(), *node.max_properties);
    }
    for (const auto& [name, member] : value.items()) {
      if (Found found = check_member(node, name, member)) return found;
    }
    for (const auto& [name, needed] : node.dependent_required) {
      if (!value.contains(name)) continue;
      for (const std::string& other : needed) {
        if (!value.contains(other)) {
          return wrong("the property {} is missing, which {} needs", shown(other), shown(name));
        }
      }
    }
    for (const auto& [name, id] : node.dependent_schemas) {
      if (!value.contains(name)) continue;
      if (Found found = check(id, value)) return found;
    }
    return std::nullopt;
  }

  Found check_member(const SchemaNode& node, const std::string& name, const Json& member) {
    if (node.property_names) {
      if (Found found = check(*node.property_names, Json(name))) {
        found->message = "as the name of a property, " + found->message;
        return found;
      }
    }
    const auto known = node.property.find(name);
    bool is_known = known != node.property.end();
    if (is_known) {
      if (Found found = within(name, known->second, member)) return found;
    }
    for (const auto& [regex, id] : node.pattern_properties) {
      const auto matched = regex.is_in(name);
      if (!matched) return Failure{"", matched.error().message, true};
      if (!*matched) continue;
      is_known = true;
      if (Found found = within(name, id, member)) return found;
    }
    if (is_known || !node.additional_properties) return std::nullopt;
    if (nodes_[*node.additional_properties].fixed == false) {
      std::vector<std::string> names;
      for (const auto& [one, id] : node.properties) names.push_back(one);
      return wrong("the property {} is not allowed{}{}", shown(name),
                   names.empty() ? "" : "; there are ", fmt::join(names, ", "));
    }
    return within(name, *node.additional_properties, member);
  }

  Found check_combinations(const SchemaNode& node, const Json& value) {
    if (node.ref) {
      if (Found found = check(*node.ref, value)) return found;
    }
    for (const NodeId id : node.all_of) {
      if (Found found = check(id, value)) return found;
    }
    if (!node.any_of.empty()) {
      if (Found found = check_alternatives(node.any_of, value, false)) return found;
    }
    if (!node.one_of.empty()) {
      if (Found found = check_alternatives(node.one_of, value, true)) return found;
    }
    if (node.negated) {
      const Found found = check(*node.negated, value);
      if (found && found->limit) return found;
      if (!found) return wrong("{} is what it must not be", shown(value));
    }
    if (!node.condition || (!node.consequence && !node.alternative)) return std::nullopt;
    const Found found = check(*node.condition, value);
    if (found && found->limit) return found;
    const auto& next = found ? node.alternative : node.consequence;
    return next ? check(*next, value) : std::nullopt;
  }

  // Where none fits, the one that went deepest into the value is most likely what was meant.
  Found check_alternatives(const std::vector<NodeId>& ids, const Json& value, bool only_one) {
    std::optional<std::size_t> fits;
    Found nearest;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      Found found = check(ids[i], value);
      if (found && found->limit) return found;
      if (found) {
        if (!nearest || found->pointer.size() > nearest->pointer.size()) nearest = std::move(found);
        continue;
      }
      if (fits) return wrong("{} fits the alternatives {} and {} of one", shown(value), *fits, i);
      fits = i;
      if (!only_one) return std::nullopt;
    }
    if (fits) return std::nullopt;
    if (ids.size() > 1) {
      nearest->message += fmt::format(" (the nearest of {} alternatives)", ids.size());
    }
    return nearest;
  }

  const std::vector<SchemaNode>& nodes_;
  std::uint64_t steps_ = 0;
  std::size_t depth_ = 0;
};

}  // namespace

Status JsonSchema::check(const Json& value) const {
  const Found found = Checker(program_->nodes).check(0, value);
  if (!found) return {};
  return fail(found->limit ? ErrorKind::kExhausted : ErrorKind::kInvalid, "{}{}{}", found->pointer,
              found->pointer.empty() ? "" : ": ", found->message);
}

}  // namespace dovetail::pipeline
