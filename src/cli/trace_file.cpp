#include "cli/trace_file.h"

#include <cstddef>
#include <string>
#include <utility>

#include "cli/values.h"
#include "observe/perfetto.h"

namespace dovetail::cli {
namespace {

constexpr std::size_t kEvents = std::size_t{1} << 20;  // of 32 bytes

}  // namespace

void add_trace_option(CLI::App& app, std::string& path) {
  add_text(app, "--trace", path,
           "Write the scheduler's last million events and what every lane did, at the end, for "
           "ui.perfetto.dev",
           kFile)
      ->group("Scheduling");
}

Result<TraceFile> TraceFile::open(const std::string& path, EngineOptions& options) {
  TraceFile trace;
  if (path.empty()) return trace;
  Result<OutputFile> file = OutputFile::open(path);
  if (!file) return fail(file.error());
  trace.file_.emplace(*std::move(file));
  options.trace_events = kEvents;
  return trace;
}

Status TraceFile::write(const Engine& engine) {
  if (!file_) return {};
  const EngineTrace trace = engine.trace();
  const std::string text = observe::perfetto_json(trace.events, trace.lanes);
  if (const Status ok = file_->write(text); !ok) return ok;
  return file_->close();
}

}  // namespace dovetail::cli
