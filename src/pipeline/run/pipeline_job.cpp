#include "pipeline/run/pipeline_job.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>
#include <variant>

#include "pipeline/run/column_work.h"
#include "pipeline/run/fingerprints.h"

namespace dovetail::pipeline {
namespace {

Result<std::string> read_text(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  if (stream) text << stream.rdbuf();
  if (!stream || std::filesystem::is_directory(file)) {
    return fail(ErrorKind::kIo, "{}: {}", file.string(),
                std::strerror(std::filesystem::is_directory(file) ? EISDIR : errno));
  }
  return std::move(text).str();
}

Result<std::vector<std::string>> seed_fields(const SeedSpec& seed,
                                             const std::filesystem::path& folder) {
  const auto source = open_seed(seed, folder, 0);
  if (!source) return fail(source.error());
  return (*source)->columns();
}

// Columns for the store: those without a model are small and come together.
std::vector<ColumnSpec> stored_columns(const PipelineSpec& spec, std::uint64_t seed) {
  const std::vector<Hash128> hashes = fingerprints(spec, seed);
  std::vector<ColumnSpec> columns;
  for (std::size_t i = 0; i < spec.columns.size(); ++i) {
    columns.push_back({spec.columns[i].name, hashes[i], spec.columns[i].model() == nullptr});
  }
  return columns;
}

}  // namespace

Result<PipelineSpec> read_pipeline(const std::filesystem::path& file,
                                   std::optional<std::uint64_t> records) {
  const auto text = read_text(file);
  if (!text) return fail(text.error());
  auto spec = parse_pipeline(*text, file, seed_fields);
  if (spec && records) spec->records = *records;
  return spec;
}

Result<std::unique_ptr<PipelineJob>> PipelineJob::open(PipelineSpec spec,
                                                       const JobOptions& options) {
  auto draws = Draws::open(spec);
  if (!draws) return fail(std::move(draws.error()));
  std::unique_ptr<PipelineJob> job(new PipelineJob(std::move(spec), *std::move(draws)));
  auto store = Store::open(options.store, options.mode, options.store_options);
  if (!store) return fail(std::move(store.error()));
  job->store_ = *std::move(store);
  job->resumes_ = options.mode == OpenMode::kResume;
  auto changes = job->store_->reconcile(stored_columns(job->spec_, job->draws_.seed_fingerprint()));
  if (!changes) return fail(std::move(changes.error()));
  job->changes_ = *std::move(changes);
  return job;
}

Status PipelineJob::start_models() {
  for (const ModelSpec& model : spec_.models) {
    if (const Status started = start(model); !started) {
      return fail(started.error().kind, "model '{}': {}", model.alias, started.error().message);
    }
  }
  return {};
}

Status PipelineJob::start(const ModelSpec& model) {
  if (const auto* local = std::get_if<LocalModel>(&model.where)) {
    auto host = LocalModelHost::create(*local, model.sampling);
    if (!host) return fail(host.error());
    for (const ColumnDescription& column : spec_.columns) {
      const Json* schema = answer_schema(column);
      if (schema == nullptr || *column.model() != model.alias) continue;
      if (const Status ok = (*host)->check(*schema); !ok) {
        return fail(ok.error().kind, "column '{}': {}", column.name, ok.error().message);
      }
    }
    clients_.push_back((*host)->client());
    local_.push_back(*std::move(host));
    return {};
  }
  if (threads_ == nullptr) {
    auto threads = RemoteThreads::create();
    if (!threads) return fail(threads.error());
    threads_ = *std::move(threads);
  }
  RemoteHostOptions options;
  options.stall_bound =
      std::chrono::duration_cast<std::chrono::microseconds>(spec_.limits.stall).count();
  auto host = RemoteModelHost::create(threads_, model.alias, std::get<RemoteModel>(model.where),
                                      model.sampling, options);
  if (!host) return fail(host.error());
  clients_.push_back((*host)->client());
  remote_.push_back(*std::move(host));
  return {};
}

Result<RunProgress> PipelineJob::run(const JobPorts& ports) {
  RunPorts run;
  run.models = clients_;
  run.draw = [this](ColumnId column, RecordId record, Json& row) {
    return draws_.draw(column, record, row);
  };
  run.store = store_.get();
  run.resumes = resumes_;
  run.emit = ports.emit;
  run.progress = ports.progress;
  run.stop = ports.stop;
  return run_pipeline(spec_, run);
}

std::vector<std::vector<ModelState>> PipelineJob::model_states() const {
  std::vector<std::vector<ModelState>> states;
  for (const ModelClient& client : clients_) states.push_back(client.state());
  return states;
}

}  // namespace dovetail::pipeline
