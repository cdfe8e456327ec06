#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "pipeline/config/pipeline_spec.h"
#include "pipeline/run/lease_thread.h"
#include "pipeline/run/local_model.h"
#include "pipeline/run/remote_model.h"
#include "pipeline/run/run_plan.h"
#include "pipeline/run/runner.h"
#include "pipeline/store/store.h"

namespace dovetail::pipeline {

// Reads a pipeline file and the columns of its seed data. `records` goes before what the file says;
// `types` are added to those that columns may have.
Result<PipelineSpec> read_pipeline(const std::filesystem::path& file,
                                   std::optional<std::uint64_t> records = std::nullopt,
                                   std::span<const ColumnType> types = {});

struct JobOptions {
  std::string store;                  // see Store::open()
  OpenMode mode = OpenMode::kCreate;  // or kResume, or kShare
  StoreOptions store_options;
  bool retry_failed = false;  // with kResume: cells that have failed are made again
  // Of the ranges of a shared run: so long they stay with a worker that is cut off.
  std::chrono::milliseconds lease{60'000};
};

// What run() asks of the caller; see RunPorts.
struct JobPorts {
  std::function<Status(const FinishedRecord&)> emit;
  bool in_order = true;
  std::function<Status()> emitted;
  std::function<void(const RunProgress&)> progress;
  std::function<StopLevel()> stop;
};

// One run of a pipeline: its store, its data and its models.
class PipelineJob {
 public:
  // Opens the store and the seed data, and forgets the cells of columns that have changed. With
  // kShare, kInvalid where the spec has what processes that share a run cannot keep together.
  static Result<std::unique_ptr<PipelineJob>> open(PipelineSpec spec, const JobOptions& options);

  // Loads the models that cells are to be made with, and prepares those behind endpoints. A resumed
  // run that has every cell needs none, nor does one that is complete or has cost what it may.
  Status start_models();

  // Once, after start_models(). With kShare nothing is emitted.
  Result<RunProgress> run(const JobPorts& ports);

  // What resuming a changed file has changed.
  const Reconciliation& changes() const { return changes_; }
  // How many cells JobOptions::retry_failed has brought back.
  std::uint64_t forgotten() const { return forgotten_; }
  const PipelineSpec& spec() const { return spec_; }
  Store& store() const { return *store_; }
  // By model, then endpoint.
  std::vector<std::vector<ModelState>> model_states() const;

 private:
  Status start(const ModelSpec& model);
  Result<bool> has_every_cell() const;
  Result<bool> is_paid_out() const;
  Result<bool> needs_no_model() const;

  PipelineJob(PipelineSpec spec, Draws draws) : spec_(std::move(spec)), draws_(std::move(draws)) {}

  PipelineSpec spec_;
  Draws draws_;
  std::unique_ptr<Store> store_;
  bool resumes_ = false;
  std::optional<std::chrono::milliseconds> lease_;  // where the run is shared
  std::optional<LeasePort> leases_;                 // the same, from start_models() to run()
  Reconciliation changes_;
  std::uint64_t forgotten_ = 0;
  std::shared_ptr<RemoteThreads> threads_;  // where a model is remote
  std::vector<std::unique_ptr<LocalModelHost>> local_;
  std::vector<std::unique_ptr<RemoteModelHost>> remote_;
  std::vector<ModelClient> clients_;
};

}  // namespace dovetail::pipeline
