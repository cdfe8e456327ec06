#pragma once

#include <string_view>

namespace dovetail::cli {

// From now on, writing to a pipe that has lost its reader is an error of that write instead of the
// end of the process (SIGPIPE). Call before threads start.
void survive_closed_pipes();

// Writes `line` and a line end to standard error. Where that has lost its reader, the line is lost
// and nothing else. Any thread.
void notice(std::string_view line);

}  // namespace dovetail::cli
