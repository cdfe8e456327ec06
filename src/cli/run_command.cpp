#include <fmt/core.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <utility>

#include "cli/batch.h"
#include "cli/command.h"
#include "cli/engine_options.h"
#include "cli/input_lines.h"
#include "cli/output.h"
#include "cli/result_line.h"
#include "cli/sampling_options.h"
#include "cli/signals.h"
#include "cli/values.h"
#include "dialog/reasoning_limit.h"
#include "engine/options.h"
#include "text/prompt_encoder.h"

namespace dovetail::cli {
namespace {

constexpr const char* kRunName = "run";
constexpr float kRunTemperature = 0.0F;
constexpr std::size_t kMostBadLines = 20;  // of an input that are said, each with what is wrong
constexpr std::size_t kWindow = std::size_t{1} << 14;  // records held at a time

struct RunOptions {
  std::string model, prompt, input, output, system, chat_template, trace;
  bool chat = false, no_special = false, quiet = false, verbose = false;
  std::int32_t logprobs = -1;
  std::int32_t n = 1;
  EngineOptions engine;
  SamplingOptions sampling;
};

bool interrupted() { return InterruptGuard::signal() != 0; }

// What all ways to run share, once the model is there.
class Run {
 public:
  static Result<Run> start(RunOptions& options) {
    Result<TraceFile> trace = TraceFile::open(options.trace, options.engine);
    if (!trace) return fail(trace.error());
    const Result<std::string> chat_template = read_template_file(options.chat_template);
    if (!chat_template) return fail(chat_template.error());
    Result<std::unique_ptr<Engine>> engine =
        start_engine(options.model, options.engine, options.verbose);
    if (!engine) return fail(engine.error());
    Result<text::PromptEncoder> encoder =
        text::PromptEncoder::create((*engine)->source(), (*engine)->tokenizer(), *chat_template);
    if (!encoder) return fail(encoder.error());
    return Run(options, *std::move(engine), *std::move(encoder), *std::move(trace));
  }

  // Work that has come to its end, however: writes what is left to write.
  Result<int> finish(Result<int> done) {
    if (!done) return done;
    if (const Status ok = trace_.write(*engine_); !ok) return fail(ok.error());
    return done;
  }

  // One prompt, its text as it comes.
  Result<int> stream() {
    const RecordContext facts = context();
    Result<std::vector<TokenId>> prompt = encode_prompt(options_.prompt, facts);
    if (!prompt) return fail(prompt.error());
    Request request = facts.defaults;
    request.prompt = *std::move(prompt);
    facts.bound(request);

    Result<OutputFile> output = OutputFile::open("");
    Status written;
    const InterruptGuard guard;
    const Progress clock(1, false);
    const Result<Answer> answer = stream_answer(
        engine_generator(*engine_), std::move(request),
        [&](std::string_view text) {
          written = output->show(text);
          return written.has_value();
        },
        interrupted);
    if (!answer) return fail(answer.error());
    if (written) written = output->write("\n");
    if (!written) return fail(written.error());
    if (answer->finish == FinishReason::kError) return fail(answer->error);

    BatchTotals totals;
    totals.records = 1;
    totals.cancelled = answer->finish == FinishReason::kCancelled ? 1 : 0;
    totals.prompt_tokens = answer->usage.prompt_tokens;
    totals.generated_tokens = answer->usage.completion_tokens;
    report(totals, clock.seconds());
    return exit_code(totals);
  }

  // Everything in `lines`; nothing is generated before all of it was checked.
  Result<int> file(InputLines& lines) {
    const RecordContext facts = context();
    std::size_t records = 0, bad = 0;
    std::optional<Error> first;
    for (;; ++records) {
      const Result<std::optional<InputLines::Line>> line = lines.next();
      if (!line) return fail(line.error());
      if (!*line) break;
      const Result<InputRecord> record = record_of(lines, **line, records, facts);
      if (record) continue;
      if (++bad == 1) {
        first = record.error();
      } else if (bad <= kMostBadLines) {
        if (bad == 2) say_bad(*first);
        say_bad(record.error());
      }
    }
    if (bad == 1) return fail(*first);
    if (bad > 1) {
      return fail(ErrorKind::kInvalid, "{}: {} of {} lines are wrong{}; nothing was run",
                  lines.name(), bad, records,
                  bad > kMostBadLines
                      ? fmt::format(", the first {} of them as above", kMostBadLines)
                      : std::string());
    }
    if (records == 0)
      return fail(ErrorKind::kInvalid, "{}: it has no lines, expected JSON lines", lines.name());
    if (const Status ok = lines.rewind(); !ok) return fail(ok.error());
    std::size_t index = 0;
    return batch(records, [&]() -> Result<std::optional<InputRecord>> {
      const Result<std::optional<InputLines::Line>> line = lines.next();
      if (!line) return fail(line.error());
      if (!*line) return std::nullopt;
      return record_of(lines, **line, index++, facts);
    });
  }

  // One prompt whose results are JSON lines.
  Result<int> single() {
    const RecordContext facts = context();
    Result<std::vector<TokenId>> prompt = encode_prompt(options_.prompt, facts);
    if (!prompt) return fail(prompt.error());
    std::optional<InputRecord> record(std::in_place);
    record->request = facts.defaults;
    record->request.prompt = *std::move(prompt);
    facts.bound(record->request);
    if (const Status ok = check(record->request); !ok) return fail(ok.error());
    return batch(1, [&]() -> Result<std::optional<InputRecord>> {
      return std::exchange(record, std::nullopt);
    });
  }

 private:
  Run(const RunOptions& options, std::unique_ptr<Engine> engine, text::PromptEncoder encoder,
      TraceFile trace)
      : options_(options),
        engine_(std::move(engine)),
        encoder_(std::move(encoder)),
        trace_(std::move(trace)) {}

  RecordContext context() const {
    RecordContext facts;
    facts.defaults =
        default_request(options_.sampling, engine_->source().generation, kRunTemperature);
    facts.defaults.n = options_.n;
    facts.defaults.logprobs = options_.logprobs;
    facts.encode = [this](const std::string& text) {
      return encoder_.text(text, !options_.no_special);
    };
    const auto limit = std::make_shared<const dialog::ReasoningLimit>(encoder_);
    const dialog::ReasoningBound bound = {options_.sampling.reasoning_budget,
                                          options_.sampling.reasoning_budget_message};
    facts.encode_chat = [limit, tokens = bound.tokens](const Json& messages) {
      return limit->encode(messages, {}, tokens);
    };
    facts.bound = [limit, bound](Request& request) {
      request.reasoning = limit->budget(request.prompt, bound);
    };
    facts.system = options_.system;
    facts.chat = options_.chat;
    return facts;
  }

  Status check(const Request& request) const {
    const EngineOptions& limits = engine_->options();
    return engine::validate(request, {engine_->source().config.vocab_size, limits.max_context,
                                      limits.max_num_seqs, limits.max_waiting});
  }

  Result<InputRecord> record_of(const InputLines& lines, const InputLines::Line& line,
                                std::size_t index, const RecordContext& facts) const {
    Result<InputRecord> record = read_record(line.text, index, facts);
    if (record) facts.bound(record->request);
    const Status valid = record ? check(record->request) : fail(record.error());
    if (!valid) {
      return fail(valid.error().kind, "{}:{}: {}", lines.name(), line.number,
                  valid.error().message);
    }
    return record;
  }

  static void say_bad(const Error& error) { notice("dovetail run: " + error.message); }

  Result<int> batch(std::size_t records, std::function<Result<std::optional<InputRecord>>()> next) {
    Result<OutputFile> output = OutputFile::open(options_.output);
    if (!output) return fail(output.error());
    const InterruptGuard guard;
    Progress progress(records, !options_.quiet);
    BatchHooks hooks;
    hooks.next = std::move(next);
    hooks.format = [&](const InputRecord& record, const std::vector<Answer>& answers) {
      return result_lines(record, answers, engine_->tokenizer());
    };
    hooks.write = [&](std::string_view text) { return output->write(text); };
    hooks.progress = [&](const BatchTotals& totals) { progress.update(totals); };
    hooks.stop = interrupted;
    const Result<BatchTotals> totals = run_batch(engine_generator(*engine_), hooks, kWindow);
    const double seconds = progress.seconds();
    progress.clear();
    if (!totals) return fail(totals.error());
    if (const Status ok = output->close(); !ok) return fail(ok.error());
    report(*totals, seconds);
    return exit_code(*totals);
  }

  void report(const BatchTotals& totals, double seconds) const {
    if (!options_.quiet) fmt::print(stderr, "{}\n", summary(totals, seconds));
  }

  static int exit_code(const BatchTotals& totals) {
    if (interrupted()) return 128 + InterruptGuard::signal();
    return totals.failed > 0 ? kExitFailed : kExitOk;
  }

  const RunOptions& options_;
  std::unique_ptr<Engine> engine_;
  text::PromptEncoder encoder_;
  TraceFile trace_;
};

bool same_file(const std::string& left, const std::string& right) {
  std::error_code error;
  return std::filesystem::equivalent(left, right, error);
}

Result<int> run(RunOptions& options, bool has_prompt) {
  // No user reads along: what counts is when the last answer is there.
  if (options.engine.target_inter_token_ms == 0.0)
    options.engine.target_inter_token_ms = engine::kNoTarget;
  if (options.model.empty()) return usage_error(kRunName, kModelMissing);
  if (has_prompt && !options.input.empty())
    return usage_error(kRunName, "PROMPT and --input were both given, expected one of them");
  if (!options.system.empty() && !options.chat)
    return usage_error(kRunName, "--system needs --chat: a plain prompt has no system message");
  if (!options.trace.empty() &&
      (options.trace == options.output || same_file(options.trace, options.input))) {
    return fail(ErrorKind::kInvalid,
                "--trace: {} is the input or the output file, expected another file",
                options.trace);
  }
  if (!options.input.empty()) {
    if (same_file(options.input, options.output)) {
      return fail(ErrorKind::kInvalid, "--output: {} is the input file, expected another file",
                  options.output);
    }
    Result<InputLines> lines = InputLines::open(options.input);
    if (!lines) return fail(lines.error());
    Result<Run> run = Run::start(options);
    if (!run) return fail(run.error());
    return run->finish(run->file(*lines));
  }
  if (!has_prompt) {
    if (isatty(STDIN_FILENO) == 1)
      return usage_error(kRunName,
                         "no PROMPT and no --input, expected one of them or text to read");
    Result<std::string> text = read_text_file("/dev/stdin");
    if (!text) return fail(text.error());
    options.prompt = *std::move(text);
    if (options.prompt.ends_with('\n')) options.prompt.pop_back();
  }
  Result<Run> run = Run::start(options);
  if (!run) return fail(run.error());
  const bool plain = options.output.empty() && options.n == 1 && options.logprobs < 0;
  return run->finish(plain ? run->stream() : run->single());
}

}  // namespace

Command run_command() {
  Command command;
  command.name = kRunName;
  command.summary = "complete one prompt, or a file of prompts in one batch";
  command.options = std::make_unique<CLI::App>(
      "Completes PROMPT, or the standard input without one, and prints the text as it comes.\n"
      "With --input, all prompts of a file run in one continuous batch, and the results are JSON\n"
      "lines in the order of the input. Each line of the file is an object with \"prompt\" (a "
      "text)\n"
      "or \"messages\" (a chat), and optionally id, expect (the exact answer: accuracy is\n"
      "reported), metadata, and max_tokens, temperature, stop, seed and the like for this line.\n"
      "All lines are checked before the first one runs. Exit codes: 0 done, 1 bad input or model,\n"
      "2 usage, 130 interrupted (what was complete is written).\n",
      "dovetail run");
  const auto options = std::make_shared<RunOptions>();
  CLI::App& app = *command.options;
  add_model(app, options->model);
  CLI::Option* prompt =
      add_text(app, "-p,--prompt,PROMPT", options->prompt, "The text to complete");
  const std::string group = "Input and output";
  add_text(app, "-i,--input", options->input, "A file of JSON lines; - is the standard input",
           kFile)
      ->group(group);
  add_text(app, "-o,--output", options->output, "Where JSON lines go (standard output)", kFile)
      ->group(group);
  app.add_flag("--chat", options->chat, "PROMPT is a user's message: apply the chat template")
      ->group(group);
  add_text(app, "--system", options->system, "A system message before it, with --chat")
      ->group(group);
  add_template_option(app, options->chat_template)->group(group);
  app.add_flag("--no-special", options->no_special,
               "Control tokens spelled in PROMPT are plain text")
      ->group(group);
  add_integer(app, "--logprobs", options->logprobs, 0, 20,
              "Log-probabilities of the tokens and of N others; prints JSON lines")
      ->group(group);
  add_integer(app, "--n", options->n, 1, 128, "Answers per prompt; above 1 prints JSON lines")
      ->group(group);
  app.add_flag("-q,--quiet", options->quiet, "No progress and no summary on standard error")
      ->group(group);
  app.add_flag("-v,--verbose", options->verbose, "Say which options the engine has, and why")
      ->group(group);
  add_sampling_options(app, options->sampling, fmt::format("{}", kRunTemperature));
  add_engine_options(app, options->engine);
  add_trace_option(app, options->trace);
  command.action = [options, prompt] { return run(*options, prompt->count() > 0); };
  return command;
}

}  // namespace dovetail::cli
