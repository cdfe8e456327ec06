#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/result.h"
#include "pipeline/config/pipeline_spec.h"
#include "pipeline/report/progress_view.h"
#include "pipeline/report/report_data.h"
#include "pipeline/store/store.h"

namespace dovetail::pipeline {

struct CollectOptions {
  std::size_t samples = 8;
  std::size_t most_value = 4000;  // bytes of a value of a sample
  std::size_t most_errors = 40;   // kinds, and as many kinds of reasons for which records drop
  std::size_t dropped = 5;        // records, the first ones
  // Where the run has a target: why a finished record, an object by column, does not count; empty:
  // it does. Records behind the `target`-th that counts are not of the results.
  std::function<std::string(const Json& row)> refusal = {};
  std::uint64_t target = 0;
};

// What the file says of its columns.
std::vector<ColumnInfo> column_infos(const PipelineSpec& spec);

// Whether the value of a validation column says that what it looked at is valid.
bool is_passed(const Json& value);

// Reads all cells of a run once; memory does not grow with their number. `infos`: of columns by
// name, in the order that the report has; those of the store that are not named come behind. The
// samples are the finished records whose numbers come first by a fixed hash, so that a report is
// the same whenever it is made; of dropped records, the first are shown. The caller fills in what
// only it knows. Errors are the store's.
Result<ReportData> collect_report(const Store& store, std::span<const ColumnInfo> infos,
                                  const CollectOptions& options = {});

// How far the run is, of what has been collected: nothing is in flight, and there are no rates.
ProgressView progress_of(const ReportData& data);

}  // namespace dovetail::pipeline
