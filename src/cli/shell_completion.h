#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/command.h"

namespace dovetail::cli {

inline constexpr const char* kShells = "bash|zsh";

// A script that makes the shell complete commands, options and the values that they choose from.
// kInvalid: no such shell.
Result<std::string> completion_script(const std::string& shell,
                                      const std::vector<Command>& commands);

}  // namespace dovetail::cli
