#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace dovetail::text::jinja {
struct Template;
}

namespace dovetail::pipeline {

// A yes-or-no question about a record: one Jinja expression over its columns, parsed once
// ("age >= 18 and city in ['Bonn', 'Kyoto']", with or without braces around it). Immutable; may be
// asked from several threads at once.
class Condition {
 public:
  // `where` stands in front of error messages. Only columns, and the functions range and dict, may
  // be named: what depends on anything else would not be repeatable.
  static Result<Condition> parse(std::string_view expression, std::string_view where);

  // The columns that the expression names, each once, sorted.
  const std::vector<std::string>& columns() const { return columns_; }
  const std::string& text() const { return text_; }

  // kInvalid, naming the near ones, where the expression names a column that is not among these.
  Status check_columns(const std::vector<std::string>& known) const;

  // Whether the expression comes out as True or true. `record` is an object; columns that it lacks
  // are undefined. Errors of the expression at run time are kInvalid.
  Result<bool> holds(const nlohmann::ordered_json& record) const;

 private:
  Condition() = default;

  std::string text_;
  std::string where_;
  std::vector<std::string> columns_;
  std::shared_ptr<const text::jinja::Template> program_;
};

}  // namespace dovetail::pipeline
