#include "study/model_bench.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "cores/thread_pins.h"
#include "engine/options.h"
#include "engine/step_loop.h"
#include "kernels/roofline.h"
#include "simulate/random.h"
#include "study/repeated_context.h"
#include "text/tokenizer.h"

namespace dovetail::study {
namespace {

using BenchClock = std::chrono::steady_clock;

constexpr auto kPositions = static_cast<std::uint32_t>(kernels::kBlockSize);
// Tokens that a sequence may decode beyond those that are measured, until all others decode too.
constexpr std::uint32_t kSlack = 32;

// Steps of a run, and what they did.
struct SeenSteps {
  std::uint64_t steps = 0, tokens = 0;
  std::uint32_t prefill_tokens = 0, decode_rows = 0;  // of the last one
  StepWork work;
};

// Runs one case on a step loop of its own: what the engine's thread runs, with the scheduler, the
// forward pass, sampling and text, but driven from here, because only who makes the steps knows
// where the decode steps of a batch begin and end. The decoder below it takes no requests; the
// engine above it has a thread that takes them when they come.
class CaseRun {
 public:
  CaseRun(engine::StepLoop& loop, const SeenSteps& seen, const BenchCase& what, std::uint32_t vocab)
      : loop_(loop), seen_(seen), what_(what), vocab_(vocab) {
    for (std::uint32_t i = 0; i < what.sequences; ++i)
      prompts_.push_back(random_prompt(what.depth));
  }

  // Reads the prompts of those that decode, which the prefix cache then has: every run begins with
  // the same positions, and takes no time to come there.
  Status prepare() {
    for (const std::vector<TokenId>& prompt : prompts_)
      if (const Status added = add(prompt, 1); !added) return added;
    return finish();
  }

  // Seconds of a run. `reset` is called where it begins.
  template <class Reset>
  Result<double> run(const Reset& reset) {
    if (const Status ready = decode(); !ready) return fail(ready.error());
    if (what_.prompt > 0) {
      if (const Status added = add(random_prompt(what_.prompt), 1); !added)
        return fail(added.error());
    }
    reset();
    const auto start = BenchClock::now();
    const Status done = what_.sequences == 0 ? finish() : steps();
    if (!done) return fail(done.error());
    const double seconds = std::chrono::duration<double>(BenchClock::now() - start).count();
    loop_.cancel_all();
    return seconds;
  }

 private:
  std::vector<TokenId> random_prompt(std::uint32_t tokens) {
    std::vector<TokenId> prompt(tokens);
    for (TokenId& token : prompt) token = static_cast<TokenId>(random_.below(vocab_));
    return prompt;
  }

  Status add(std::vector<TokenId> prompt, std::uint32_t max_tokens) {
    Request request;
    request.prompt = std::move(prompt);
    request.max_tokens = static_cast<std::int32_t>(max_tokens);
    request.ignore_eos = true;
    request.sampling.temperature = 0.0F;
    if (const Status valid = loop_.validate(request); !valid) return valid;
    return loop_.add(next_++, std::move(request), [](const OutputEvent&) {});
  }

  Status finish() {
    while (!loop_.idle())
      if (const Status done = loop_.step(); !done) return done;
    return {};
  }

  // Until all sequences decode.
  Status decode() {
    if (what_.sequences == 0) return {};
    for (const std::vector<TokenId>& prompt : prompts_)
      if (const Status added = add(prompt, kDecodeSteps + kSlack); !added) return added;
    for (std::uint32_t step = 0; step < kSlack; ++step) {
      if (const Status done = loop_.step(); !done) return done;
      if (all_decode() && seen_.prefill_tokens == 0) return {};
    }
    return fail(ErrorKind::kInternal, "{}: after {} steps {} of {} sequences decode", what_.name(),
                kSlack, seen_.decode_rows, what_.sequences);
  }

  Status steps() {
    const std::uint32_t count = what_.prompt > 0 ? 1 : kDecodeSteps;
    for (std::uint32_t step = 0; step < count; ++step) {
      if (const Status done = loop_.step(); !done) return done;
      if (!all_decode() || seen_.prefill_tokens != what_.prompt) {
        return fail(ErrorKind::kInternal, "{}: a step read {} tokens and decoded {} sequences",
                    what_.name(), seen_.prefill_tokens, seen_.decode_rows);
      }
    }
    return {};
  }

  bool all_decode() const { return seen_.decode_rows == what_.sequences; }

  engine::StepLoop& loop_;
  const SeenSteps& seen_;
  const BenchCase& what_;
  std::uint32_t vocab_;
  simulate::Random random_{1};
  std::vector<std::vector<TokenId>> prompts_;
  RequestId next_ = 1;
};

// Of one sequence, and of all.
struct CaseRoom {
  std::uint64_t positions = 0, blocks = 0;
};

CaseRoom room_for(const BenchCase& what) {
  // A prompt gets a token of answer.
  const std::uint64_t read = what.prompt > 0 ? std::uint64_t{what.prompt} + 1 : 0;
  const std::uint64_t decoded =
      what.sequences > 0 ? std::uint64_t{what.depth} + kDecodeSteps + kSlack : 0;
  // The prefix cache keeps the blocks of the prompts; the last one of each is computed again.
  const auto blocks = [](std::uint64_t positions) { return positions / kPositions + 2; };
  return {std::max(read, decoded),
          (read > 0 ? blocks(read) : 0) + what.sequences * (decoded > 0 ? blocks(decoded) : 0)};
}

std::string in_gib(double bytes) { return fmt::format("{:.1f} GiB", bytes / (1 << 30)); }

}  // namespace

std::string BenchCase::name() const {
  const std::string decodes = fmt::format("x{} at {}", sequences, depth);
  if (sequences == 0) return fmt::format("prefill {}", prompt);
  return prompt == 0 ? "decode " + decodes : fmt::format("mixed {} + {}", prompt, decodes);
}

std::uint64_t BenchCase::positions() const { return room_for(*this).positions; }

Result<BenchTimes> measure_case(const std::shared_ptr<const load::ModelSource>& source,
                                const EngineOptions& given, const BenchCase& what,
                                std::uint32_t runs) {
  BenchTimes times;
  if (!source->config.has_logits) {
    times.skipped = "the model embeds texts and generates none";
    return times;
  }
  const CaseRoom room = room_for(what);
  if (room.positions > source->config.max_context) {
    times.skipped = fmt::format("context of {}", source->config.max_context);
    return times;
  }
  EngineOptions options = given;
  options.max_context = 0;
  options.kv_blocks = 0;
  options.max_num_seqs = what.sequences + 1;
  // No prompt is cut to spare those that decode.
  options.max_num_batched_tokens = kStepTokens;
  options.target_inter_token_ms = engine::kNoTarget;
  options.prefix_cache = what.sequences > 0;
  auto resolved = engine::resolve(options, *source);
  if (!resolved) return fail(resolved.error());
  const double bytes =
      static_cast<double>(room.blocks) * static_cast<double>(resolved->cache_shape.block_bytes());
  if (bytes > static_cast<double>(resolved->options.kv_memory)) {
    times.skipped = fmt::format("it takes a cache of {}, --kv-memory allows {}", in_gib(bytes),
                                in_gib(static_cast<double>(resolved->options.kv_memory)));
    return times;
  }
  // No more than is needed, so that the runs find blocks that were written before.
  options.kv_blocks = static_cast<std::uint32_t>(room.blocks);

  const bool bf16 = kernels::roofline_of(resolved->options.kernels).bf16.run != nullptr;
  const ModelWork work(*source, resolved->cache_shape, bf16);
  SeenSteps seen;
  engine::StepHooks hooks;
  if (what.repeats) hooks.open_backend = repeat_contexts(engine::open_on_cpu);
  hooks.after_sampling = [&](const schedule::StepPlan& plan, const schedule::StepResult&,
                             std::span<const std::span<const float>>) {
    ++seen.steps;
    seen.tokens += plan.tokens;
    seen.prefill_tokens = plan.prefill_tokens;
    seen.decode_rows = plan.decode_rows();
    seen.work += work.of_step(plan);
  };
  // A model without a tokenizer has steps without text.
  auto read = text::Tokenizer::create(*source);
  std::optional<text::Tokenizer> tokenizer;
  if (read) tokenizer.emplace(*std::move(read));
  auto created = engine::StepLoop::create(source, std::move(tokenizer), options, std::move(hooks));
  if (!created) return fail(created.error());
  engine::StepLoop& loop = **created;
  const cores::ThreadPins::Member member(loop.pins(), 0);
  CaseRun run(loop, seen, what, source->config.vocab_size);
  if (const Status ready = run.prepare(); !ready) return fail(ready.error());
  for (std::uint32_t i = 0; i <= runs; ++i) {
    const Result<double> seconds = run.run([&seen] { seen = {}; });
    if (!seconds) return fail(seconds.error());
    if (i > 0) times.seconds.push_back(*seconds);
  }
  times.tokens = seen.tokens;
  times.steps = seen.steps;
  times.work = seen.work;
  return times;
}

}  // namespace dovetail::study
