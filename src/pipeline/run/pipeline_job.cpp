#include "pipeline/run/pipeline_job.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>
#include <variant>

#include "pipeline/run/column_work.h"
#include "pipeline/run/failed_cells.h"
#include "pipeline/run/run_plan.h"

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

// What needs to know of all records is no worker's to decide.
Status check_shared(const PipelineSpec& spec) {
  const auto refuse = [&](const char* field, const char* what) {
    return fail(ErrorKind::kInvalid,
                "{}: {}: {}, which processes that share a run cannot know; leave it out, or make "
                "the run in one process",
                spec.file.string(), field, what);
  };
  if (spec.target) return refuse("target_accepted", "it counts the records of the whole run");
  return {};
}

// Of a run for which nobody is asked anything.
ModelClient no_model() {
  ModelClient client;
  client.room = [] { return 1; };
  client.on_room = [](const std::function<void()>&) {};
  client.submit = [](const ModelRequest&, const AnswerSink&) -> Status {
    return fail(ErrorKind::kInternal, "no model was started, since none was needed");
  };
  client.check = [] { return Status(); };
  client.state = [] { return std::vector<ModelState>(); };
  return client;
}

}  // namespace

Result<PipelineSpec> read_pipeline(const std::filesystem::path& file,
                                   std::optional<std::uint64_t> records,
                                   std::span<const ColumnType> types) {
  const auto text = read_text(file);
  if (!text) return fail(text.error());
  auto spec = parse_pipeline(*text, file, seed_fields, types);
  if (spec && records) spec->records = *records;
  return spec;
}

Result<std::unique_ptr<PipelineJob>> PipelineJob::open(PipelineSpec spec,
                                                       const JobOptions& options) {
  const bool shares = options.mode == OpenMode::kShare;
  if (shares) {
    if (const Status ok = check_shared(spec); !ok) return fail(ok.error());
  }
  auto draws = Draws::open(spec);
  if (!draws) return fail(std::move(draws.error()));
  std::unique_ptr<PipelineJob> job(new PipelineJob(std::move(spec), *std::move(draws)));
  StoreOptions store_options = options.store_options;
  if (shares) store_options.silence = std::min(store_options.silence, options.lease);
  auto store = Store::open(options.store, options.mode, std::move(store_options));
  if (!store) return fail(std::move(store.error()));
  job->store_ = *std::move(store);
  job->resumes_ = options.mode == OpenMode::kResume;
  if (shares) job->lease_ = options.lease;
  auto changes = job->store_->reconcile(stored_columns(job->spec_, job->draws_.seed_fingerprint()));
  if (!changes) return fail(std::move(changes.error()));
  job->changes_ = *std::move(changes);
  if (options.retry_failed) {
    const auto forgotten = forget_failed_cells(job->spec_, *job->store_);
    if (!forgotten) return fail(forgotten.error());
    job->forgotten_ = *forgotten;
  }
  return job;
}

Result<bool> PipelineJob::has_every_cell() const {
  RecordId record = 0;
  std::size_t cells = 0;
  bool dropped = false, gap = false;
  const auto has_ended = [&] { return dropped || cells == spec_.columns.size(); };
  const Status read = store_->for_each_cell([&](const CellView& cell) {
    if (cell.record != record) {
      gap = !has_ended() || cell.record != record + 1;
      record = cell.record;
      cells = 0;
      dropped = false;
    }
    ++cells;
    dropped = dropped || cell.state == CellState::kDropped;
    return !gap && record < spec_.records;
  });
  if (!read) return fail(read.error());
  return !gap && (record >= spec_.records || (record + 1 == spec_.records && has_ended()));
}

Result<bool> PipelineJob::is_paid_out() const {
  if (!spec_.limits.cost) return false;
  const auto spent = store_->spent();
  if (!spent) return fail(spent.error());
  return 1e-9 * static_cast<double>(*spent) >= *spec_.limits.cost;
}

// Whether no model can be asked anything, whatever becomes of this session.
Result<bool> PipelineJob::needs_no_model() const {
  if (spec_.models.empty() || !(resumes_ || leases_)) return false;
  const auto paid_out = is_paid_out();
  if (!paid_out || *paid_out) return paid_out;
  return leases_ ? leases_->all_complete() : has_every_cell();
}

Status PipelineJob::start_models() {
  if (lease_) {
    auto leases = lease_port(*store_, spec_.records, *lease_);
    if (!leases) return fail(std::move(leases.error()));
    leases_ = *std::move(leases);
  }
  const auto needs_none = needs_no_model();
  if (!needs_none) return fail(needs_none.error());
  if (*needs_none) {
    clients_.assign(spec_.models.size(), no_model());
    return {};
  }
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
      if (column.model() == nullptr || *column.model() != model.alias) continue;
      const Json* schema = answer_schema(column);
      const AnswerPattern pattern = answer_pattern(column);
      Status ok;
      if (schema != nullptr) ok = (*host)->check(*schema);
      if (!pattern.regex.empty()) ok = (*host)->check(pattern);
      if (!ok) return fail(ok.error().kind, "column '{}': {}", column.name, ok.error().message);
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
  run.in_order = ports.in_order;
  run.emitted = ports.emitted;
  run.progress = ports.progress;
  run.stop = ports.stop;
  // Given back at the end.
  const std::optional<LeasePort> leases = std::exchange(leases_, std::nullopt);
  if (leases) run.leases = &*leases;
  return run_pipeline(spec_, run);
}

std::vector<std::vector<ModelState>> PipelineJob::model_states() const {
  std::vector<std::vector<ModelState>> states;
  for (const ModelClient& client : clients_) states.push_back(client.state());
  return states;
}

}  // namespace dovetail::pipeline
