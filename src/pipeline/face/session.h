#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "pipeline/face/run_files.h"
#include "pipeline/face/session_log.h"
#include "pipeline/results/results_writer.h"
#include "pipeline/run/pipeline_job.h"

namespace dovetail::pipeline {

struct SessionOptions {
  std::filesystem::path folder;  // of the run; empty: the pipeline's name
  std::string database;          // empty: run.db in the folder
  bool resume = false;
  bool retry_failed = false;  // see JobOptions
  ResultsFormat format = ResultsFormat::kJsonLines;
  bool report = true;
  bool unordered = false;  // records are written as they finish, not in the order of their numbers
  std::function<void(const Error&)> on_waiting;  // see StoreOptions
};

// A run from its beginning, or from where an earlier session left it, to its end or its next
// interruption: its job, its result files, and what it keeps for the next session and the report.
// One thread; in this order: open(), start(), run(), finish().
class Session {
 public:
  static Result<std::unique_ptr<Session>> open(PipelineSpec spec, const SessionOptions& options);

  // Starts the models, and the time.
  Status start();
  // Records go to the results, then to ports.emit, which may be empty. After an error, what can be
  // kept is kept.
  Result<RunProgress> run(const JobPorts& ports);
  // Completes the files of a run that has ended.
  Status finish(const RunProgress& progress);

  const PipelineJob& job() const { return *job_; }
  const PipelineSpec& spec() const { return job_->spec(); }
  const RunFiles& files() const { return files_; }
  const SessionLog& log() const { return *log_; }  // from start() on

 private:
  Session(const SessionOptions& options, RunFiles files, std::unique_ptr<PipelineJob> job,
          ResultsWriter writer);
  void keep_now_and_then();

  bool report_;
  bool unordered_;
  RunFiles files_;
  std::unique_ptr<PipelineJob> job_;
  ResultsWriter writer_;
  std::optional<SessionLog> log_;
  std::chrono::microseconds kept_{};  // the log's time when the store was last given it
  Json old_figures_;
};

}  // namespace dovetail::pipeline
