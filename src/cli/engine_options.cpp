#include "cli/engine_options.h"

#include <fmt/core.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <utility>

#include "cli/output.h"
#include "cli/values.h"
#include "engine/options.h"
#include "families/open_model.h"
#include "kernels/cache_type_names.h"
#include "load/model_source.h"
#include "observe/perfetto.h"

namespace dovetail::cli {

namespace {

constexpr std::size_t kLongestFile = std::size_t{16} << 20;

Status read_pinning(const std::string& text, PinOption& pinning) {
  if (text == "auto") {
    pinning = PinOption::kAuto;
  } else if (text == "always") {
    pinning = PinOption::kAlways;
  } else if (text == "never") {
    pinning = PinOption::kNever;
  } else {
    return fail(ErrorKind::kInvalid, "'{}' is no pinning, expected auto, always or never", text);
  }
  return {};
}

Status read_cache_type(const std::string& text, std::string& type) {
  if (text != engine::kAutoCacheType && !kernels::find_cache_type(text)) {
    return fail(ErrorKind::kInvalid, "'{}' is no cache type, expected {}, {}", text,
                engine::kAutoCacheType, kernels::cache_type_names(", ", " or "));
  }
  type = text;
  return {};
}

Status read_policy(const std::string& text, PolicyOption& policy) {
  if (text == "fcfs") {
    policy = PolicyOption::kFcfs;
  } else if (text == "priority") {
    policy = PolicyOption::kPriority;
  } else if (text == "fair") {
    policy = PolicyOption::kFair;
  } else {
    return fail(ErrorKind::kInvalid, "'{}' is no policy, expected fcfs, priority or fair", text);
  }
  return {};
}

// A flag that turns something off; false (in a file) leaves it on.
void add_off(CLI::App& app, const std::string& name, bool& target, const std::string& description,
             const std::string& group) {
  app.add_flag_function(
         name, [&target](std::int64_t given) { target = given <= 0; }, description)
      ->group(group);
}

}  // namespace

void add_scheduling_options(CLI::App& app, EngineOptions& options) {
  const std::string group = "Scheduling";
  add_value(
      app, "--policy", "fcfs|priority|fair",
      [&options](const std::string& text) { return read_policy(text, options.policy); },
      "Who goes first: by arrival, by the requests' priority, or who was served least (fcfs)")
      ->group(group);
  add_integer(app, "--max-queued-requests", options.max_waiting, 0, kMostUint32,
              "Answers that may wait for a place in the batch; more are refused (1024)")
      ->group(group);
  add_integer(app, "--long-prefill-token-threshold", options.long_prefill_token_threshold, 0,
              kMostUint32, "Tokens of one prompt in one step (0: no limit but the step's)")
      ->group(group);
  add_value(
      app, "--target-inter-token-ms", kNumber,
      [&options](const std::string& text) -> Status {
        const Result<float> value = parse_number(text, 0.0F, static_cast<float>(engine::kNoTarget));
        if (!value) return fail(value.error());
        options.target_inter_token_ms = static_cast<double>(*value);
        return {};
      },
      "Milliseconds that a step may take while others decode; cuts prompts (0: for run\n"
      "no limit, else twice what the step would take without prompts)")
      ->group(group);
  add_integer(app, "--min-prefill-tokens", options.min_prefill_tokens, 1, kMostUint32,
              "Prompt tokens of every --prefill-interval-th step, however many decode (16)")
      ->group(group);
  add_integer(app, "--prefill-interval", options.prefill_interval, 1, kMostUint32,
              "See --min-prefill-tokens; with --no-mixed, decode steps between prefill steps (1)")
      ->group(group);
  add_integer(app, "--prefill-alignment", options.prefill_alignment, 0, kMostUint32,
              "Prompts are cut at multiples of this (0: 64; 1: anywhere)")
      ->group(group);
  add_integer(app, "--ageing-steps", options.ageing_steps, 1, kMostUint32,
              "Steps of waiting that make a request one priority more urgent (1000)")
      ->group(group);
  add_off(app, "--no-mixed", options.mixed, "A step has prompts or decodes, never both", group);
  add_off(
      app, "--no-pack", options.pack_weights,
      "Leave weights in the mapped file, for machines short of memory: slower, the same answers",
      group);
  add_off(app, "--no-prefix-cache", options.prefix_cache,
          "Compute every prompt, also where an earlier one began alike", group);
  add_integer(app, "--saved-states", options.saved_states, 0, kMostUint32 - 1,
              "States kept for prompts that begin alike, and before draft tokens, for models that\n"
              "have states (as many as a quarter of --kv-memory holds)")
      ->group(group);
  add_integer(app, "--state-interval", options.state_interval, 1, kMostUint32,
              "Blocks of 16 positions between them, beside those where prompts end or part (32)")
      ->group(group);
  app.add_flag("--async-scheduling", options.async_scheduling,
               "Plan the next step while one is computed")
      ->group(group);
  add_integer(
      app, "--speculative-tokens", options.speculative_tokens, 0, kMostUint32,
      "Guesses per step and answer at most, by the layer that a model has for that or, where it\n"
      "has none, looked up in prompt and answer (0: none)")
      ->group(group);
}

void add_model(CLI::App& app, std::string& model) {
  add_text(app, "-m,--model,MODEL", model, "A GGUF file or a Hugging Face folder", "PATH");
}

void add_cache_type(CLI::App& app, EngineOptions& options) {
  const std::string names =
      fmt::format("{}|{}", engine::kAutoCacheType, kernels::cache_type_names("|", "|"));
  add_value(
      app, "--kv-cache-dtype", names.c_str(),
      [&options](const std::string& text) { return read_cache_type(text, options.cache_type); },
      "Type of the cache (auto: f32 for models of F32 weights, else f16)")
      ->group("Engine");
}

void add_cache_memory(CLI::App& app, EngineOptions& options) {
  add_value(
      app, "--kv-memory", kBytes,
      [&options](const std::string& text) -> Status {
        const Result<std::uint64_t> bytes = parse_bytes(text);
        if (!bytes) return fail(bytes.error());
        options.kv_memory = *bytes;
        return {};
      },
      "Most memory of the cache, for example 512M or 4G (0: half of the memory, 4G at most)")
      ->group("Engine");
}

void add_size_options(CLI::App& app, EngineOptions& options) {
  const std::string group = "Engine";
  add_integer(app, "--max-num-seqs", options.max_num_seqs, 1, kMostUint32,
              fmt::format("Sequences computed in one step ({})", options.max_num_seqs))
      ->group(group);
  add_integer(app, "--max-num-batched-tokens", options.max_num_batched_tokens, 1, kMostUint32,
              "Tokens computed in one step, at least --max-num-seqs (512)")
      ->group(group);
  add_integer(app, "--block-size", options.block_size, 1, kMostUint32,
              "Positions of a cache block; 16 is the only size now")
      ->group(group);
  add_integer(app, "--max-model-len,--max-context", options.max_context, 0, kMostUint32,
              "Positions per sequence, prompt and answer (0: as many as the model was made for)")
      ->group(group);
  add_integer(app, "--kv-blocks", options.kv_blocks, 0, kMostUint32,
              "Cache blocks of 16 positions (0: what all sequences need, within --kv-memory)")
      ->group(group);
  add_cache_memory(app, options);
  add_cache_type(app, options);
}

void add_lane_options(CLI::App& app, EngineOptions& options) {
  const std::string group = "Engine";
  add_integer(app, "--threads", options.threads, 0, kMostUint32, "Threads (0: the physical cores)")
      ->group(group);
  add_value(
      app, "--pin-threads", "auto|always|never",
      [&options](const std::string& text) { return read_pinning(text, options.pin_threads); },
      "Whether threads that compute stay on a core each (auto: while nobody else wants it)")
      ->group(group);
  add_text(app, "--kernels", options.kernels,
           "Instruction set, such as portable or avx2 (the best that the CPU runs)")
      ->group(group);
}

void add_engine_options(CLI::App& app, EngineOptions& options) {
  const std::string group = "Engine";
  add_size_options(app, options);
  add_lane_options(app, options);
  add_value(
      app, "--stall-limit", kInteger,
      [&options](const std::string& text) -> Status {
        const Result<std::int64_t> limit = parse_integer(text, 0, engine::kMaxStall.count());
        if (!limit) return fail(limit.error());
        options.stall_limit = std::chrono::milliseconds(*limit);
        return {};
      },
      "Milliseconds in which a step may stand still before it is reported (10000; 0: never)")
      ->group(group);
  add_scheduling_options(app, options);
}

void print_stall(const std::string& message) { notice("dovetail: warning: " + message); }

namespace {

// A line a second while a large model's weights are packed; nothing of what takes less.
std::function<void(std::size_t, std::size_t)> pack_progress() {
  using Clock = std::chrono::steady_clock;
  return [last = Clock::now()](std::size_t done, std::size_t all) mutable {
    const Clock::time_point now = Clock::now();
    if (now - last < std::chrono::seconds(1)) return;
    last = now;
    notice(fmt::format("packing weights: {} of {} MB", done >> 20U, all >> 20U));
  };
}

}  // namespace

Result<std::unique_ptr<Engine>> start_engine(const std::string& model, const EngineOptions& options,
                                             bool verbose) {
  const Result<std::shared_ptr<const load::ModelSource>> source = families::open_model(model);
  if (!source) return fail(source.error());
  EngineOptions told = options;
  if (!told.on_stall) told.on_stall = print_stall;
  if (!told.on_pack) told.on_pack = pack_progress();
  Result<std::unique_ptr<Engine>> engine = Engine::create(*source, told);
  if (!engine || !verbose) return engine;
  const Result<engine::ResolvedOptions> resolved = engine::resolve(options, **source);
  if (!resolved) return fail(resolved.error());
  for (const std::string& line : engine::explain(options, *resolved, **source)) notice(line);
  return engine;
}

Generator engine_generator(Engine& engine) {
  return {[&engine](Request request, EventSink sink) {
            return engine.submit(std::move(request), std::move(sink));
          },
          [&engine](RequestId id) { engine.cancel(id); }};
}

Result<std::string> read_text_file(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             std::fclose);
  if (!file) return fail(ErrorKind::kIo, "{}: {}", path, std::strerror(errno));
  std::string text(kLongestFile + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (std::ferror(file.get()) != 0)
    return fail(ErrorKind::kIo, "{}: {}", path, std::strerror(errno));
  if (text.size() > kLongestFile) {
    return fail(ErrorKind::kInvalid, "{}: it is too long, expected at most {} bytes", path,
                kLongestFile);
  }
  return text;
}

Result<std::string> read_template_file(const std::string& path) {
  if (path.empty()) return std::string();
  Result<std::string> text = read_text_file(path);
  if (text && text->empty())
    return fail(ErrorKind::kInvalid, "--chat-template: {}: it is empty, expected a Jinja template",
                path);
  return text;
}

namespace {

constexpr std::size_t kEvents = std::size_t{1} << 20;  // of 32 bytes

}  // namespace

void add_trace_option(CLI::App& app, std::string& path) {
  add_text(app, "--trace", path,
           "Write the scheduler's last million events and what every lane did, at the end, for "
           "ui.perfetto.dev",
           kFile)
      ->group("Scheduling");
}

Result<TraceFile> TraceFile::open(const std::string& path, EngineOptions& options) {
  TraceFile trace;
  if (path.empty()) return trace;
  Result<OutputFile> file = OutputFile::open(path);
  if (!file) return fail(file.error());
  trace.file_.emplace(*std::move(file));
  options.trace_events = kEvents;
  return trace;
}

Status TraceFile::write(const Engine& engine) {
  if (!file_) return {};
  const EngineTrace trace = engine.trace();
  const std::string text = observe::perfetto_json(trace.events, trace.lanes);
  if (const Status ok = file_->write(text); !ok) return ok;
  return file_->close();
}

}  // namespace dovetail::cli
