#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/command.h"

namespace dovetail::cli {

// Gives every option of `chosen` that the command line and the environment left out its value from
// the TOML file of --config, where one was given. Keys are long option names: at the top level for
// every command that has the option, or in a table with a command's name for that command alone,
// which goes before. All tables are checked, also those of other commands. kInvalid names the file,
// the line and the key.
Status apply_config(Command& chosen, const std::vector<Command>& commands);

}  // namespace dovetail::cli
