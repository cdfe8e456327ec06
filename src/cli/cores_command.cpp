#include <fmt/core.h>

#include <filesystem>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "cli/command.h"
#include "cli/cores_report.h"
#include "cli/engine_options.h"
#include "cli/graph_file.h"
#include "cli/output.h"
#include "cli/values.h"
#include "cores/trace.h"
#include "study/swimlanes.h"

namespace dovetail::cli {
namespace {

constexpr const char* kCoresName = "cores";
constexpr std::size_t kMostLanes = 65'536;   // of a machine that is played
constexpr std::size_t kMostRunLanes = 4096;  // of one that threads serve
constexpr int kMostThreads = 1024;

struct CoresOptions {
  std::string topology, graph, trace, svg;
  study::PlayOptions play;
  std::string policy = "strict";
  bool json = false;
  bool blind = false;
  std::uint32_t threads = 0;  // 0: played under a virtual clock
};

Status read_policy(const std::string& text, CoresOptions& options) {
  using cores::AdmissionPolicy;
  options.play.dispatch.stages = text == "staged";
  if (text == "strict" || text == "staged") {
    options.play.dispatch.policy = AdmissionPolicy::kStrict;
  } else if (text == "uniform") {
    options.play.dispatch.policy = AdmissionPolicy::kUniform;
  } else if (text == "per-core") {
    options.play.dispatch.policy = AdmissionPolicy::kPerCore;
  } else {
    return fail(ErrorKind::kInvalid,
                "'{}' is no policy, expected strict, staged, uniform or per-core", text);
  }
  options.policy = text;
  return {};
}

cores::LaneTrace trace_of(const std::vector<study::ProgramTask>& program,
                          study::PlayedProgram played) {
  cores::LaneTrace trace;
  trace.running = std::move(played.spans);
  trace.pending = std::move(played.pending);
  trace.reserved = std::move(played.reserved);
  trace.counters = {{"tasks, high-water mark", {}},
                    {"accesses, high-water mark", {}},
                    {"edges, high-water mark", {}}};
  for (const study::RingSample& sample : played.rings) {
    trace.counters[0].samples.emplace_back(sample.time, sample.high.tasks);
    trace.counters[1].samples.emplace_back(sample.time, sample.high.accesses);
    trace.counters[2].samples.emplace_back(sample.time, sample.high.edges);
  }
  trace.name = [&program](cores::TaskId task) { return program[task].name; };
  return trace;
}

// Opened before the work, so that a path that cannot be written is an error at once.
Result<std::optional<OutputFile>> open_file(const std::string& path) {
  if (path.empty()) return std::optional<OutputFile>();
  auto file = OutputFile::open(path);
  if (!file) return fail(file.error());
  return std::optional<OutputFile>(*std::move(file));
}

template <class Write>
Status fill(std::optional<OutputFile>& file, Write write) {
  if (!file) return {};
  Status written;
  std::string text;
  const auto flush = [&] {
    if (written) written = file->write(text);
    text.clear();
  };
  write([&](std::string_view piece) {
    text += piece;
    if (text.size() > std::size_t{1} << 16) flush();
  });
  flush();
  if (!written) return written;
  return file->close();
}

Result<study::PlayedProgram> run_on_threads(const cores::Topology& topology,
                                            const std::vector<study::ProgramTask>& program,
                                            const CoresOptions& options) {
  const study::PlayOptions& play = options.play;
  try {
    return study::run_program(topology, program,
                              {play.dispatch, play.graph, play.costs_known, options.threads});
  } catch (const std::system_error& error) {
    return fail(ErrorKind::kExhausted, "--threads: the system does not start {}: {}",
                options.threads, error.what());
  } catch (const std::bad_alloc&) {
    return fail(ErrorKind::kExhausted, "--threads: {} threads for {} lanes do not fit the memory",
                options.threads, topology.lanes());
  }
}

Result<int> run(CoresOptions& options) {
  if (options.graph.empty()) return usage_error(kCoresName, "--graph is missing, expected a file");
  const Result<cores::Topology> topology = options.topology.empty()
                                               ? cores::Topology::of_machine()
                                               : cores::Topology::parse(options.topology);
  if (!topology) return fail(topology.error().kind, "--topology: {}", topology.error().message);
  if (topology->lanes() > kMostLanes) {
    return fail(ErrorKind::kInvalid, "--topology: {} has {} lanes, expected at most {}",
                options.topology, topology->lanes(), kMostLanes);
  }
  if (options.threads > 0 && topology->lanes() > kMostRunLanes) {
    return fail(ErrorKind::kInvalid,
                "--topology: {} has {} lanes, expected at most {} with --threads; without it the "
                "graph is played",
                options.topology, topology->lanes(), kMostRunLanes);
  }
  const Result<std::string> text = read_text_file(options.graph);
  if (!text) return fail(text.error());
  const auto program = parse_graph(*text, options.graph);
  if (!program) return fail(program.error());
  auto trace_file = open_file(options.trace);
  if (!trace_file) return fail(trace_file.error());
  auto svg_file = open_file(options.svg);
  if (!svg_file) return fail(svg_file.error());

  options.play.costs_known = !options.blind;
  auto played = options.threads == 0 ? study::play_program(*topology, *program, options.play)
                                     : run_on_threads(*topology, *program, options);
  if (!played) return fail(played.error().kind, "{}: {}", options.graph, played.error().message);
  const CoresReport report = report_on(*topology, *program, *played);
  const cores::LaneTrace trace = trace_of(*program, *std::move(played));
  const Status traced =
      fill(*trace_file, [&](const auto& out) { cores::write_lane_trace(*topology, trace, out); });
  if (!traced) return fail(traced.error());
  study::SwimlaneOptions picture;
  picture.title = fmt::format("{} on {}, {}: {:.1f} us, {:.1f} % of what the bound allows",
                              std::filesystem::path(options.graph).filename().string(),
                              topology->text(), options.policy,
                              static_cast<double>(report.makespan) / 1000.0, 100.0 * report.ratio);
  const Status drawn = fill(
      *svg_file, [&](const auto& out) { study::write_swimlanes(*topology, trace, picture, out); });
  if (!drawn) return fail(drawn.error());

  Result<OutputFile> output = OutputFile::open("");
  const Status ok =
      output->write(options.json ? cores_report_json(report) : cores_report_text(report));
  if (!ok) return fail(ok.error());
  return kExitOk;
}

}  // namespace

Command cores_command() {
  Command command;
  command.name = kCoresName;
  command.summary =
      "play a graph of tasks on core groups under a virtual clock, or run it, and draw it";
  command.options = std::make_unique<CLI::App>(
      "Plays a graph of tasks on the lanes of a machine under a virtual clock, or runs it on "
      "threads, "
      "with the\n"
      "dispatcher of the task runtime, and prints how long it takes, what no order of the tasks "
      "can beat, and "
      "where\n"
      "time is lost. The README of src/cli says what stands in a graph file.\n",
      "dovetail cores");
  const auto options = std::make_shared<CoresOptions>();
  CLI::App& app = *command.options;
  std::string group = "Machine and graph";
  add_text(
      app, "--topology", options->topology,
      "Groups of lanes: 24x(1C2V), 8x(1C2V)+2x(16L); C does matrix work, V vector work, L both "
      "(this machine)")
      ->group(group);
  add_text(app, "--graph", options->graph, "The tasks, as YAML or JSON", kFile)->group(group);
  group = "Dispatching";
  add_value(
      app, "--policy", "POLICY",
      [options](const std::string& text) { return read_policy(text, *options); },
      "When mixed tasks are given lanes: strict, staged, uniform or per-core (strict)")
      ->group(group);
  add_integer(
      app, "--patience", options->play.dispatch.starvation_bound, 1, 1 << 30,
      "Rounds of the machine of mixed tasks and cohorts that may start while a task of a single "
      "lane waits, and later cohorts while a mixed task does (8)")
      ->group(group);
  app.add_flag("--blind", options->blind, "The dispatcher does not know what blocks cost")
      ->group(group);
  add_integer(
      app, "--threads", options->threads, 1, kMostThreads,
      "Run it on so many threads in real time: blocks keep their lanes busy (a virtual clock)")
      ->group(group);
  group = "Report";
  app.add_flag("--json", options->json, "One JSON object, times in seconds")->group(group);
  add_text(app, "--trace", options->trace, "Write the lanes as a trace for ui.perfetto.dev", kFile)
      ->group(group);
  add_text(app, "--svg", options->svg, "Draw the lanes", kFile)->group(group);
  command.action = [options] { return run(*options); };
  return command;
}

}  // namespace dovetail::cli
