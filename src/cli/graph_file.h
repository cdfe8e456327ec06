#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "study/program.h"

namespace dovetail::cli {

// A graph of tasks in YAML or JSON, as the README of this folder describes it. Times are in
// nanoseconds. kInvalid: "NAME:LINE:COLUMN: POINTER: " and what is wrong with which field, and what
// would be valid. Tasks, their blocks and what they read and write are bounded.
Result<std::vector<study::ProgramTask>> parse_graph(std::string_view text, const std::string& name);

}  // namespace dovetail::cli
