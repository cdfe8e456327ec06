#include "laws/demo_histories.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <random>
#include <stdexcept>
#include <utility>

#include "dialog/reasoning_budget.h"
#include "families/open_model.h"
#include "laws/checker/law_checker.h"
#include "support/places.h"

namespace dovetail::laws {
namespace {

constexpr std::uint32_t kContext = 224;

std::uint32_t below(std::mt19937& random, std::uint32_t limit) {
  return static_cast<std::uint32_t>(random() % limit);
}

std::string problem(std::mt19937& random, bool solved) {
  const std::uint32_t a = below(random, 900), b = below(random, 90);
  return fmt::format("Q: {}+{}=?\nA:{}", a, b, solved ? fmt::format(" {}\n", a + b) : "");
}

// Some solved problems that others begin with too, then problems of its own; the last is open, and
// one in two has been solved before.
std::string worksheet(std::mt19937& random) {
  std::mt19937 family(below(random, 3));
  std::string text;
  for (std::uint32_t i = below(random, 4); i > 0; --i) text += problem(family, true);
  std::mt19937 own(static_cast<std::uint32_t>(random()));
  std::mt19937 again = own;
  if (below(random, 2) == 0) {
    text += problem(own, true);
    text += problem(again, false);
  } else {
    text += problem(own, false);
  }
  return text;
}

Request demo_request(std::mt19937& random, const text::Tokenizer& tokenizer) {
  Request request;
  request.prompt = tokenizer.encode(worksheet(random));
  request.max_tokens = 1 + static_cast<std::int32_t>(below(random, 80));
  request.ignore_eos = below(random, 3) != 0;
  if (below(random, 2) == 0) {
    request.sampling.temperature = 0.0F;
  } else {
    request.sampling.seed = random();
    request.sampling.temperature = 0.3F + 0.2F * static_cast<float>(below(random, 5));
    request.sampling.top_k = static_cast<std::int32_t>(20 * below(random, 3));
    request.sampling.top_p = below(random, 2) == 0 ? 1.0F : 0.9F;
    request.sampling.repetition_penalty = below(random, 3) == 0 ? 1.1F : 1.0F;
    request.sampling.frequency_penalty = below(random, 3) == 0 ? 0.3F : 0.0F;
  }
  if (below(random, 3) == 0) request.stop = {below(random, 2) == 0 ? "\n" : "\nA"};
  if (below(random, 4) == 0) request.min_tokens = std::min(request.max_tokens, 6);
  if (below(random, 3) == 0) request.logprobs = static_cast<std::int32_t>(below(random, 4));
  if (below(random, 4) == 0) {
    request.prompt_logprobs = static_cast<std::int32_t>(below(random, 3));
    request.no_output = below(random, 3) == 0;
  }
  if (below(random, 3) == 0) {
    // The first line is reasoning: a budget that may be spent within it.
    auto reasoning = std::make_shared<dialog::ReasoningBudget>();
    reasoning->tokens = below(random, 8);
    reasoning->opened = true;
    reasoning->close = "\n";
    reasoning->closing = tokenizer.encode(".\n", {.add_special = false});
    request.reasoning = std::move(reasoning);
  }
  request.priority = static_cast<std::int32_t>(below(random, 3));
  request.tenant = std::string(below(random, 2), 'x');
  return request;
}

}  // namespace

DemoModel::DemoModel(const std::string& name)
    : model_([&] {
        auto model = families::open_model(test::source_dir() + "/models/" + name);
        if (!model) throw std::runtime_error(model.error().message);
        return *std::move(model);
      }()),
      tokenizer_([&] {
        auto tokenizer = text::Tokenizer::create(*model_);
        if (!tokenizer) throw std::runtime_error(tokenizer.error().message);
        return *std::move(tokenizer);
      }()) {
  std::mt19937 random(5);
  for (int i = 0; i < 120; ++i) requests_.push_back(demo_request(random, tokenizer_));
  alone_.resize(requests_.size());
}

DemoHistory DemoModel::history(std::uint32_t number) const {
  std::mt19937 random(1000 + number);
  DemoHistory history;
  EngineOptions& options = history.options;
  const bool crowded = number % 2 == 0;
  options.max_num_seqs = (crowded ? 4 : 1) + below(random, 8);
  options.max_num_batched_tokens = options.max_num_seqs + below(random, 150);
  options.long_prefill_token_threshold = below(random, 2) == 0 ? 0 : 1 + below(random, 80);
  options.max_context = kContext;
  options.kv_blocks = kContext / 16 + below(random, crowded ? 3 : 60);
  options.threads = std::array{1U, 2U, 3U, 2U, 1U, 2U, 3U, 8U}[below(random, 8)];
  options.policy = static_cast<PolicyOption>(below(random, 3));
  options.mixed = below(random, 4) != 0;
  options.prefix_cache = below(random, 4) != 0;
  options.speculative_tokens = below(random, 2) == 0 ? 0 : 1 + below(random, 5);
  options.async_scheduling = below(random, 2) == 0;
  options.prefill_alignment = below(random, 3);
  options.min_prefill_tokens = 1 + below(random, 20);
  options.prefill_interval = 1 + below(random, 3);
  options.ageing_steps = 1 + below(random, 30);
  options.trace_events = 1U << 16;
  options.poison_freed_blocks = true;

  const std::uint32_t count = (crowded ? 8 : 3) + below(random, 8);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::size_t request = random() % requests_.size();
    Arrival arrival{requests_[request], below(random, 25), std::nullopt};
    if (below(random, 7) == 0) arrival.cancel_at = arrival.step + below(random, 20);
    history.arrivals.push_back(std::move(arrival));
    history.requests.push_back(request);
  }
  return history;
}

Outcome DemoModel::play(const DemoHistory& history, engine::StepHooks hooks) const {
  return serve(model_, history.options, history.arrivals, std::move(hooks), tokenizer_);
}

std::string DemoModel::judge(const DemoHistory& history, const Outcome& outcome) {
  for (std::size_t i = 0; i < history.arrivals.size(); ++i) {
    std::optional<Stream>& known = alone_[history.requests[i]];
    if (!known) {
      EngineOptions options;
      options.max_context = kContext;
      known = serve_alone(model_, options, history.arrivals[i].request, tokenizer_);
    }
    const Stream& got = outcome.streams[i];
    const bool cancelled = got.finish == FinishReason::kCancelled;
    if (!same_bits(cancelled ? cut(*known, got) : *known, got)) {
      return fmt::format("request {} of {}: {} tokens instead of {}, or others", i,
                         history.arrivals.size(), got.tokens.size(), known->tokens.size());
    }
  }
  if (outcome.stats.kv_blocks_used != 0)
    return fmt::format("{} blocks are left in use", outcome.stats.kv_blocks_used);
  if (outcome.events.size() >= history.options.trace_events) return "the log is too short";
  LawChecker checker(outcome.scheduling, true);
  for (const observe::Event& event : outcome.events) checker.see(event);
  checker.finish();
  return checker.violations().empty() ? "" : checker.violations().front();
}

}  // namespace dovetail::laws
