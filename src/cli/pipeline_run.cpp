#include "cli/pipeline_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "cli/command.h"
#include "cli/engine_options.h"
#include "cli/pipeline_progress.h"
#include "cli/signals.h"
#include "engine/option_table.h"
#include "engine/options.h"
#include "families/open_model.h"
#include "pipeline/face/run_facts.h"
#include "pipeline/face/session.h"
#include "pipeline/report/collect_report.h"
#include "pipeline/report/preview.h"
#include "pipeline/report/terminal_text.h"

namespace dovetail::cli {
namespace {

namespace fs = std::filesystem;
using pipeline::PipelineJob;
using pipeline::PipelineSpec;
using pipeline::RunEnd;
using pipeline::RunFiles;
using pipeline::RunProgress;

constexpr std::uint64_t kPreviewRecords = 3;

pipeline::ResultsFormat format_of(const PipelineOptions& options) {
  return options.format == "csv" ? pipeline::ResultsFormat::kCsv
                                 : pipeline::ResultsFormat::kJsonLines;
}

RunFiles files_of(const PipelineOptions& options, const PipelineSpec& spec) {
  return pipeline::files_of(spec, options.output, options.database, format_of(options));
}

std::string resume_command(const PipelineOptions& options, bool retry_failed = false) {
  std::string command = fmt::format("dovetail pipeline resume {}", options.file);
  if (!options.output.empty()) command += fmt::format(" --output {}", options.output);
  if (options.records != 0) command += fmt::format(" --records {}", options.records);
  if (options.format == "csv") command += " --format csv";
  if (!options.database.empty()) command += " --database ...";
  if (options.unordered) command += " --unordered";
  if (retry_failed) command += " --retry-failed";
  return command;
}

std::string seconds_text(std::chrono::microseconds time) {
  return fmt::format("{:.1f} s", static_cast<double>(time.count()) / 1e6);
}

// How a resumed run differs from what it was.
void tell_changes(const PipelineJob& job) {
  const auto& changes = job.changes();
  std::vector<std::string> remade, added;
  for (std::size_t i = 0; i < changes.columns.size(); ++i) {
    const std::string& name = job.spec().columns[i].name;
    if (changes.columns[i] == pipeline::Reconciliation::Change::kRemade) remade.push_back(name);
    if (changes.columns[i] == pipeline::Reconciliation::Change::kAdded) added.push_back(name);
  }
  const auto tell = [](const char* what, const std::vector<std::string>& names) {
    if (!names.empty()) fmt::print(stderr, "{}: {}\n", what, fmt::join(names, ", "));
  };
  tell("made anew, since they or what they need have changed", remade);
  tell("new", added);
  tell("no longer there", changes.removed);
}

const char* end_name(RunEnd end) {
  switch (end) {
    case RunEnd::kComplete:
      return "complete";
    case RunEnd::kStopped:
      return "stopped";
    case RunEnd::kErrors:
      return "errors";
    case RunEnd::kCost:
      return "cost";
    case RunEnd::kTargetMissed:
      break;
  }
  return "target_missed";
}

// Columns of which some answers were cut.
void tell_cut(const PipelineSpec& spec, const RunProgress& progress) {
  for (std::size_t i = 0; i < progress.columns.size(); ++i) {
    const pipeline::ColumnCounts& counts = progress.columns[i];
    if (counts.cut == 0) continue;
    fmt::print(stderr, "{}: {} of {} answers were cut by max_tokens\n", spec.columns[i].name,
               counts.cut, counts.values + counts.failed);
  }
}

// Endpoints that the file's max_parallel held back.
void tell_held(const pipeline::Session& session) {
  const Json kept = pipeline::stored_session(session.job().store());
  for (const auto& endpoint : pipeline::endpoints_in(kept, session.spec())) {
    const std::string held = pipeline::held_text(endpoint);
    if (!held.empty()) fmt::print(stderr, "{} ({}): {}\n", endpoint.model, endpoint.name, held);
  }
}

// Why the first record was dropped; empty where no file says so.
std::string first_reason(const RunFiles& files) {
  std::ifstream dropped(files.dropped);
  std::string line;
  if (!std::getline(dropped, line)) return "";
  const Json first = Json::parse(line, nullptr, false);
  const bool tells = first.is_object() && first.value("reason", Json()).is_string();
  return tells ? first["reason"].get<std::string>() : "";
}

// A dataset without a record is a failure, whatever became of its cells.
int tell_nothing_kept(std::uint64_t dropped, const std::string& why) {
  fmt::print(stderr, "dovetail pipeline: no record was kept: all {} were dropped{}{}\n", dropped,
             why.empty() ? "" : ", the first one since ", why);
  return kExitFailed;
}

// What a run says at its end; its exit code.
int conclude(const PipelineOptions& options, const pipeline::Session& session,
             const RunProgress& progress) {
  const RunFiles& files = session.files();
  const Json figures = pipeline::figures_json(session.spec(), progress);
  std::uint64_t tokens_in = 0, tokens_out = 0;
  for (const pipeline::ColumnCounts& counts : progress.columns) {
    tokens_in += counts.prompt_tokens;
    tokens_out += counts.completion_tokens;
  }
  if (options.json) {
    Json event = {{"event", "end"},
                  {"end", end_name(progress.end)},
                  {"why", progress.why},
                  {"records", progress.finished},
                  {"dropped", progress.dropped},
                  {"figures", figures},
                  {"results", files.results.string()}};
    fmt::print("{}\n", event.dump());
  } else if (!options.quiet) {
    fmt::print(stderr, "{} records in {}", progress.finished, files.results.string());
    if (progress.dropped > 0) {
      fmt::print(stderr, ", {} dropped ones in {}", progress.dropped, files.dropped.string());
    }
    fmt::print(stderr, "; {} prompt and {} generated tokens, {}", tokens_in, tokens_out,
               seconds_text(session.log().elapsed()));
    if (progress.cost > 0) fmt::print(stderr, ", cost {:.4f}", progress.cost);
    fmt::print(stderr, "\n");
    for (const Json& figure : figures) {
      fmt::print(stderr, "{}: {}\n", figure["name"].get_ref<const std::string&>(),
                 pipeline::figure_text(figure));
    }
    tell_cut(session.spec(), progress);
    tell_held(session);
    if (!options.no_report) fmt::print(stderr, "report: {}\n", files.report.string());
  }
  if (progress.end == RunEnd::kComplete) {
    return progress.finished > 0 ? kExitOk
                                 : tell_nothing_kept(progress.dropped, first_reason(files));
  }
  if (progress.end == RunEnd::kTargetMissed) {
    fmt::print(stderr, "dovetail pipeline: {}\n", progress.why);
    return kExitFailed;
  }
  fmt::print(stderr, "dovetail pipeline: it ended early: {}; go on with: {}\n", progress.why,
             resume_command(options, progress.end == RunEnd::kErrors));
  return progress.end == RunEnd::kStopped ? 128 + std::max(InterruptGuard::signal(), 1)
                                          : kExitFailed;
}

std::uint64_t cells_of(const pipeline::ColumnTally& column, pipeline::CellState state) {
  return column.cells[static_cast<std::size_t>(state)];
}

void print_status_json(const PipelineSpec& spec, const std::vector<pipeline::ColumnTally>& columns,
                       const std::vector<pipeline::EndpointReport>& endpoints) {
  using pipeline::CellState;
  Json all = Json::array();
  for (const pipeline::ColumnTally& column : columns) {
    Json& one = all.emplace_back(Json{{"column", column.name},
                                      {"values", cells_of(column, CellState::kValue)},
                                      {"skipped", cells_of(column, CellState::kSkipped)},
                                      {"failed", cells_of(column, CellState::kFailed)},
                                      {"dropped", cells_of(column, CellState::kDropped)},
                                      {"cut", column.cut}});
    if (column.passed) one["valid"] = {{"hits", column.passed->hits}, {"of", column.passed->of}};
  }
  Json places = Json::array();
  for (const pipeline::EndpointReport& endpoint : endpoints) {
    const auto total = endpoint.activity.total();
    places.push_back(
        {{"model", endpoint.model},
         {"endpoint", endpoint.name},
         {"max_parallel", endpoint.max_parallel},
         {"time_us", total.covered()},
         {"held_us", total.by[static_cast<std::size_t>(pipeline::SlotCause::kMaxParallel)]}});
  }
  const Json status = {{"records", spec.records}, {"columns", all}, {"endpoints", places}};
  fmt::print("{}\n", status.dump());
}

void print_status(const PipelineSpec& spec, const std::vector<pipeline::ColumnTally>& columns,
                  const std::vector<pipeline::EndpointReport>& endpoints) {
  using pipeline::CellState;
  fmt::print("{:<24} {:>12} {:>10} {:>10} {:>10} of {}\n", "column", "values", "skipped", "failed",
             "dropped", spec.records);
  for (const pipeline::ColumnTally& column : columns) {
    fmt::print("{:<24} {:>12} {:>10} {:>10} {:>10}", column.name,
               cells_of(column, CellState::kValue), cells_of(column, CellState::kSkipped),
               cells_of(column, CellState::kFailed), cells_of(column, CellState::kDropped));
    if (column.passed && column.passed->of > 0) {
      fmt::print("  {} valid", pipeline::percent_text(column.passed->hits, column.passed->of));
    }
    if (column.cut > 0) fmt::print("  {} cut by max_tokens", column.cut);
    fmt::print("\n");
  }
  for (const pipeline::EndpointReport& endpoint : endpoints) {
    const std::string held = pipeline::held_text(endpoint);
    if (!held.empty()) fmt::print("{} ({}): {}\n", endpoint.model, endpoint.name, held);
  }
}

// Whether the models of this machine can be run with the options that they have there.
Status check_models(const std::string& file, const PipelineSpec& spec) {
  std::string mistakes;
  for (const pipeline::ModelSpec& model : spec.models) {
    const auto* local = std::get_if<pipeline::LocalModel>(&model.where);
    if (local == nullptr) continue;
    const auto source = families::open_model(local->path);
    const auto resolved = source ? engine::resolve(local->engine, **source)
                                 : Result<engine::ResolvedOptions>(fail(source.error()));
    if (resolved) continue;
    mistakes += fmt::format("{}{}: models.{}: {}", mistakes.empty() ? "" : "\n", file, model.alias,
                            engine::by_option_name(resolved.error()).message);
  }
  if (!mistakes.empty()) return fail(ErrorKind::kInvalid, "{}", mistakes);
  return {};
}

}  // namespace

Result<PipelineSpec> read_pipeline_file(const PipelineOptions& options) {
  auto spec = pipeline::read_pipeline(
      options.file, options.records == 0 ? std::nullopt : std::optional(options.records));
  if (!spec) return spec;
  for (pipeline::ModelSpec& model : spec->models) {
    if (auto* local = std::get_if<pipeline::LocalModel>(&model.where)) set_warnings(local->engine);
  }
  return spec;
}

ProgressStyle progress_style(const PipelineOptions& options) {
  if (options.json) return ProgressStyle::kEvents;
  if (options.quiet) return ProgressStyle::kNone;
  return isatty(STDERR_FILENO) != 0 ? ProgressStyle::kTerminal : ProgressStyle::kLog;
}

std::function<pipeline::StopLevel()> finish_when_interrupted() {
  return [told = false]() mutable {
    if (InterruptGuard::signal() == 0) return pipeline::StopLevel::kNone;
    if (!std::exchange(told, true)) {
      fmt::print(stderr, "\nfinishing what is under way; once more stops at once\n");
    }
    return pipeline::StopLevel::kFinish;
  };
}

Result<int> run_pipeline_file(const PipelineOptions& options, bool resume) {
  auto spec = read_pipeline_file(options);
  if (!spec) return fail(spec.error());
  pipeline::SessionOptions session_options;
  session_options.folder = options.output;
  session_options.database = options.database;
  session_options.resume = resume;
  session_options.retry_failed = options.retry_failed;
  session_options.format = format_of(options);
  session_options.report = !options.no_report;
  session_options.unordered = options.unordered;
  session_options.on_waiting = [](const Error& error) {
    fmt::print(stderr, "waiting: {}\n", error.message);
  };
  const auto session = pipeline::Session::open(*std::move(spec), session_options);
  if (!session) return fail(session.error());
  const PipelineJob& job = (*session)->job();
  if (resume && !options.quiet) tell_changes(job);
  if (job.forgotten() > 0 && !options.quiet) {
    fmt::print(stderr, "made anew, since they had failed: {} cells\n", job.forgotten());
  }
  if (const Status ok = (*session)->start(); !ok) return fail(ok.error());

  PipelineProgress shown(job.spec(), (*session)->log(), progress_style(options));
  const InterruptGuard guard;
  pipeline::JobPorts ports;
  ports.progress = [&](const RunProgress& progress) { shown.update(progress); };
  ports.stop = finish_when_interrupted();
  const auto progress = (*session)->run(ports);
  if (!progress) {
    // Where the folder or the run's file has gone, this command finds nothing.
    std::error_code unknown;
    const RunFiles& files = (*session)->files();
    const bool gone = !fs::exists(files.folder, unknown) ||
                      (options.database.empty() && !fs::exists(files.store, unknown));
    if (gone) return fail(progress.error());
    return fail(progress.error().kind, "{}; go on with: {}", progress.error().message,
                resume_command(options));
  }
  shown.finish(*progress);
  if (const Status ok = (*session)->finish(*progress); !ok) return fail(ok.error());
  return conclude(options, **session, *progress);
}

Result<int> preview_pipeline_file(const PipelineOptions& options) {
  PipelineOptions some = options;
  if (some.records == 0) some.records = kPreviewRecords;
  auto spec = read_pipeline_file(some);
  if (!spec) return fail(spec.error());
  std::error_code none;
  const fs::path temporary = fs::temp_directory_path(none);
  std::string folder = (temporary / "dovetail-preview-XXXXXX").string();
  if (none || ::mkdtemp(folder.data()) == nullptr) {
    const char* named = std::getenv("TMPDIR");
    return fail(ErrorKind::kIo, "{}: no folder can be made there; TMPDIR may name another place",
                none && named != nullptr ? named : folder);
  }
  const std::shared_ptr<void> removed(nullptr, [&](void*) {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
  });
  pipeline::JobOptions job_options;
  job_options.store = (fs::path(folder) / "run.db").string();
  auto job = PipelineJob::open(*std::move(spec), job_options);
  if (!job) return fail(job.error());
  if (const Status ok = (*job)->start_models(); !ok) return fail(ok.error());

  pipeline::TerminalStyle style;
  winsize size = {};
  const bool terminal = isatty(STDOUT_FILENO) != 0;
  if (terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    style.width = size.ws_col;
  style.colour = terminal && std::getenv("NO_COLOR") == nullptr;
  const InterruptGuard guard;
  pipeline::JobPorts ports;
  EndpointFailures failures;
  ports.progress = [&](const RunProgress& /*progress*/) {
    const auto states = (*job)->model_states();
    for (std::size_t model = 0; model < states.size(); ++model) {
      for (const pipeline::ModelState& state : states[model])
        failures.tell(fmt::format("{} ({})", (*job)->spec().models[model].alias, state.name),
                      state.failure);
    }
  };
  std::string first_drop;
  ports.emit = [&](const pipeline::FinishedRecord& record) -> Status {
    if (first_drop.empty()) first_drop = record.reason;
    const auto cells = (*job)->store().read_record(record.record);
    if (!cells) return fail(cells.error());
    std::vector<pipeline::PreviewCell> shown;
    for (const pipeline::CellResult& cell : *cells) {
      const bool value = cell.state == pipeline::CellState::kValue;
      shown.push_back({(*job)->spec().columns[cell.column].name, cell.state,
                       value ? Json::parse(cell.json) : Json(), value ? "" : cell.json});
    }
    fmt::print("{}\n", pipeline::preview(record.record, shown, style));
    std::fflush(stdout);
    return {};
  };
  ports.in_order = (*job)->spec().target.has_value();  // else each is shown when it is finished
  ports.stop = [] {
    return InterruptGuard::signal() == 0 ? pipeline::StopLevel::kNone : pipeline::StopLevel::kNow;
  };
  if (!options.quiet) fmt::print(stderr, "making {} records\n", (*job)->spec().records);
  const auto progress = (*job)->run(ports);
  if (!progress) return fail(progress.error());
  tell_cut((*job)->spec(), *progress);
  if (progress->end == RunEnd::kStopped) return 128 + std::max(InterruptGuard::signal(), 1);
  if (progress->end == RunEnd::kErrors || progress->end == RunEnd::kCost) {
    fmt::print(stderr, "dovetail pipeline: it ended early: {}\n", progress->why);
    return kExitFailed;
  }
  // A target is for the whole run; a few candidates need not meet it.
  if (progress->finished > 0) return kExitOk;
  return tell_nothing_kept(progress->dropped, first_drop);
}

Result<int> validate_pipeline_file(const PipelineOptions& options) {
  const auto spec = read_pipeline_file(options);
  if (!spec) return fail(spec.error());
  const auto draws = pipeline::Draws::open(*spec);
  if (!draws) return fail(draws.error());
  if (const Status ok = check_models(options.file, *spec); !ok) return fail(ok.error());
  fmt::print("{}: {} records, {} columns, {} models\n", options.file, spec->records,
             spec->columns.size(), spec->models.size());
  for (const pipeline::ColumnInfo& column : pipeline::column_infos(*spec)) {
    fmt::print("  {:<24} {}{}{}\n", column.name, column.type, column.model.empty() ? "" : " by ",
               column.model);
  }
  return kExitOk;
}

Result<int> report_on_pipeline(const PipelineOptions& options) {
  const auto spec = read_pipeline_file(options);
  if (!spec) return fail(spec.error());
  const RunFiles files = files_of(options, *spec);
  const auto store = pipeline::look_at(*spec, files);
  if (!store) return fail(store.error());
  if (const Status ok = pipeline::write_report(**store, *spec, files); !ok) {
    return fail(ok.error());
  }
  fmt::print("{}\n", files.report.string());
  return kExitOk;
}

Result<int> status_of_pipeline(const PipelineOptions& options) {
  const auto spec = read_pipeline_file(options);
  if (!spec) return fail(spec.error());
  const auto store = pipeline::look_at(*spec, files_of(options, *spec));
  if (!store) return fail(store.error());
  const auto columns = pipeline::tally(**store, *spec);
  if (!columns) return fail(columns.error());
  const auto endpoints = pipeline::endpoints_in(pipeline::stored_session(**store), *spec);
  if (options.json) {
    print_status_json(*spec, *columns, endpoints);
  } else {
    print_status(*spec, *columns, endpoints);
  }
  return kExitOk;
}

}  // namespace dovetail::cli
