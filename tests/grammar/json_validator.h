#pragma once

#include <nlohmann/json.hpp>

namespace dovetail::grammar::test {

// Whether `value` is an instance of `schema`, by the book: JSON Schema draft 2020-12, the keywords
// that grammars know, nothing shared with them. Patterns go to std::regex, so texts must be ASCII
// where one applies.
bool is_instance(const nlohmann::ordered_json& root, const nlohmann::ordered_json& schema,
                 const nlohmann::ordered_json& value);

}  // namespace dovetail::grammar::test
