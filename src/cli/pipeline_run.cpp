#include "cli/pipeline_run.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <memory>
#include <optional>
#include <utility>

#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/pipeline_progress.h"
#include "pipeline/report/collect_report.h"
#include "pipeline/report/html_report.h"
#include "pipeline/report/preview.h"
#include "pipeline/results/results_writer.h"
#include "pipeline/run/pipeline_job.h"

namespace dovetail::cli {
namespace {

namespace fs = std::filesystem;
using pipeline::PipelineJob;
using pipeline::PipelineSpec;
using pipeline::RunEnd;
using pipeline::RunProgress;

// Properties of a run's store.
constexpr std::string_view kElapsed = "elapsed_us";
constexpr std::string_view kActivity = "activity";
constexpr std::string_view kFigures = "figures";
constexpr std::uint64_t kPreviewRecords = 3;

struct RunFiles {
  fs::path folder, store, results, dropped, report;
};

RunFiles files_of(const PipelineOptions& options, const PipelineSpec& spec) {
  RunFiles files;
  files.folder = options.output.empty() ? fs::path(spec.name) : fs::path(options.output);
  files.store = files.folder / "run.db";
  files.results = files.folder / (options.format == "csv" ? "results.csv" : "results.jsonl");
  files.dropped = files.folder / "dropped.jsonl";
  files.report = files.folder / "report.html";
  return files;
}

std::string store_of(const PipelineOptions& options, const RunFiles& files) {
  return options.database.empty() ? files.store.string() : options.database;
}

// In a database that several runs share, the pipeline's name tells them apart.
pipeline::StoreOptions store_options(const PipelineSpec& spec) {
  pipeline::StoreOptions options;
  options.run_name = spec.name;
  return options;
}

Result<PipelineSpec> read(const PipelineOptions& options) {
  return pipeline::read_pipeline(
      options.file, options.records == 0 ? std::nullopt : std::optional(options.records));
}

ProgressStyle progress_style(const PipelineOptions& options) {
  if (options.json) return ProgressStyle::kEvents;
  if (options.quiet) return ProgressStyle::kNone;
  return isatty(STDERR_FILENO) != 0 ? ProgressStyle::kTerminal : ProgressStyle::kLog;
}

pipeline::Json stored_json(const pipeline::Store& store, std::string_view name) {
  const auto text = store.property(name);
  if (!text || !*text) return nullptr;
  pipeline::Json value = pipeline::Json::parse(**text, nullptr, false);
  return value.is_discarded() ? pipeline::Json() : value;
}

std::uint64_t stored_number(const pipeline::Store& store, std::string_view name) {
  const pipeline::Json value = stored_json(store, name);
  return value.is_number_unsigned() ? value.get<std::uint64_t>() : 0;
}

Status make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return fail(ErrorKind::kIo, "{}: {}", folder.string(), error.message());
  return {};
}

std::string resume_command(const PipelineOptions& options) {
  std::string command = fmt::format("dovetail pipeline resume {}", options.file);
  if (!options.output.empty()) command += fmt::format(" --output {}", options.output);
  if (options.records != 0) command += fmt::format(" --records {}", options.records);
  if (options.format == "csv") command += " --format csv";
  if (!options.database.empty()) command += " --database ...";
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

// [{"name": ..., "hits": ..., "of": ...}], in the order of the file.
pipeline::Json figures_json(const PipelineSpec& spec, const RunProgress& progress) {
  pipeline::Json all = pipeline::Json::array();
  for (std::size_t i = 0; i < spec.figures.size(); ++i) {
    const pipeline::FigureCount& count = progress.figures[i];
    all.push_back({{"name", spec.figures[i].name}, {"hits", count.hits}, {"of", count.of}});
  }
  return all;
}

std::string figure_text(const pipeline::Json& figure) {
  const auto hits = figure.value("hits", std::uint64_t{0}),
             of = figure.value("of", std::uint64_t{0});
  if (of == 0) return "no record counts";
  return fmt::format("{:.2f} % ({} of {})",
                     100.0 * static_cast<double>(hits) / static_cast<double>(of), hits, of);
}

// Of the last session.
std::vector<pipeline::KeyFigure> stored_figures(const pipeline::Store& store,
                                                const PipelineSpec& spec) {
  std::vector<pipeline::KeyFigure> figures;
  const pipeline::Json all = stored_json(store, kFigures);
  for (const pipeline::FigureSpec& figure : spec.figures) {
    for (const pipeline::Json& stored : all) {
      if (!stored.is_object() || stored.value("name", "") != figure.name) continue;
      figures.push_back({figure.name, figure_text(stored), figure.about});
    }
  }
  return figures;
}

std::vector<pipeline::EndpointReport> stored_endpoints(const pipeline::Store& store) {
  std::vector<pipeline::EndpointReport> endpoints;
  const pipeline::Json all = stored_json(store, kActivity);
  if (!all.is_object()) return endpoints;
  for (const auto& [key, value] : all.items()) {
    auto activity = pipeline::Activity::from_json(value);
    const std::size_t slash = key.find('/');
    if (!activity || slash == std::string::npos) continue;
    endpoints.push_back({key.substr(slash + 1), key.substr(0, slash), *std::move(activity)});
  }
  return endpoints;
}

Result<pipeline::ReportData> collect(const pipeline::Store& store, const PipelineSpec& spec,
                                     std::vector<pipeline::EndpointReport> endpoints) {
  const auto infos = pipeline::column_infos(spec);
  auto data = pipeline::collect_report(store, infos);
  if (!data) return data;
  data->title = spec.name;
  data->made = fmt::format("{:%Y-%m-%d %H:%M}", fmt::localtime(std::time(nullptr)));
  data->records = spec.records;
  data->wall_us = stored_number(store, kElapsed);
  data->endpoints = std::move(endpoints);
  data->key_figures = stored_figures(store, spec);
  if (spec.target) data->accepted_means = "target_accepted";
  return data;
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

// What a run says at its end; its exit code.
int conclude(const PipelineOptions& options, const RunFiles& files, const RunProgress& progress,
             const pipeline::Json& figures, std::chrono::microseconds elapsed) {
  std::uint64_t tokens_in = 0, tokens_out = 0;
  for (const pipeline::ColumnCounts& counts : progress.columns) {
    tokens_in += counts.prompt_tokens;
    tokens_out += counts.completion_tokens;
  }
  if (options.json) {
    pipeline::Json event = {{"event", "end"},
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
               seconds_text(elapsed));
    if (progress.cost > 0) fmt::print(stderr, ", cost {:.4f}", progress.cost);
    fmt::print(stderr, "\n");
    for (const pipeline::Json& figure : figures) {
      fmt::print(stderr, "{}: {}\n", figure["name"].get_ref<const std::string&>(),
                 figure_text(figure));
    }
    if (!options.no_report) fmt::print(stderr, "report: {}\n", files.report.string());
  }
  if (progress.end == RunEnd::kComplete) return kExitOk;
  if (progress.end == RunEnd::kTargetMissed) {
    fmt::print(stderr, "dovetail pipeline: {}\n", progress.why);
    return kExitFailed;
  }
  fmt::print(stderr, "dovetail pipeline: it ended early: {}; go on with: {}\n", progress.why,
             resume_command(options));
  return progress.end == RunEnd::kStopped ? 128 + std::max(InterruptGuard::signal(), 1)
                                          : kExitFailed;
}

}  // namespace

Result<int> run_pipeline_file(const PipelineOptions& options, bool resume) {
  auto spec = read(options);
  if (!spec) return fail(spec.error());
  const RunFiles files = files_of(options, *spec);
  if (const Status ok = make_folder(files.folder); !ok) return fail(ok.error());

  pipeline::JobOptions job_options;
  job_options.store = store_of(options, files);
  job_options.mode = resume ? pipeline::OpenMode::kResume : pipeline::OpenMode::kCreate;
  job_options.store_options = store_options(*spec);
  job_options.store_options.on_waiting = [](const Error& error) {
    fmt::print(stderr, "waiting: {}\n", error.message);
  };
  auto job = PipelineJob::open(*std::move(spec), job_options);
  if (!job) return fail(job.error());
  if (resume && !options.quiet) tell_changes(**job);

  pipeline::ResultsOptions results;
  results.file = files.results;
  results.dropped_file = files.dropped;
  results.resume = resume;
  for (const pipeline::ColumnDescription& column : (*job)->spec().columns) {
    if (!column.drop) results.columns.push_back(column.name);
  }
  auto writer = pipeline::ResultsWriter::open(std::move(results));
  if (!writer) return fail(writer.error());
  if (const Status ok = (*job)->start_models(); !ok) return fail(ok.error());

  pipeline::Store& store = (*job)->store();
  PipelineProgress shown(**job, progress_style(options),
                         std::chrono::microseconds(stored_number(store, kElapsed)),
                         stored_json(store, kActivity));
  const InterruptGuard guard;
  bool told = false;
  pipeline::JobPorts ports;
  ports.emit = [&](const pipeline::FinishedRecord& record) {
    return writer->add(record.record, record.row, record.reason);
  };
  ports.progress = [&](const RunProgress& progress) { shown.update(progress); };
  ports.stop = [&] {
    if (InterruptGuard::signal() == 0) return pipeline::StopLevel::kNone;
    if (!std::exchange(told, true)) {
      fmt::print(stderr, "\nfinishing what is under way; once more stops at once\n");
    }
    return pipeline::StopLevel::kFinish;
  };
  const auto progress = (*job)->run(ports);
  if (!progress) {
    return fail(progress.error().kind, "{}; go on with: {}", progress.error().message,
                resume_command(options));
  }
  shown.finish(*progress);
  const std::chrono::microseconds elapsed = shown.elapsed();
  Status ok = progress->end == RunEnd::kComplete ? writer->finish() : writer->sync();
  if (ok) ok = store.set_property(kElapsed, std::to_string(elapsed.count()));
  if (ok) ok = store.set_property(kActivity, shown.activity().dump());
  const pipeline::Json figures = figures_json((*job)->spec(), *progress);
  if (ok) ok = store.set_property(kFigures, figures.dump());
  if (ok && !options.no_report) {
    const auto data = collect(store, (*job)->spec(), shown.endpoints());
    ok = data ? pipeline::write_html_report(*data, files.report) : Status(fail(data.error()));
  }
  if (!ok) return fail(ok.error());
  return conclude(options, files, *progress, figures, elapsed);
}

Result<int> preview_pipeline_file(const PipelineOptions& options) {
  PipelineOptions some = options;
  if (some.records == 0) some.records = kPreviewRecords;
  auto spec = read(some);
  if (!spec) return fail(spec.error());
  std::string folder = (fs::temp_directory_path() / "dovetail-preview-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) {
    return fail(ErrorKind::kIo, "{}: no folder can be made there", folder);
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
  if (terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) style.width = size.ws_col;
  style.colour = terminal && std::getenv("NO_COLOR") == nullptr;
  const InterruptGuard guard;
  pipeline::JobPorts ports;
  ports.emit = [&](const pipeline::FinishedRecord& record) -> Status {
    const auto cells = (*job)->store().read_record(record.record);
    if (!cells) return fail(cells.error());
    std::vector<pipeline::PreviewCell> shown;
    for (const pipeline::CellResult& cell : *cells) {
      const bool value = cell.state == pipeline::CellState::kValue;
      shown.push_back({(*job)->spec().columns[cell.column].name, cell.state,
                       value ? pipeline::Json::parse(cell.json) : pipeline::Json(),
                       value ? "" : cell.json});
    }
    fmt::print("{}\n", pipeline::preview(record.record, shown, style));
    std::fflush(stdout);
    return {};
  };
  ports.stop = [] {
    return InterruptGuard::signal() == 0 ? pipeline::StopLevel::kNone : pipeline::StopLevel::kNow;
  };
  const auto progress = (*job)->run(ports);
  if (!progress) return fail(progress.error());
  return kExitOk;
}

Result<int> validate_pipeline_file(const PipelineOptions& options) {
  const auto spec = read(options);
  if (!spec) return fail(spec.error());
  const auto draws = pipeline::Draws::open(*spec);
  if (!draws) return fail(draws.error());
  fmt::print("{}: {} records, {} columns, {} models\n", options.file, spec->records,
             spec->columns.size(), spec->models.size());
  for (const pipeline::ColumnInfo& column : pipeline::column_infos(*spec)) {
    fmt::print("  {:<24} {}{}{}\n", column.name, column.type, column.model.empty() ? "" : " by ",
               column.model);
  }
  return kExitOk;
}

Result<int> report_on_pipeline(const PipelineOptions& options) {
  const auto spec = read(options);
  if (!spec) return fail(spec.error());
  const RunFiles files = files_of(options, *spec);
  const auto store = pipeline::Store::open(store_of(options, files), pipeline::OpenMode::kReadOnly,
                                           store_options(*spec));
  if (!store) return fail(store.error());
  const auto data = collect(**store, *spec, stored_endpoints(**store));
  if (!data) return fail(data.error());
  if (const Status ok = pipeline::write_html_report(*data, files.report); !ok) {
    return fail(ok.error());
  }
  fmt::print("{}\n", files.report.string());
  return kExitOk;
}

Result<int> status_of_pipeline(const PipelineOptions& options) {
  const auto spec = read(options);
  if (!spec) return fail(spec.error());
  const RunFiles files = files_of(options, *spec);
  const auto store = pipeline::Store::open(store_of(options, files), pipeline::OpenMode::kReadOnly,
                                           store_options(*spec));
  if (!store) return fail(store.error());
  const auto columns = (*store)->columns();
  if (!columns) return fail(columns.error());
  const auto counts = (*store)->counts();
  if (!counts) return fail(counts.error());
  using pipeline::CellState;
  const auto count = [&](std::size_t column, CellState state) {
    return (*counts)[column][static_cast<std::size_t>(state)];
  };
  if (options.json) {
    pipeline::Json all = pipeline::Json::array();
    for (std::size_t i = 0; i < columns->size(); ++i) {
      all.push_back({{"column", (*columns)[i].name},
                     {"values", count(i, CellState::kValue)},
                     {"skipped", count(i, CellState::kSkipped)},
                     {"failed", count(i, CellState::kFailed)},
                     {"dropped", count(i, CellState::kDropped)}});
    }
    fmt::print("{}\n", pipeline::Json{{"records", spec->records}, {"columns", all}}.dump());
    return kExitOk;
  }
  fmt::print("{:<24} {:>12} {:>10} {:>10} {:>10} of {}\n", "column", "values", "skipped", "failed",
             "dropped", spec->records);
  for (std::size_t i = 0; i < columns->size(); ++i) {
    fmt::print("{:<24} {:>12} {:>10} {:>10} {:>10}\n", (*columns)[i].name,
               count(i, CellState::kValue), count(i, CellState::kSkipped),
               count(i, CellState::kFailed), count(i, CellState::kDropped));
  }
  return kExitOk;
}

}  // namespace dovetail::cli
