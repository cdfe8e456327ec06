#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dovetail::schedule {

// Runs a script in the language of tests/histories/README.md, under the law checker. Empty when it
// holds; else the first fault as "name:line: what".
std::optional<std::string> run_history(std::string_view text, std::string_view name);

}  // namespace dovetail::schedule
