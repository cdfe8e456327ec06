#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pipeline/config/pipeline_spec.h"
#include "pipeline/face/run_files.h"
#include "pipeline/face/session_log.h"
#include "pipeline/report/report_data.h"
#include "pipeline/run/runner.h"
#include "pipeline/store/store.h"

namespace dovetail::pipeline {

// What a run's store keeps of its sessions: SessionLog::to_json(), and the figures of the last one
// as "figures". Empty where there is nothing that can be read, which is no reason not to run.
Json stored_session(const Store& store);
Status keep_session(Store& store, const SessionLog& log, const Json& figures);

// [{"name": ..., "hits": ..., "of": ...}], in the order of the file.
Json figures_json(const PipelineSpec& spec, const RunProgress& progress);
Json figures_in(const Json& session);
// One of them, for people.
std::string figure_text(const Json& figure);

// How far a column is.
struct ColumnTally {
  std::string name;
  std::array<std::uint64_t, kCellStates> cells{};  // by state
  std::uint64_t cut = 0;                           // answers that were cut by their limit of tokens
  // Of a validation column: values found valid, of those that were judged or could not be.
  std::optional<FigureCount> passed;
};

// By column of the store. Reads the whole run; errors are the store's.
Result<std::vector<ColumnTally>> tally(const Store& store, const PipelineSpec& spec);

// Writes the report of a run to its place.
Status write_report(const Store& store, const PipelineSpec& spec, const RunFiles& files);

}  // namespace dovetail::pipeline
