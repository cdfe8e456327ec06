#include "pipeline/face/session.h"

#include <system_error>
#include <utility>

#include "pipeline/face/run_facts.h"

namespace dovetail::pipeline {
namespace {

// What a killed process loses of the time and of the endpoints' activity. A commit of its own each.
constexpr auto kKeepEvery = std::chrono::seconds(10);

ResultsOptions results_options(const PipelineSpec& spec, const SessionOptions& options,
                               const RunFiles& files) {
  ResultsOptions results;
  results.file = files.results;
  results.format = options.format;
  results.dropped_file = files.dropped;
  results.resume = options.resume;
  for (const ColumnDescription& column : spec.columns) {
    if (column.drop) continue;
    results.columns.push_back(column.name);
    if (std::string mark = cut_mark(column); !mark.empty()) results.columns.push_back(mark);
  }
  return results;
}

}  // namespace

Session::Session(const SessionOptions& options, RunFiles files, std::unique_ptr<PipelineJob> job,
                 ResultsWriter writer)
    : report_(options.report),
      unordered_(options.unordered),
      files_(std::move(files)),
      job_(std::move(job)),
      writer_(std::move(writer)) {}

Result<std::unique_ptr<Session>> Session::open(PipelineSpec spec, const SessionOptions& options) {
  if (options.unordered && spec.target) {
    return fail(ErrorKind::kInvalid,
                "{}: target_accepted: the first records by number that meet its condition are "
                "taken, so that they are written in order; leave --unordered out",
                spec.file.string());
  }
  RunFiles files = files_of(spec, options.folder, options.database, options.format);
  std::error_code error;
  std::filesystem::create_directories(files.folder, error);
  if (error) return fail(ErrorKind::kIo, "{}: {}", files.folder.string(), error.message());
  JobOptions job_options;
  job_options.store = files.store;
  job_options.mode = options.resume ? OpenMode::kResume : OpenMode::kCreate;
  job_options.retry_failed = options.retry_failed;
  job_options.store_options = store_options(spec);
  job_options.store_options.on_waiting = options.on_waiting;
  auto job = PipelineJob::open(std::move(spec), job_options);
  if (!job) return fail(std::move(job.error()));
  auto writer = ResultsWriter::open(results_options((*job)->spec(), options, files));
  if (!writer) return fail(std::move(writer.error()));
  return std::unique_ptr<Session>(
      new Session(options, std::move(files), *std::move(job), *std::move(writer)));
}

Status Session::start() {
  if (Status ok = job_->start_models(); !ok) return ok;
  const Json before = stored_session(job_->store());
  old_figures_ = figures_in(before);
  log_.emplace(*job_, before);
  kept_ = log_->elapsed();
  return {};
}

// A store that takes nothing for now says so to those who put cells.
void Session::keep_now_and_then() {
  if (log_->elapsed() - kept_ < kKeepEvery) return;
  (void)keep_session(job_->store(), *log_, old_figures_);
  kept_ = log_->elapsed();
}

Result<RunProgress> Session::run(const JobPorts& ports) {
  JobPorts inner = ports;
  inner.in_order = !unordered_;
  inner.emit = [&](const FinishedRecord& record) -> Status {
    Status added = writer_.add(record.record, record.row, record.reason);
    if (!added || !ports.emit) return added;
    // Who is told of a record finds it in the files.
    if (Status written = writer_.write(); !written) return written;
    return ports.emit(record);
  };
  inner.emitted = [&] { return writer_.write(); };
  inner.progress = [&](const RunProgress& progress) {
    log_->observe(progress);
    keep_now_and_then();
    if (ports.progress) ports.progress(progress);
  };
  auto progress = job_->run(inner);
  log_->end();
  if (!progress) {
    // The error is the run's own. A store that has failed takes nothing.
    (void)writer_.sync();
    if (job_->store().flush()) (void)keep_session(job_->store(), *log_, old_figures_);
  }
  return progress;
}

Status Session::finish(const RunProgress& progress) {
  Status ok = progress.end == RunEnd::kComplete ? writer_.finish() : writer_.sync();
  if (ok) ok = keep_session(job_->store(), *log_, figures_json(spec(), progress));
  if (ok && report_) ok = write_report(job_->store(), spec(), files_);
  return ok;
}

}  // namespace dovetail::pipeline
