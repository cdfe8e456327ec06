#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/result.h"

namespace dovetail::cli {

// Options of `dovetail pipeline ...`.
struct PipelineOptions {
  std::string file;
  std::string output;         // the run's folder; empty: the pipeline's name
  std::string format;         // "jsonl" or "csv"
  std::string database;       // of the run; empty: run.db in its folder
  std::uint64_t records = 0;  // 0: what the file says
  bool json = false, quiet = false, no_report = false;
};

// Makes the dataset, or goes on with it.
Result<int> run_pipeline_file(const PipelineOptions& options, bool resume);

// Makes some records, shows them and keeps nothing.
Result<int> preview_pipeline_file(const PipelineOptions& options);

// Says whether the file is good, and what it would do.
Result<int> validate_pipeline_file(const PipelineOptions& options);

// What there is of a run.
Result<int> report_on_pipeline(const PipelineOptions& options);
Result<int> status_of_pipeline(const PipelineOptions& options);

}  // namespace dovetail::cli
