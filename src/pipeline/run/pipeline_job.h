#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "pipeline/config/pipeline_spec.h"
#include "pipeline/run/draws.h"
#include "pipeline/run/local_model.h"
#include "pipeline/run/remote_model.h"
#include "pipeline/run/runner.h"
#include "pipeline/store/store.h"

namespace dovetail::pipeline {

// Reads a pipeline file and the columns of its seed data. `records` goes before what the file says.
Result<PipelineSpec> read_pipeline(const std::filesystem::path& file,
                                   std::optional<std::uint64_t> records = std::nullopt);

struct JobOptions {
  std::string store;                  // see Store::open()
  OpenMode mode = OpenMode::kCreate;  // or kResume
  StoreOptions store_options;
};

// What run() asks of the caller; see RunPorts.
struct JobPorts {
  std::function<Status(const FinishedRecord&)> emit;
  std::function<void(const RunProgress&)> progress;
  std::function<StopLevel()> stop;
};

// One run of a pipeline: its store, its data and its models.
class PipelineJob {
 public:
  // Opens the store and the seed data, and forgets the cells of columns that have changed.
  static Result<std::unique_ptr<PipelineJob>> open(PipelineSpec spec, const JobOptions& options);

  // Loads the models that cells are to be made with, and prepares those behind endpoints.
  Status start_models();

  // Once, after start_models().
  Result<RunProgress> run(const JobPorts& ports);

  // What resuming a changed file has changed.
  const Reconciliation& changes() const { return changes_; }
  const PipelineSpec& spec() const { return spec_; }
  Store& store() const { return *store_; }
  // By model, then endpoint.
  std::vector<std::vector<ModelState>> model_states() const;

 private:
  Status start(const ModelSpec& model);

  PipelineJob(PipelineSpec spec, Draws draws) : spec_(std::move(spec)), draws_(std::move(draws)) {}

  PipelineSpec spec_;
  Draws draws_;
  std::unique_ptr<Store> store_;
  bool resumes_ = false;
  Reconciliation changes_;
  std::shared_ptr<RemoteThreads> threads_;  // where a model is remote
  std::vector<std::unique_ptr<LocalModelHost>> local_;
  std::vector<std::unique_ptr<RemoteModelHost>> remote_;
  std::vector<ModelClient> clients_;
};

}  // namespace dovetail::pipeline
