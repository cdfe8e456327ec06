#pragma once

#include <cstdint>

#include "base/result.h"
#include "pipeline/config/pipeline_spec.h"
#include "pipeline/store/store.h"

namespace dovetail::pipeline {

// Forgets the cells that have failed, those that dropped their record, and what was made of either,
// so that a run makes them again; durable on return. A record's cells go together: whenever the
// process ends, no cell is left that was made of a forgotten one. Returns how many had failed.
// Before the run begins. Errors are the store's.
Result<std::uint64_t> forget_failed_cells(const PipelineSpec& spec, Store& store);

}  // namespace dovetail::pipeline
