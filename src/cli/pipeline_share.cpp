#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "cli/command.h"
#include "cli/pipeline_progress.h"
#include "cli/pipeline_run.h"
#include "cli/signals.h"
#include "pipeline/face/run_files.h"
#include "pipeline/face/session_log.h"
#include "pipeline/run/pipeline_job.h"

namespace dovetail::cli {
namespace {

using pipeline::PipelineJob;
using pipeline::RunEnd;
using pipeline::RunProgress;

std::string command_again(const char* what, const PipelineOptions& options) {
  std::string command = fmt::format("dovetail pipeline {} {} --database ...", what, options.file);
  if (options.records != 0) command += fmt::format(" --records {}", options.records);
  return command;
}

// What a worker says at its end; its exit code.
int conclude(const PipelineOptions& options, const RunProgress& progress,
             std::chrono::duration<double> elapsed) {
  const bool complete = progress.end == RunEnd::kComplete;
  const bool stopped = progress.end == RunEnd::kStopped;
  if (options.json) {
    const Json event = {{"event", "end"},
                        {"end", complete                        ? "complete"
                                : stopped                       ? "stopped"
                                : progress.end == RunEnd::kCost ? "cost"
                                                                : "errors"},
                        {"why", progress.why},
                        {"records", progress.finished},
                        {"dropped", progress.dropped}};
    fmt::print("{}\n", event.dump());
  }
  if (!complete) {
    fmt::print(stderr,
               "dovetail pipeline: it ended early: {}; records that it had begun are left to "
               "others; go on with: {}\n",
               progress.why, command_again("run --share", options));
  }
  if (!options.json && !options.quiet) {
    std::uint64_t tokens_in = 0, tokens_out = 0;
    for (const pipeline::ColumnCounts& counts : progress.columns) {
      tokens_in += counts.prompt_tokens;
      tokens_out += counts.completion_tokens;
    }
    if (complete) fmt::print(stderr, "the run is complete\n");
    fmt::print(stderr, "{} records were made here", progress.finished);
    if (progress.dropped > 0) fmt::print(stderr, ", {} more were dropped", progress.dropped);
    fmt::print(stderr, "; {} prompt and {} generated tokens, {:.1f} s", tokens_in, tokens_out,
               elapsed.count());
    if (progress.cost > 0) fmt::print(stderr, ", cost of the run so far {:.4f}", progress.cost);
    fmt::print(stderr, "; for the results: {}\n", command_again("resume", options));
  }
  if (complete) return kExitOk;
  return stopped ? 128 + std::max(InterruptGuard::signal(), 1) : kExitFailed;
}

}  // namespace

Result<int> share_pipeline_file(const PipelineOptions& options) {
  auto spec = read_pipeline_file(options);
  if (!spec) return fail(spec.error());
  if (options.database.empty()) {
    return fail(ErrorKind::kInvalid,
                "--share: without --database there is nothing to share; name the PostgreSQL "
                "database that all processes use (postgresql://...)");
  }
  pipeline::JobOptions job_options;
  job_options.store = options.database;
  job_options.mode = pipeline::OpenMode::kShare;
  job_options.store_options = pipeline::store_options(*spec);
  job_options.store_options.on_waiting = [](const Error& error) {
    fmt::print(stderr, "waiting: {}\n", error.message);
  };
  job_options.lease = std::chrono::milliseconds(static_cast<std::int64_t>(1000.0 * options.lease));
  auto job = PipelineJob::open(*std::move(spec), job_options);
  if (!job) return fail(job.error());
  if (const auto deleted = (*job)->changes().deleted_cells; deleted > 0 && !options.quiet) {
    fmt::print(stderr, "columns have changed: {} cells are forgotten\n", deleted);
  }
  if (const Status ok = (*job)->start_models(); !ok) return fail(ok.error());

  pipeline::SessionLog log(**job);
  PipelineProgress shown((*job)->spec(), log, progress_style(options));
  const InterruptGuard guard;
  pipeline::JobPorts ports;
  ports.progress = [&](const RunProgress& progress) {
    log.observe(progress);
    shown.update(progress);
  };
  ports.stop = finish_when_interrupted();
  const auto progress = (*job)->run(ports);
  if (!progress) {
    return fail(progress.error().kind, "{}; go on with: {}", progress.error().message,
                command_again("run --share", options));
  }
  shown.finish(*progress);
  return conclude(options, *progress, log.elapsed());
}

}  // namespace dovetail::cli
