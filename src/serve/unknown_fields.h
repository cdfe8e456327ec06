#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "serve/json_input.h"

namespace dovetail::serve {

// The response's header that names what of a request was not heeded.
inline constexpr std::string_view kIgnoredHeader = "X-Dovetail-Ignored";

// Fields of a request that are not known: refused, or collected as ignored.
class UnknownFields {
 public:
  explicit UnknownFields(bool strict = false) : strict_(strict) {}

  // `known`: fields that it may be a slip of.
  Problem meet(std::string_view name, const std::vector<std::string>& known = {});
  // What is known and cannot be heeded: a field by this model, a keyword of a schema.
  void ignore(std::string_view name);
  // As the value of kIgnoredHeader: names in ASCII, the first sixteen of them; empty: none.
  std::string text() const;
  bool strict() const { return strict_; }

 private:
  bool strict_;
  std::vector<std::string> names_;
};

}  // namespace dovetail::serve
