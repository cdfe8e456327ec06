#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"
#include "cli/pipeline_progress.h"

namespace dovetail::cli {

// Options of `dovetail pipeline ...`.
struct PipelineOptions {
  std::string file;
  std::string output;         // the run's folder; empty: the pipeline's name
  std::string format;         // "jsonl" or "csv"
  std::string database;       // of the run; empty: run.db in its folder
  std::uint64_t records = 0;  // 0: what the file says
  bool retry_failed = false;  // of resume
  double lease = 60.0;        // seconds; see share_pipeline_file()
  bool share = false;
  bool unordered = false;
  bool json = false, quiet = false, no_report = false;
};

// The pipeline of the file. What stands still in its models is said on standard error.
Result<pipeline::PipelineSpec> read_pipeline_file(const PipelineOptions& options);

ProgressStyle progress_style(const PipelineOptions& options);

// Says once that a run ends, where it was interrupted; an InterruptGuard must be there.
std::function<pipeline::StopLevel()> finish_when_interrupted();

// Makes the dataset, or goes on with it.
Result<int> run_pipeline_file(const PipelineOptions& options, bool resume);

// Makes some of the records of a run that other processes make, too, until there is nothing left to
// make. Writes no results.
Result<int> share_pipeline_file(const PipelineOptions& options);

// Makes some records, shows them and keeps nothing.
Result<int> preview_pipeline_file(const PipelineOptions& options);

// Says whether the file is good, and what it would do.
Result<int> validate_pipeline_file(const PipelineOptions& options);

// What there is of a run.
Result<int> report_on_pipeline(const PipelineOptions& options);
Result<int> status_of_pipeline(const PipelineOptions& options);

}  // namespace dovetail::cli
