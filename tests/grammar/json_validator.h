#pragma once

#include <nlohmann/json_fwd.hpp>
#include <regex>
#include <string>

namespace dovetail::grammar::test {

// Of an expression, for texts of any length: std::regex's usual way takes stack for every
// character.
std::regex regex_for_long_texts(const std::string& expression);

// Whether `value` is an instance of `schema`, by the book: JSON Schema draft 2020-12, the keywords
// that grammars know, nothing shared with them. Patterns go to std::regex, so texts must be ASCII
// where one applies.
bool is_instance(const nlohmann::ordered_json& root, const nlohmann::ordered_json& schema,
                 const nlohmann::ordered_json& value);

}  // namespace dovetail::grammar::test
