#pragma once

#include <filesystem>
#include <string>

#include "pipeline/config/pipeline_spec.h"
#include "pipeline/results/results_writer.h"
#include "pipeline/store/store.h"

namespace dovetail::pipeline {

// Where a run is and what it leaves behind.
struct RunFiles {
  std::filesystem::path folder, results, dropped, report;
  std::string store;  // see Store::open()
};

// `folder`: empty for the pipeline's name. `database`: empty for run.db in the folder.
RunFiles files_of(const PipelineSpec& spec, const std::filesystem::path& folder,
                  const std::string& database, ResultsFormat format);

// In a database that several runs share, the pipeline's name tells them apart.
StoreOptions store_options(const PipelineSpec& spec);

// Opens the store of a run to look at it.
Result<std::unique_ptr<Store>> look_at(const PipelineSpec& spec, const RunFiles& files);

}  // namespace dovetail::pipeline
