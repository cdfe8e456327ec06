#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/bench_report.h"
#include "cli/command.h"
#include "cli/engine_options.h"
#include "cli/output.h"
#include "cli/values.h"
#include "engine/option_table.h"
#include "engine/options.h"
#include "families/open_model.h"
#include "load/model_source.h"

namespace dovetail::cli {
namespace {

constexpr const char* kBenchName = "bench";
constexpr std::uint32_t kMostRuns = 1000;
constexpr std::uint32_t kMostDepth = 1U << 24;
constexpr std::array<std::uint32_t, 2> kPrompts = {512, 4096};
constexpr std::array<std::uint32_t, 7> kBatches = {1, 2, 4, 8, 16, 32, 64};
constexpr std::array<std::uint32_t, 2> kDeepBatches = {1, 8};  // at the depths after the first
constexpr std::array<std::uint32_t, 2> kMixedBatches = {8, 32};
constexpr std::array<std::string_view, 4> kKinds = {"roofline", "prefill", "decode", "mixed"};

struct BenchOptions {
  std::string model, json;
  std::uint32_t runs = 5;
  std::vector<std::uint32_t> depths = {128, 1024, 4096};
  bool own_depths = false;
  bool repeats = false;
  std::vector<std::string> only;  // none: all
  EngineOptions engine;

  bool wanted(std::string_view kind) const {
    return only.empty() || std::find(only.begin(), only.end(), kind) != only.end();
  }
};

std::vector<std::string> read_names(const std::string& text) {
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    names.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

Status read_depths(const std::string& text, std::vector<std::uint32_t>& depths) {
  depths.clear();
  for (const std::string& item : read_names(text)) {
    const auto depth = parse_integer(item, 1, kMostDepth);
    if (!depth) return fail(depth.error());
    depths.push_back(static_cast<std::uint32_t>(*depth));
  }
  return {};
}

// A row that there may be, and the kind that it is of.
struct BenchChoice {
  study::BenchCase what;
  std::string_view kind;
};

std::vector<BenchChoice> choices_of(const BenchOptions& options) {
  std::vector<BenchChoice> choices;
  for (const std::uint32_t prompt : kPrompts) choices.push_back({{prompt, 0, 0}, "prefill"});
  for (const std::uint32_t batch : kBatches)
    choices.push_back({{0, batch, options.depths[0]}, "decode"});
  for (std::size_t i = 1; i < options.depths.size(); ++i) {
    for (const std::uint32_t batch : kDeepBatches)
      choices.push_back({{0, batch, options.depths[i]}, "decode"});
  }
  for (const std::uint32_t batch : kMixedBatches)
    choices.push_back({{kPrompts[0], batch, options.depths[0]}, "mixed"});
  for (BenchChoice& choice : choices)
    choice.what.repeats = options.repeats && choice.what.sequences > 0;
  return choices;
}

// What `only` names that there is not; empty: there is all.
std::string unknown_row(const BenchOptions& options) {
  const std::vector<BenchChoice> choices = choices_of(options);
  for (const std::string& name : options.only) {
    const bool known = std::find(kKinds.begin(), kKinds.end(), name) != kKinds.end() ||
                       std::any_of(choices.begin(), choices.end(), [&](const BenchChoice& choice) {
                         return choice.what.name() == name;
                       });
    if (!known) {
      return fmt::format("--only: '{}' is not measured, expected some of {}, or rows such as '{}'",
                         name, fmt::join(kKinds, ","), choices.front().what.name());
    }
  }
  return {};
}

std::vector<study::BenchCase> cases_of(const BenchOptions& options) {
  std::vector<study::BenchCase> cases;
  for (const BenchChoice& choice : choices_of(options)) {
    if (options.wanted(choice.kind) || options.wanted(choice.what.name()))
      cases.push_back(choice.what);
  }
  return cases;
}

// Depths that were asked for are measured; of the usual ones the table says which the context
// lacks.
Status check_depths(const BenchOptions& options, std::uint64_t context) {
  if (!options.own_depths) return {};
  for (const study::BenchCase& what : cases_of(options)) {
    if (what.sequences == 0 || what.positions() <= context) continue;
    const std::uint64_t steps = what.positions() - what.depth;
    return fail(ErrorKind::kInvalid,
                "--depth: {} is beyond the model's context of {}, expected at most {}, since {} "
                "positions are decoded there",
                what.depth, context, context > steps ? context - steps : 0, steps);
  }
  return {};
}

Result<BenchReport> measure(const BenchOptions& options) {
  const auto source = families::open_model(options.model);
  if (!source) return fail(source.error());
  EngineOptions engine = options.engine;
  set_warnings(engine);
  const Result<engine::ResolvedOptions> resolved = engine::resolve(engine, **source);
  if (!resolved) return fail(engine::by_option_name(resolved.error()));
  if (const Status fits = check_depths(options, (*source)->config.max_context); !fits)
    return fail(fits.error());
  const auto rates = study::measure_machine(
      resolved->options, options.runs,
      [](const std::string& kind) { notice("dovetail bench: roofline: " + kind); });
  if (!rates) return fail(rates.error());

  BenchReport report;
  report.model = options.model;
  report.name = (*source)->name;
  report.options = resolved->options;
  report.runs = options.runs;
  report.repeats = options.repeats;
  report.memory_bytes = rates->memory_bytes;
  if (options.wanted("roofline")) report.rows = roofline_rows(*rates);
  const std::vector<study::BenchCase> cases = cases_of(options);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    notice(fmt::format("dovetail bench: {} of {}: {}", i + 1, cases.size(), cases[i].name()));
    const auto times = study::measure_case(*source, engine, cases[i], options.runs);
    if (!times) return fail(times.error());
    report.rows.push_back(steps_row(cases[i], *times, *rates));
  }
  return report;
}

Result<int> bench(const BenchOptions& options) {
  if (options.model.empty()) return usage_error(kBenchName, kModelMissing);
  if (const std::string wrong = unknown_row(options); !wrong.empty())
    return usage_error(kBenchName, wrong);
  // Opened before the work, so that a path that cannot be written is an error at once.
  std::optional<OutputFile> json_file;
  if (!options.json.empty()) {
    auto opened = OutputFile::open(options.json);
    if (!opened) return fail(opened.error());
    json_file.emplace(*std::move(opened));
  }
  const Result<BenchReport> report = measure(options);
  if (!report) return fail(report.error());
  if (json_file) {
    const Status written = json_file->write(
        bench_json(*report).dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
    if (!written) return fail(written.error());
    if (const Status closed = json_file->close(); !closed) return fail(closed.error());
  }
  // Programs that read the one do not want the other.
  if (options.json == "-") return kExitOk;
  Result<OutputFile> output = OutputFile::open("");
  if (const Status ok = output->write(bench_text(*report)); !ok) return fail(ok.error());
  return kExitOk;
}

}  // namespace

Command bench_command() {
  Command command;
  command.name = kBenchName;
  command.summary =
      "measure how fast a model runs here, and how near that is to the machine's best";
  command.options = std::make_unique<CLI::App>(
      "Measures what this machine can do at most, and then a model in the engine's own steps:\n"
      "prompts, sequences that decode, and both at once. Tokens are random. Each figure is over\n"
      "several runs, after one that is not measured; its shares are those of the machine's best.\n",
      "dovetail bench");
  const auto options = std::make_shared<BenchOptions>();
  CLI::App& app = *command.options;
  add_model(app, options->model);
  std::string group = "Measures";
  add_integer(app, "--runs", options->runs, 1, kMostRuns, "Runs of each measure (5)")->group(group);
  add_value(
      app, "--only", "KIND[,KIND...]",
      [options](const std::string& text) -> Status {
        options->only = read_names(text);
        return {};
      },
      "What to measure: roofline, prefill, decode, mixed, or rows by their names (all)")
      ->group(group);
  add_value(
      app, "--depth", "N[,N...]",
      [options](const std::string& text) {
        options->own_depths = true;
        return read_depths(text, options->depths);
      },
      "Positions that sequences have when they decode: the first for 1 to 64 of them,\n"
      "each further one for 1 and 8 (128,1024,4096)")
      ->group(group);
  app.add_flag("--repeat-context", options->repeats,
               "Sequences that decode compute their first 512 positions; the cache has copies of\n"
               "these for all others, so that deep contexts take little time to come to")
      ->group(group);
  add_text(app, "--json", options->json, "Also write a JSON object; -: in place of the table",
           kFile)
      ->group(group);
  add_engine_options(app, options->engine, {engine::OptionGroup::kLanes});
  add_engine_option(app, options->engine, engine::option_row("kv_memory"));
  command.action = [options] { return bench(*options); };
  return command;
}

}  // namespace dovetail::cli
