#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "pipeline/config/pipeline_spec.h"
#include "pipeline/run/lease_thread.h"
#include "pipeline/run/model_client.h"
#include "pipeline/run/ordered_emitter.h"
#include "pipeline/run/run_event.h"
#include "pipeline/store/store.h"

namespace dovetail::pipeline {

struct ColumnCounts {
  std::uint64_t values = 0, skipped = 0, failed = 0;  // of this run, and of those it resumes
  std::uint64_t cut = 0;                              // of them, those cut by a limit of tokens
  std::uint64_t in_flight = 0;
  std::uint64_t retries = 0;                               // of this run
  std::uint64_t from_cache = 0;                            // of this run: answers
  std::uint64_t prompt_tokens = 0, completion_tokens = 0;  // of this run
};

enum class RunEnd : std::uint8_t {
  kComplete,
  kStopped,       // by the port `stop`: what was under way has been kept
  kErrors,        // limits.errors: too many of the last cells failed for good
  kCost,          // limits.cost
  kTargetMissed,  // all candidates have been tried
};

struct RunProgress {
  std::uint64_t records = 0;                // in all
  std::uint64_t opened = 0;                 // begun
  std::uint64_t finished = 0, dropped = 0;  // of a shared run: those that were made here
  std::vector<ColumnCounts> columns;
  std::vector<std::uint64_t> ready;  // cells that wait for their model, by model
  bool window_is_full = false;       // no record is begun before another has ended
  std::vector<FigureCount> figures;  // of the spec
  double cost = 0.0;                 // of this run and those it resumes, by the models' prices
  RunEnd end = RunEnd::kComplete;
  std::string why;  // the run ended early
};

enum class StopLevel : std::uint8_t {
  kNone,
  kFinish,  // begin nothing more, keep what is under way
  kNow,     // wait for nothing
};

// What a run asks of the world; all but what the models say of themselves is called on the thread
// of run_pipeline().
struct RunPorts {
  std::vector<ModelClient> models;  // of the spec's models
  // Sets a column that is drawn (and, with it, those it is drawn together with) in a row that holds
  // what they need.
  std::function<Status(ColumnId, RecordId, Json& row)> draw;
  Store* store = nullptr;                             // whose columns are the spec's
  bool resumes = false;                               // the store may hold cells
  const LeasePort* leases = nullptr;                  // where several processes share the run
  std::function<Status(const FinishedRecord&)> emit;  // in the order of their numbers
  bool in_order = true;                               // false: as they finish; without a target
  std::function<Status()> emitted;                    // after some of them; may be empty
  std::function<void(const RunProgress&)> progress;   // ten times a second; may be empty
  std::function<StopLevel()> stop;                    // asked all the time; may be empty
  RunObserver observe;                                // may be empty
};

// Makes every cell of the spec's records that the store does not have. Each model has a queue of
// its own; whoever has room takes from its queue alone (pipeline/flow). A model's room is taken
// while it works, not while its answer is read. A cell is stored before its record is emitted, and
// is never stored before those that it was made of, so that a run that is killed at any moment goes
// on where it was. Cells whose model could not be reached are tried once more when all others have
// ended. With `leases`, the records are those of ranges that this process leases, one after the
// other, until all ranges of the run are complete; nothing is emitted, and what has become another
// worker's is forgotten. Errors: the store's, the leases', those of emit() and emitted(), a model's
// check().
Result<RunProgress> run_pipeline(const PipelineSpec& spec, const RunPorts& ports);

}  // namespace dovetail::pipeline
