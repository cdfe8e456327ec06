#include <memory>

#include "cli/command.h"
#include "cli/engine_options.h"
#include "cli/model_report.h"
#include "cli/output.h"
#include "cli/values.h"
#include "families/open_model.h"
#include "load/container.h"

namespace dovetail::cli {
namespace {

constexpr const char* kInspectName = "inspect";

struct InspectOptions {
  std::string model;
  bool tensors = false, json = false;
  EngineOptions engine;
};

Result<int> inspect(const InspectOptions& options) {
  if (options.model.empty()) return usage_error(kInspectName, kModelMissing);
  const Result<std::shared_ptr<const load::ModelSource>> source =
      load::is_description(options.model) ? families::describe_model(options.model)
                                          : families::open_model(options.model);
  if (!source) return fail(source.error());
  const Result<ModelReport> report = report_model(**source, options.engine);
  if (!report) return fail(report.error());
  Result<OutputFile> output = OutputFile::open("");
  const std::string text = options.json
                               ? report_json(**source, *report, options.tensors)
                                         .dump(2, ' ', false, Json::error_handler_t::replace) +
                                     "\n"
                               : report_text(**source, *report, options.tensors);
  if (const Status ok = output->show(text); !ok) return fail(ok.error());
  return kExitOk;
}

}  // namespace

Command inspect_command() {
  Command command;
  command.name = kInspectName;
  command.summary = "show a model's architecture, tensors and need of memory";
  command.options = std::make_unique<CLI::App>(
      "Shows what a model is and what it takes with the given options, without running it. Of a\n"
      "config.json alone, or a folder with nothing else: what the model would take.\n",
      "dovetail inspect");
  const auto options = std::make_shared<InspectOptions>();
  CLI::App& app = *command.options;
  add_model(app, options->model);
  app.add_flag("--tensors", options->tensors, "List every tensor")->group("Report");
  app.add_flag("--json", options->json, "One JSON object")->group("Report");
  add_engine_options(app, options->engine, {engine::OptionGroup::kSize});
  // With drafts the layer that makes them counts, and what it has in the cache.
  add_engine_option(app, options->engine, engine::option_row("speculative_tokens"));
  command.action = [options] { return inspect(*options); };
  return command;
}

}  // namespace dovetail::cli
