#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "cli/output.h"
#include "dovetail/engine.h"

namespace dovetail::cli {

// --trace FILE. `path` must outlive the parsing.
void add_trace_option(CLI::App& app, std::string& path);

// The file of --trace, where one was asked for: opened before the work, so that a path that cannot
// be written is an error at once, and written after it.
class TraceFile {
 public:
  // An empty `path`: no trace. Else turns the engine's event log on.
  static Result<TraceFile> open(const std::string& path, EngineOptions& options);

  // The engine's log as a trace for ui.perfetto.dev.
  Status write(const Engine& engine);

 private:
  std::optional<OutputFile> file_;
};

}  // namespace dovetail::cli
