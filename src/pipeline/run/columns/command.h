#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "pipeline/config/column_spec.h"

namespace dovetail::pipeline {

struct CommandEnd {
  int exit_code = 0;
  int signal = 0;          // that ended it; 0: none did
  bool timed_out = false;  // it was killed
  std::string output;      // what it wrote to standard output and error, its first 64 KiB
};

// Runs a program with `input` on its standard input and this process's environment, but for what
// is withheld from it, and waits for its end. It has a process group of its own, of which nothing
// is left afterwards. Errors: it cannot be started. May be called from several threads at once;
// Linux.
Result<CommandEnd> run_command(const CommandCheck& command, std::string_view input);

}  // namespace dovetail::pipeline
