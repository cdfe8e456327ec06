#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/output_file.h"
#include "pipeline/run/pipeline_job.h"

namespace dovetail::cli {
namespace {

constexpr const char* kName = "pipeline";

struct PipelineOptions {
  std::string file, output;
  std::uint64_t records = 0;
  bool resume = false;
};

std::filesystem::path folder_of(const PipelineOptions& options,
                                const pipeline::PipelineSpec& spec) {
  return options.output.empty() ? std::filesystem::path(spec.name)
                                : std::filesystem::path(options.output);
}

Result<pipeline::PipelineSpec> read(const PipelineOptions& options) {
  return pipeline::read_pipeline(
      options.file, options.records == 0 ? std::nullopt : std::optional(options.records));
}

Result<int> run(const PipelineOptions& options) {
  auto spec = read(options);
  if (!spec) return fail(spec.error());
  const std::filesystem::path folder = folder_of(options, *spec);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return fail(ErrorKind::kIo, "{}: {}", folder.string(), error.message());
  pipeline::JobOptions job_options;
  job_options.store = folder / "run.db";
  job_options.mode = options.resume ? pipeline::OpenMode::kResume : pipeline::OpenMode::kCreate;
  auto job = pipeline::PipelineJob::open(*std::move(spec), job_options);
  if (!job) return fail(job.error());
  if (const Status ok = (*job)->start_models(); !ok) return fail(ok.error());
  auto results = OutputFile::open((folder / "results.jsonl").string());
  if (!results) return fail(results.error());
  const InterruptGuard guard;
  pipeline::JobPorts ports;
  ports.emit = [&](const pipeline::FinishedRecord& record) -> Status {
    if (!record.reason.empty()) {
      fmt::print(stderr, "dropped {}: {}\n", record.record, record.reason);
      return {};
    }
    return results->write(record.row.dump() + "\n");
  };
  ports.stop = [] {
    return InterruptGuard::signal() == 0 ? pipeline::StopLevel::kNone
                                         : pipeline::StopLevel::kFinish;
  };
  const auto progress = (*job)->run(ports);
  if (!progress) return fail(progress.error());
  fmt::print(stderr, "{} records, {} dropped {}\n", progress->finished, progress->dropped,
             progress->why);
  return kExitOk;
}

}  // namespace

Command pipeline_command() {
  Command command;
  command.name = kName;
  command.summary = "makes and judges datasets";
  command.options = std::make_unique<CLI::App>("Makes a dataset from a pipeline file.");
  auto options = std::make_shared<PipelineOptions>();
  CLI::App& run_app = *command.options->add_subcommand("run", "Makes the dataset");
  run_app.add_option("FILE", options->file, "The pipeline file")->required();
  run_app.add_option("--output,-o", options->output, "The run's folder");
  run_app.add_option("--records,-n", options->records, "How many records");
  run_app.add_flag("--resume", options->resume, "Goes on with a run");
  command.options->require_subcommand(1);
  command.action = [options] { return run(*options); };
  return command;
}

}  // namespace dovetail::cli
