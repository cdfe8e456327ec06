#pragma once

#include <string>
#include <vector>

namespace dovetail::fuzz {

// Inputs that the targets fuzz_dialog and fuzz_dialog_plan begin with.
std::vector<std::string> dialog_seeds();
std::vector<std::string> dialog_plan_seeds();

}  // namespace dovetail::fuzz
