#include <fmt/core.h>

#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "cli/engine_options.h"
#include "cli/output.h"
#include "cli/values.h"
#include "engine/options.h"
#include "kv/block_pool.h"
#include "observe/perfetto.h"
#include "simulate/calibrate.h"
#include "simulate/cluster.h"
#include "simulate/csv.h"
#include "simulate/report.h"
#include "simulate/workload.h"

namespace dovetail::cli {
namespace {

constexpr const char* kSimulateName = "simulate";
constexpr std::size_t kTraceEvents = std::size_t{1} << 22;

struct SimulateOptions {
  EngineOptions engine;
  simulate::WorkloadSpec workload;
  simulate::ClusterOptions cluster;
  std::string requests_file, cost, steps_file, trace;
  bool json = false;
  bool blind = false;
};

// "STEP:PREFILL:DECODE:CONTEXT[:FREE]" in microseconds.
Result<schedule::StepCost> read_cost(const std::string& text) {
  std::vector<float> numbers;
  std::size_t begin = 0;
  while (begin <= text.size() && numbers.size() < 6) {
    const std::size_t end = std::min(text.find(':', begin), text.size());
    const Result<float> number = parse_number(text.substr(begin, end - begin), 0.0F, 1e9F);
    if (!number) return fail(number.error());
    numbers.push_back(*number);
    begin = end + 1;
  }
  if (numbers.size() != 4 && numbers.size() != 5) {
    return fail(ErrorKind::kInvalid,
                "--cost: '{}' has {} numbers, expected STEP:PREFILL:DECODE:CONTEXT[:FREE] in "
                "microseconds per step, prompt token, decode row and context token read",
                text, numbers.size());
  }
  schedule::StepCost cost{numbers[0], numbers[1], numbers[2], numbers[3], 0};
  if (numbers.size() == 5) cost.free_tokens = static_cast<std::uint32_t>(numbers[4]);
  if (cost.step + cost.prefill_token + cost.decode_row == 0.0)
    return fail(ErrorKind::kInvalid, "--cost: '{}' makes every step free", text);
  return cost;
}

Result<schedule::StepCost> choose_cost(const SimulateOptions& options) {
  if (options.steps_file.empty()) return read_cost(options.cost);
  const Result<std::string> text = simulate::read_csv_file(options.steps_file);
  if (!text) return fail(text.error());
  const auto steps = simulate::parse_steps(*text, options.steps_file);
  if (!steps) return fail(steps.error());
  const Result<simulate::Calibration> found = simulate::calibrate(*steps);
  if (!found) return fail(found.error().kind, "{}: {}", options.steps_file, found.error().message);
  fmt::print(
      stderr,
      "cost {:.3f}:{:.4f}:{:.4f}:{:.6f} us from {} steps; half of them within {:.1f} %, nine "
      "of ten within {:.1f} %\n",
      found->cost.step, found->cost.prefill_token, found->cost.decode_row,
      found->cost.context_token, steps->size(), 100.0 * found->median_error,
      100.0 * found->worst_error);
  return found->cost;
}

// Options that depend on a model where there is one.
Status settle(EngineOptions& options) {
  if (options.max_context == 0) options.max_context = 8192;
  if (options.kv_blocks == 0) {
    const std::uint64_t useful = std::uint64_t{options.max_num_seqs} *
                                 kv::blocks_for(options.max_context, options.block_size);
    options.kv_blocks = static_cast<std::uint32_t>(std::min<std::uint64_t>(useful, 1U << 30));
  }
  if (kv::blocks_for(options.max_context, options.block_size) > options.kv_blocks) {
    return fail(ErrorKind::kInvalid,
                "--kv-blocks: {} blocks of {} do not hold a sequence of {} positions, expected at "
                "least {}, or a smaller --max-model-len",
                options.kv_blocks, options.block_size, options.max_context,
                kv::blocks_for(options.max_context, options.block_size));
  }
  return {};
}

Result<int> run(SimulateOptions& options) {
  if (!options.cost.empty() && !options.steps_file.empty())
    return usage_error(kSimulateName,
                       "--cost and --calibrate were both given, expected one of them");
  // Options of the engine that a simulation has no use for are not passed over in silence.
  if (options.engine.async_scheduling) {
    return usage_error(kSimulateName,
                       "--async-scheduling: planning takes no time under the virtual clock, so "
                       "there is nothing to overlap; leave it out");
  }
  if (options.engine.kv_memory > 0 || options.engine.cache_type != engine::kAutoCacheType) {
    return usage_error(kSimulateName,
                       "--kv-memory, --kv-cache-dtype: without a model the bytes of a cache block "
                       "are unknown, expected --kv-blocks");
  }
  if (options.cost.empty()) options.cost = "5000:100:200:0.01";
  const Result<schedule::StepCost> cost = choose_cost(options);
  if (!cost) return fail(cost.error());
  if (const Status ok = settle(options.engine); !ok) return fail(ok.error());
  simulate::ClusterOptions& cluster = options.cluster;
  cluster.replica.scheduler = engine::scheduler_options(options.engine);
  cluster.replica.cost = *cost;
  cluster.replica.knows_cost = !options.blind;
  cluster.replica.seed = options.workload.seed;
  if (cluster.threads > 1 && cluster.router != simulate::Router::kRoundRobin) {
    return usage_error(kSimulateName,
                       "--threads: a router that looks at its replicas cannot be shared out, "
                       "expected --router round-robin or --threads 1");
  }

  std::function<simulate::Workload()> workload;
  if (options.requests_file.empty()) {
    if (const auto tried = simulate::generate(options.workload); !tried) return fail(tried.error());
    workload = [spec = options.workload] { return *simulate::generate(spec); };
  } else {
    auto arrivals = simulate::read_trace(options.requests_file);
    if (!arrivals) return fail(arrivals.error());
    workload = [requests = *std::move(arrivals)] { return simulate::replay(requests); };
  }

  std::optional<OutputFile> trace;
  std::optional<observe::EventLog> log;
  if (!options.trace.empty()) {
    Result<OutputFile> file = OutputFile::open(options.trace);
    if (!file) return fail(file.error());
    trace.emplace(*std::move(file));
    log.emplace(kTraceEvents);
  }
  const Result<simulate::Figures> figures = [&]() -> Result<simulate::Figures> {
    try {
      return simulate::simulate(cluster, workload, log ? &*log : nullptr);
    } catch (const std::bad_alloc&) {
      return fail(ErrorKind::kExhausted,
                  "there is not enough memory for {} machines of {} sequences and {} cache blocks, "
                  "expected fewer of --replicas, --max-num-seqs or --kv-blocks",
                  cluster.replicas, options.engine.max_num_seqs, options.engine.kv_blocks);
    }
  }();
  if (!figures) return fail(figures.error());
  if (trace) {
    if (log->oldest() > 0)
      fmt::print(stderr, "the trace has the last {} of {} events\n", kTraceEvents, log->written());
    Status written;
    observe::write_perfetto(log->events(), {}, [&](std::string_view text) {
      if (written) written = trace->write(text);
    });
    if (!written) return fail(written.error());
    if (const Status ok = trace->close(); !ok) return fail(ok.error());
  }
  Result<OutputFile> output = OutputFile::open("");
  const Status ok = output->write(options.json ? simulate::report_json(*figures, cluster.replicas)
                                               : simulate::report_text(*figures, cluster.replicas));
  if (!ok) return fail(ok.error());
  return kExitOk;
}

Status read_router(const std::string& text, simulate::Router& router) {
  if (text == "round-robin") {
    router = simulate::Router::kRoundRobin;
  } else if (text == "least-outstanding") {
    router = simulate::Router::kLeastOutstanding;
  } else if (text == "prefix-affinity") {
    router = simulate::Router::kPrefixAffinity;
  } else {
    return fail(ErrorKind::kInvalid,
                "'{}' is no router, expected round-robin, least-outstanding or prefix-affinity",
                text);
  }
  return {};
}

void add_workload_options(CLI::App& app, SimulateOptions& options) {
  const std::string group = "Requests";
  simulate::WorkloadSpec& load = options.workload;
  add_text(app, "--requests-file", options.requests_file,
           "A CSV file: arrival (seconds), prompt_tokens, output_tokens, and optionally priority, "
           "tenant, family, shared_tokens",
           kFile)
      ->group(group);
  add_integer(app, "--requests", load.requests, 1, std::int64_t{1} << 40,
              "How many, where they are generated (1000)")
      ->group(group);
  add_text(app, "--arrivals", load.arrivals,
           "all, poisson:RATE, uniform:RATE or burst:N@SECONDS (poisson:1)")
      ->group(group);
  add_text(app, "--prompt", load.prompt,
           "Lengths: fixed:N, uniform:A-B, lognormal:MEDIAN:SIGMA or longtail:N (fixed:512)")
      ->group(group);
  add_text(app, "--output", load.output, "Lengths of the answers, likewise (fixed:128)")
      ->group(group);
  add_integer(app, "--tenants", load.tenants, 1, kMostUint32,
              "Users that requests are drawn from (1)")
      ->group(group);
  add_integer(app, "--families", load.families, 0, kMostUint32,
              "Kinds of prompts that begin alike (0: none do)")
      ->group(group);
  add_integer(app, "--shared-tokens", load.shared_tokens, 0, kMostUint32,
              "Tokens that the prompts of a family have in common (0)")
      ->group(group);
  add_integer(app, "--seed", load.seed, 0, std::int64_t{1} << 62, "Of all that is drawn (1)")
      ->group(group);
}

void add_machine_options(CLI::App& app, SimulateOptions& options) {
  const std::string group = "Machine";
  add_text(
      app, "--cost", options.cost,
      "STEP:PREFILL:DECODE:CONTEXT[:FREE], microseconds per step, prompt token, decode row and "
      "context token read; FREE tokens of a step cost nothing (5000:100:200:0.01)")
      ->group(group);
  add_text(app, "--calibrate", options.steps_file,
           "Learn the cost from a CSV file: prefill_tokens, decode_rows, context_tokens, "
           "microseconds",
           kFile)
      ->group(group);
  app.add_flag("--blind", options.blind, "The scheduler does not know what steps cost")
      ->group(group);
  add_value(
      app, "--acceptance", kNumber,
      [&options](const std::string& text) -> Status {
        const Result<float> number = parse_number(text, 0.0F, 1.0F);
        if (!number) return fail(number.error());
        options.cluster.replica.acceptance = static_cast<double>(*number);
        return {};
      },
      "Share of guesses that are right, with --speculative-tokens (0.7)")
      ->group(group);
  add_integer(app, "--replicas", options.cluster.replicas, 1, 1 << 20, "Machines (1)")
      ->group(group);
  add_value(
      app, "--router", "ROUTER",
      [&options](const std::string& text) { return read_router(text, options.cluster.router); },
      "round-robin, least-outstanding or prefix-affinity (round-robin)")
      ->group(group);
  add_integer(app, "--threads", options.cluster.threads, 1, 1024,
              "Threads that share the replicas, with round-robin (1)")
      ->group(group);
}

}  // namespace

Command simulate_command() {
  Command command;
  command.name = kSimulateName;
  command.summary = "say how a load would fare, with the same scheduler under a virtual clock";
  command.options = std::make_unique<CLI::App>(
      "Plays a load through the scheduler of run and serve under a virtual clock, on machines "
      "whose\n"
      "steps take what --cost says, and prints latencies, throughput and the mix of steps. The "
      "same\n"
      "options give the same result.\n",
      "dovetail simulate");
  const auto options = std::make_shared<SimulateOptions>();
  CLI::App& app = *command.options;
  add_workload_options(app, *options);
  add_machine_options(app, *options);
  add_engine_options(app, options->engine,
                     {engine::OptionGroup::kSize, engine::OptionGroup::kScheduling});
  const std::string group = "Report";
  app.add_flag("--json", options->json, "One JSON object, times in seconds")->group(group);
  add_text(app, "--trace", options->trace,
           "Write the first machine's steps as a trace for ui.perfetto.dev", kFile)
      ->group(group);
  command.action = [options] { return run(*options); };
  return command;
}

}  // namespace dovetail::cli
