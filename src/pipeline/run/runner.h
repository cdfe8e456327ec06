#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "pipeline/config/pipeline_spec.h"
#include "pipeline/run/model_client.h"
#include "pipeline/store/store.h"

namespace dovetail::pipeline {

// A record all of whose cells are durable.
struct FinishedRecord {
  RecordId record = 0;
  Json row;            // by column, in their order; null for what was skipped or has failed
  std::string reason;  // why it was dropped; empty: it was not
};

struct ColumnCounts {
  std::uint64_t values = 0, skipped = 0, failed = 0;  // cells of this run, and of those it resumes
  std::uint64_t retries = 0;
  std::uint64_t prompt_tokens = 0, completion_tokens = 0;  // of this run
};

struct RunProgress {
  std::uint64_t records = 0;  // in all
  std::uint64_t finished = 0, dropped = 0;
  std::vector<ColumnCounts> columns;
  std::vector<std::uint32_t> in_flight;  // by model
  bool interrupted = false;              // by `stop`: what was under way has been kept
};

// What a run asks of the world; all but the models' sinks are called on the thread of
// run_pipeline().
struct RunPorts {
  std::vector<ModelClient> models;  // of the spec's models
  // Sets a column that is drawn (and, with it, those it is drawn together with) in a row that holds
  // what they need.
  std::function<Status(ColumnId, RecordId, Json& row)> draw;
  Store* store = nullptr;  // whose columns are the spec's
  // Takes a record; in the order of their numbers.
  std::function<Status(const FinishedRecord&)> emit;
  std::function<void(const RunProgress&)> progress;  // several times a second
  std::function<bool()> stop;                        // true: begin nothing more
};

// Makes every cell of the spec's records that the store does not have. Each model has a queue of
// its own; whoever has a free slot takes from its queue alone (pipeline/flow). A slot is held while
// the model works, not while its answer is read. A cell is stored before its record is emitted, and
// is never made before what it needs is on its way into the store, so that a run that is killed at
// any moment goes on where it was. Errors: the store's, emit()'s.
Result<RunProgress> run_pipeline(const PipelineSpec& spec, const RunPorts& ports);

// 128 bits of all that a column's values depend on, by column.
std::vector<Hash128> fingerprints(const PipelineSpec& spec);

}  // namespace dovetail::pipeline
