#include <memory>
#include <string>

#include "cli/command.h"
#include "cli/output.h"
#include "cli/pipeline_run.h"
#include "pipeline/config/published_schema.h"

namespace dovetail::cli {
namespace {

constexpr const char* kPipelineName = "pipeline";

struct Chosen {
  PipelineOptions options;
  std::function<Result<int>()> action;
};

Result<int> print_schema() {
  Result<OutputFile> output = OutputFile::open("");
  if (!output) return fail(output.error());
  if (const Status ok = output->write(pipeline::published_schema()); !ok) return fail(ok.error());
  return kExitOk;
}

}  // namespace

Command pipeline_command() {
  Command command;
  command.name = kPipelineName;
  command.summary = "makes and judges datasets";
  command.options = std::make_unique<CLI::App>(
      "Makes a dataset from a pipeline file: columns that are drawn, computed, written by models "
      "and judged by models.",
      "dovetail pipeline");
  auto chosen = std::make_shared<Chosen>();
  PipelineOptions& options = chosen->options;
  const auto add = [&](const char* name, const char* what,
                       Result<int> (*action)(const PipelineOptions&)) {
    CLI::App* app = command.options->add_subcommand(name, what);
    app->add_option("FILE", options.file, "The pipeline file (YAML)")->required();
    app->add_option("-n,--records", options.records, "How many records, instead of what FILE says")
        ->type_name("N")
        ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{10'000'000'000}));
    app->callback([chosen = chosen.get(), action] {
      chosen->action = [chosen, action] { return action(chosen->options); };
    });
    return app;
  };
  const auto add_output = [&](CLI::App* app) {
    app->add_option("-o,--output", options.output, "The run's folder; without it, the name in FILE")
        ->type_name("FOLDER");
    app->add_option("--database", options.database,
                    "Where finished cells are kept, instead of run.db in the folder: a file, or "
                    "postgresql://...")
        ->type_name("WHERE");
  };
  const auto add_run = [&](CLI::App* app) {
    add_output(app);
    app->add_option("--format", options.format, "Of the results: jsonl or csv")
        ->check(CLI::IsMember({"jsonl", "csv"}));
    app->add_flag("--unordered", options.unordered,
                  "Writes records as they finish, not in the order of their numbers");
    app->add_flag("--json", options.json, "Progress as JSON lines on standard output");
    app->add_flag("-q,--quiet", options.quiet, "No progress");
    app->add_flag("--no-report", options.no_report, "No report.html at the end");
  };
  CLI::App* run = add("run", "Makes the dataset", [](const PipelineOptions& given) {
    return given.share ? share_pipeline_file(given) : run_pipeline_file(given, false);
  });
  add_run(run);
  CLI::Option* share =
      run->add_flag("--share", options.share,
                    "Makes it together with all others that are started like this, on any machine, "
                    "with the same FILE and PostgreSQL database; writes no results: resume does, "
                    "when the run is complete")
          ->excludes("--unordered");
  run->add_option("--lease", options.lease,
                  "With --share: after so many seconds without a word from this process, its "
                  "records are made by others")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.1, 86'400.0))
      ->needs(share)
      ->capture_default_str();
  CLI::App* resume =
      add("resume", "Goes on with a run that was stopped, also after FILE was changed",
          [](const PipelineOptions& given) { return run_pipeline_file(given, true); });
  add_run(resume);
  resume->add_flag("--retry-failed", options.retry_failed,
                   "Make cells that have failed, and the records they dropped, once more");
  add("preview", "Makes and shows some records, and keeps nothing", preview_pipeline_file);
  add("validate", "Checks FILE", validate_pipeline_file);
  add_output(add("report", "Writes the report of a run again", report_on_pipeline));
  CLI::App* status = add("status", "Says how far a run is", status_of_pipeline);
  add_output(status);
  status->add_flag("--json", options.json, "As JSON");
  command.options
      ->add_subcommand("schema", "Prints the JSON schema of pipeline files, which editors check by")
      ->callback([chosen = chosen.get()] { chosen->action = print_schema; });
  command.options->require_subcommand(1);
  command.action = [chosen] { return chosen->action(); };
  return command;
}

}  // namespace dovetail::cli
