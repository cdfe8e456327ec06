// Speed of the whole engine on one model: tokens per second for prefill, for a single sequence, and
// for batches; the share of a step that is not the model's forward pass; peak memory.
//
// Usage: engine_bench MODEL [OPTIONS] (--help says which). Prompts are random tokens, so that any
// model will do. Each figure is the median of several runs; the runs of all figures take turns,
// because the machine may be noisy.

#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "engine/options.h"
#include "engine/step_loop.h"
#include "families/open_model.h"
#include "grammar/compiler.h"
#include "load/model_source.h"
#include "support/random_model.h"

namespace dovetail {
namespace {

using Clock = std::chrono::steady_clock;

// At least so many, and for so long: of a small model they take microseconds, and the first ones
// find cold caches and sleeping threads.
constexpr int kRuns = 3;
constexpr std::chrono::seconds kLeastTime(1);
constexpr std::uint32_t kPrefillTokens = 512;
constexpr std::int32_t kDecodeTokens = 32;
constexpr std::uint32_t kDecodePrompt = 16;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

Request random_request(std::uint32_t vocab, std::uint32_t prompt, std::int32_t max_tokens,
                       std::mt19937& random) {
  Request request;
  for (std::uint32_t i = 0; i < prompt; ++i)
    request.prompt.push_back(static_cast<TokenId>(random() % vocab));
  request.max_tokens = max_tokens;
  request.ignore_eos = true;
  request.sampling.temperature = 0.0F;
  return request;
}

class Bench {
 public:
  // `load` is that of the last step; `steps` may be null.
  Bench(const load::ModelSource& source, engine::StepLoop& loop, const schedule::StepLoad& load,
        std::FILE* steps)
      : vocab_(source.config.vocab_size), loop_(loop), load_(load), steps_(steps) {}

  // Tokens per second of reading one prompt.
  double prefill(std::uint32_t tokens) {
    add(tokens, 1);
    const auto start = Clock::now();
    finish();
    return tokens / std::chrono::duration<double>(Clock::now() - start).count();
  }

  // Tokens per second of reading one prompt while so many sequences decode.
  double prefill_beside(std::uint32_t tokens, int sequences) {
    for (int i = 0; i < sequences; ++i) add(kDecodePrompt, kDecodeTokens);
    const auto wanted = loop_.stats().generated_tokens + static_cast<std::uint64_t>(sequences);
    while (loop_.stats().generated_tokens < wanted) step();
    const auto before = loop_.stats().prompt_tokens;
    add(tokens, 1);
    const auto start = Clock::now();
    while (loop_.stats().prompt_tokens < before + tokens) step();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    finish();
    return tokens / seconds;
  }

  // Milliseconds of a step that reads a whole prompt while so many sequences decode. Requires that
  // steps may be that large.
  double mixed_step(std::uint32_t tokens, int sequences) {
    for (int i = 0; i < sequences; ++i) add(kDecodePrompt, kDecodeTokens);
    const auto wanted = loop_.stats().generated_tokens + static_cast<std::uint64_t>(sequences);
    while (loop_.stats().generated_tokens < wanted) step();
    const auto before = loop_.stats();
    add(tokens, 1);
    const auto start = Clock::now();
    step();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (loop_.stats().prompt_tokens != before.prompt_tokens + tokens)
      die({ErrorKind::kInternal, "the prompt was not read in one step"});
    finish();
    return 1e3 * seconds;
  }

  // Tokens per second over all sequences, after their prompts are read.
  double decode(int sequences, const CompiledGrammar& grammar = nullptr) {
    for (int i = 0; i < sequences; ++i) add(kDecodePrompt, kDecodeTokens, grammar);
    const auto wanted = loop_.stats().generated_tokens + static_cast<std::uint64_t>(sequences);
    while (loop_.stats().generated_tokens < wanted) step();
    const EngineStats before = loop_.stats();
    const auto start = Clock::now();
    finish();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    const EngineStats after = loop_.stats();
    const double steps_took = after.step_seconds - before.step_seconds;
    const double forward_took = after.forward_seconds - before.forward_seconds;
    outside_ = 100.0 * (steps_took - forward_took) / steps_took;
    return static_cast<double>(after.generated_tokens - before.generated_tokens) / seconds;
  }

  // Percent of the last decode()'s steps that is not the model's forward pass.
  double outside() const { return outside_; }

 private:
  void add(std::uint32_t prompt, std::int32_t max_tokens,
           const CompiledGrammar& grammar = nullptr) {
    Request request = random_request(vocab_, prompt, max_tokens, random_);
    request.grammar = grammar;
    if (grammar) request.sampling.logit_bias = {{'!', -100.0F}};  // without end
    const Status added = loop_.add(next_++, std::move(request), [](const OutputEvent&) {});
    if (!added) die(added.error());
  }
  void step() {
    const auto start = Clock::now();
    if (const Status done = loop_.step(); !done) die(done.error());
    if (steps_ == nullptr) return;
    std::fprintf(steps_, "%u,%u,%.0f,%.3f\n", load_.prefill_tokens, load_.decode_rows,
                 load_.context_tokens,
                 std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  void finish() {
    while (!loop_.idle()) step();
  }
  [[noreturn]] static void die(const Error& error) {
    std::fprintf(stderr, "engine_bench: %s\n", error.message.c_str());
    std::exit(1);
  }

  std::uint32_t vocab_;
  engine::StepLoop& loop_;
  const schedule::StepLoad& load_;
  std::FILE* steps_;
  std::mt19937 random_{1};
  RequestId next_ = 1;
  double outside_ = 0.0;
};

// Strings, one after the other up to an exclamation mark, over a made-up vocabulary of bytes and
// words: masks of two kinds, nearly all tokens and nearly none.
CompiledGrammar strings(std::uint32_t vocab) {
  std::mt19937 random(2);
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  while (tokens.size() < vocab) {
    std::string token;
    for (std::size_t i = 1 + random() % 8; i > 0; --i)
      token += static_cast<char>(random() % 20 == 0 ? '"' : 'a' + random() % 26);
    tokens.push_back(std::move(token));
  }
  tokens.resize(vocab);
  auto vocabulary = grammar::Vocabulary::create(tokens, {});
  if (!vocabulary) return nullptr;
  grammar::Compiler compiler(std::make_shared<const grammar::Vocabulary>(*std::move(vocabulary)));
  auto out = compiler.compile(grammar::SourceKind::kRegex, R"((?:"[^"]+")*!)");
  return out ? *out : nullptr;
}

// False where there are none: scripts/bench_against.py builds this with older trees, too.
template <class Options>
bool add_experts(Options& options) {
  if constexpr (requires { options.experts; }) {
    options.intermediate_size = 768;
    options.layers = 8;
    options.experts = 32;
    options.experts_used = 4;
    return true;
  }
  return false;
}

Result<std::shared_ptr<const load::ModelSource>> open(const std::string& name) {
  const bool experts = name.starts_with("random-experts:");
  if (!experts && !name.starts_with("random:")) return families::open_model(name);
  test::RandomModelOptions options;
  options.hidden_size = 1024;
  options.intermediate_size = 2816;
  options.layers = 12;
  options.heads = 16;
  options.kv_heads = 8;
  options.head_dim = 64;
  options.vocab_size = 32000;
  options.max_context = 4096;
  if (experts && !add_experts(options))
    return fail(ErrorKind::kUnsupported, "{}: this tree has no models with experts", name);
  const std::string type_name = name.substr(name.find(':') + 1);
#define DOVETAIL_LISTED(name) kernels::DataType::k##name,
  for (const auto type : {DOVETAIL_WEIGHT_TYPES(DOVETAIL_LISTED)}) {
#undef DOVETAIL_LISTED
    options.type = type;
    if (type_name == kernels::info(type).name) return test::random_model(options);
  }
  return fail(ErrorKind::kInvalid,
              "{}: expected random:TYPE or random-experts:TYPE with a type such as F32, BF16, Q8_0 "
              "or Q4_K",
              name);
}

struct Arguments {
  std::string model;
  std::string only;
  std::string steps;
  std::uint32_t threads = 0;
  std::string pinning;
};

// As add_experts(): whether this tree has such threads.
template <class Options>
bool set_pinning(Options& options, const std::string& text) {
  if constexpr (requires { decltype(options.pin_threads)::kAuto; }) {
    using Pinning = decltype(options.pin_threads);
    options.pin_threads = text == "always"  ? Pinning::kAlways
                          : text == "never" ? Pinning::kNever
                                            : Pinning::kAuto;
    return true;
  } else if constexpr (requires { options.pin_threads; }) {
    options.pin_threads = text == "always";
    return text != "auto";
  }
  return text == "never";
}

// The calling thread computes for the first lane. As add_experts().
template <class Loop>
auto join(Loop& loop) {
  if constexpr (requires { loop.pins(); }) {
    using Member = typename std::remove_reference_t<decltype(loop.pins())>::Member;
    return std::make_unique<Member>(loop.pins(), 0);
  } else {
    return nullptr;
  }
}

int run(const Arguments& arguments) {
  const auto source = open(arguments.model);
  if (!source) {
    std::fprintf(stderr, "engine_bench: %s\n", source.error().message.c_str());
    return 1;
  }
  EngineOptions options;
  options.max_num_seqs = 32;
  options.threads = arguments.threads;
  if (!arguments.pinning.empty() && !set_pinning(options, arguments.pinning)) {
    std::fprintf(stderr, "engine_bench: this tree has no --pin-threads %s\n",
                 arguments.pinning.c_str());
    return 1;
  }
  schedule::StepLoad load;
  engine::StepHooks hooks;
  hooks.after_sampling = [&load](const schedule::StepPlan& plan, const auto&, const auto&) {
    load = {};
    for (const schedule::Row& row : plan.rows) {
      (row.sampled && !row.final_chunk ? load.decode_rows : load.prefill_tokens) += row.tokens;
      load.context_tokens += schedule::context_read(row.first_position, row.tokens);
    }
  };
  const char* const steps_path = arguments.steps.c_str();
  std::FILE* steps = arguments.steps.empty() ? nullptr : std::fopen(steps_path, "w");
  if (!arguments.steps.empty() && steps == nullptr) {
    std::fprintf(stderr, "engine_bench: %s cannot be written\n", steps_path);
    return 1;
  }
  if (steps != nullptr)
    std::fprintf(steps, "prefill_tokens,decode_rows,context_tokens,microseconds\n");
  auto created = engine::StepLoop::create(*source, std::nullopt, options,
                                          steps == nullptr ? engine::StepHooks() : hooks);
  if (!created) {
    std::fprintf(stderr, "engine_bench: %s\n", created.error().message.c_str());
    return 1;
  }
  engine::StepLoop& loop = **created;
  [[maybe_unused]] const auto member = join(loop);
  Bench bench(**source, loop, load, steps);

  const CompiledGrammar in_grammar = strings((*source)->config.vocab_size);
  if (!in_grammar) {
    std::fprintf(stderr, "engine_bench: no grammar for %u tokens\n", (*source)->config.vocab_size);
    return 1;
  }
  const std::uint32_t prompt = std::min(kPrefillTokens, loop.options().max_context - 1);
  const auto selected = [&](const std::string& name) {
    return name.find(arguments.only) != std::string::npos;
  };
  struct Figure {
    std::string name;
    std::function<double()> measure;
    std::vector<double> results, outside;
  };
  std::vector<Figure> figures = {
      {"prefill of " + std::to_string(prompt), [&] { return bench.prefill(prompt); }, {}, {}},
      {"decode, 1 sequence", [&] { return bench.decode(1); }, {}, {}},
      {"decode, 8 sequences", [&] { return bench.decode(8); }, {}, {}},
      {"decode, 32 sequences", [&] { return bench.decode(32); }, {}, {}},
      {"decode, 32 in a grammar", [&] { return bench.decode(32, in_grammar); }, {}, {}},
      {"prefill beside 8", [&] { return bench.prefill_beside(prompt, 8); }, {}, {}},
  };
  std::erase_if(figures, [&](const Figure& figure) { return !selected(figure.name); });
  const auto begin = Clock::now();
  for (int i = 0; i < kRuns || (!figures.empty() && Clock::now() - begin < kLeastTime); ++i) {
    for (Figure& figure : figures) {
      figure.results.push_back(figure.measure());
      figure.outside.push_back(bench.outside());
    }
  }
  std::printf("%s, %s kernels, %u threads\n", arguments.model.c_str(),
              loop.options().kernels.c_str(), loop.options().threads);
  for (const Figure& figure : figures) {
    std::printf("  %-24s %10.2f tokens/s", figure.name.c_str(), median(figure.results));
    if (figure.name.starts_with("decode"))
      std::printf(", %.2f %% of a step outside the forward pass", median(figure.outside));
    std::printf("\n");
  }

  double weights = 0.0;
  for (const auto& [name, tensor] : (*source)->tensors)
    weights += static_cast<double>(tensor.data.size());
  struct rusage usage {};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("  %-24s %10.1f MiB (weights %.1f MiB)\n", "peak memory",
              static_cast<double>(usage.ru_maxrss) / 1024.0, weights / (1 << 20));

  const std::string whole = "step, prompt beside 31";
  if (selected(whole)) {
    // An engine that lets a prompt in whole, however long the step takes.
    options.max_num_batched_tokens = 1024;
    options.target_inter_token_ms = engine::kNoTarget;
    const auto patient = engine::StepLoop::create(*source, std::nullopt, options);
    if (!patient) {
      std::fprintf(stderr, "engine_bench: %s\n", patient.error().message.c_str());
      return 1;
    }
    Bench patient_bench(**source, **patient, load, nullptr);
    std::vector<double> milliseconds;
    for (int i = 0; i < kRuns; ++i) milliseconds.push_back(patient_bench.mixed_step(prompt, 31));
    std::printf("  %-24s %10.2f ms\n", whole.c_str(), median(milliseconds));
  }

  if (steps != nullptr && std::fclose(steps) != 0) {
    std::fprintf(stderr, "engine_bench: %s cannot be written\n", steps_path);
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace dovetail

int main(int argc, char** argv) {
  dovetail::Arguments arguments;
  CLI::App app("Speed of the whole engine on one model");
  app.add_option("MODEL", arguments.model,
                 "A file or folder, or random:TYPE for random weights of that type (220 million of "
                 "them), or random-experts:TYPE with layers of 32 experts (690 million, of which a "
                 "token uses 150)")
      ->required();
  app.add_option("--threads", arguments.threads, "As the engine's; 0: all physical cores");
  app.add_option("--pin-threads", arguments.pinning, "As the engine's")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  app.add_option("--only", arguments.only, "Measure only figures whose names contain this");
  app.add_option("--steps", arguments.steps,
                 "Write the load and the time of every step there, for `simulate --calibrate`");
  CLI11_PARSE(app, argc, argv);
  return dovetail::run(arguments);
}
