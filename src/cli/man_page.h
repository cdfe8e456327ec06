#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"

namespace dovetail::cli {

// The manual page of the program in roff, section 1: all commands with all options. `version`
// stands at its foot.
std::string man_page(const std::vector<Command>& commands, std::string_view version);

}  // namespace dovetail::cli
