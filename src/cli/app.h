#pragma once

#include <string>
#include <vector>

namespace dovetail::cli {

// Runs the command line without the program's name and returns the exit code: 0 done; 1 bad input
// or model, or the work failed; 2 a usage error; 128 + n ended by signal n. Errors are one line on
// standard error.
int run_app(const std::vector<std::string>& arguments);

}  // namespace dovetail::cli
