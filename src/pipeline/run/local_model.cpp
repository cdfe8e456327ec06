#include "pipeline/run/local_model.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

#include "base/sampling_table.h"
#include "dialog/reasoning_limit.h"
#include "dovetail/engine.h"
#include "engine/option_table.h"
#include "engine/options.h"
#include "families/open_model.h"
#include "load/model_source.h"
#include "text/prompt_encoder.h"
#include "text/tokenizer.h"

namespace dovetail::pipeline {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

SamplingSpec merged(const SamplingSpec& column, const SamplingSpec& model) {
  SamplingSpec result = column;
  result.values = column.values.or_else(model.values);
  if (!result.max_tokens) result.max_tokens = model.max_tokens;
  if (!result.reasoning_budget) result.reasoning_budget = model.reasoning_budget;
  if (!result.reasoning_budget_message)
    result.reasoning_budget_message = model.reasoning_budget_message;
  if (result.stop.empty()) result.stop = model.stop;
  return result;
}

struct LocalModelHost::Impl {
  SamplingSpec defaults;
  std::unique_ptr<Engine> engine;
  std::optional<text::PromptEncoder> encoder;
  std::optional<dialog::ReasoningLimit> reasoning;  // of `encoder`
  std::string name;
  std::uint32_t slots = 0;
  std::uint32_t plenty = 0;  // in flight: more than can end in some steps
  std::atomic<std::uint32_t> in_flight{0};

  Result<std::vector<TokenId>> encode(const ModelRequest& request, std::int32_t budget) const {
    if (request.messages.empty()) return encoder->text(request.prompt, false);
    Json messages = Json::array();
    std::vector<text::MarkedText> contents;
    for (const ModelMessage& message : request.messages) {
      messages.push_back({{"role", message.role}, {"content", message.content}});
      contents.push_back(text::MarkedText::trusted_within(message.content, message.trusted));
    }
    return reasoning->encode(messages, contents, budget);
  }

  Status submit(const ModelRequest& given, AnswerSink sink) {
    const SamplingSpec sampling = merged(given.sampling, defaults);
    const auto budget = static_cast<std::int32_t>(sampling.reasoning_budget.value_or(-1));
    auto prompt = encode(given, budget);
    if (!prompt) return fail(std::move(prompt.error()));
    Request request;
    request.prompt = *std::move(prompt);
    if (!given.messages.empty()) {
      request.reasoning = reasoning->budget(
          request.prompt, {budget, sampling.reasoning_budget_message.value_or("")});
    }
    request.sampling = sampling.values.or_else(engine->source().generation.sampling).params();
    request.sampling.seed = given.seed;
    request.max_tokens = static_cast<std::int32_t>(sampling.max_tokens.value_or(0));
    request.stop = sampling.stop;
    if (!given.schema.is_null()) {
      auto compiled = engine->compile(GrammarKind::kJsonSchema, given.schema.dump());
      if (!compiled) return fail(std::move(compiled.error()));
      request.grammar = *std::move(compiled);
    }
    if (!given.pattern.regex.empty()) {
      auto compiled = engine->compile(GrammarKind::kRegex, given.pattern.regex);
      if (!compiled) return fail(std::move(compiled.error()));
      request.grammar = *std::move(compiled);
      // A part of an option may be another option: nothing but the pattern ends the answer. Each
      // token is a byte at least, but for the one that is the end.
      request.max_tokens = static_cast<std::int32_t>(given.pattern.bytes + 1);
      request.stop.clear();
    }
    auto answer = std::make_shared<ModelAnswer>();
    in_flight.fetch_add(1);
    const auto accepted = engine->submit(
        std::move(request),
        [this, answer, sink = std::move(sink), sent = Clock::now()](const OutputEvent& event) {
          answer->text += event.text;
          answer->usage = event.usage;
          if (!event.finish) return;
          in_flight.fetch_sub(1);
          answer->on_wire_us = static_cast<std::uint64_t>(
              std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - sent).count());
          switch (*event.finish) {
            case FinishReason::kStop:
            case FinishReason::kLength:
              answer->cut = *event.finish == FinishReason::kLength;
              return sink(std::move(*answer));
            case FinishReason::kCancelled:
              return sink(fail(ErrorKind::kUnavailable, "the model was stopped"));
            case FinishReason::kError:
              return sink(fail(event.error));
          }
        });
    if (accepted) return {};
    in_flight.fetch_sub(1);
    return fail(accepted.error());
  }

  std::uint32_t room() const { return slots - std::min(slots, in_flight.load()); }
};

LocalModelHost::LocalModelHost(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LocalModelHost::~LocalModelHost() = default;

Result<std::unique_ptr<LocalModelHost>> LocalModelHost::create(const LocalModel& model,
                                                               const SamplingSpec& defaults) {
  auto source = families::open_model(model.path.string());
  if (!source) return fail(source.error());
  auto impl = std::make_unique<Impl>();
  impl->defaults = defaults;
  impl->name = model.path.filename().string();
  // No user of a dataset waits for the next token.
  EngineOptions wanted = model.engine;
  wanted.target_inter_token_ms = engine::kNoTarget;
  auto engine = Engine::create(*source, wanted);
  if (!engine) return fail(engine::by_option_name(std::move(engine.error())));
  impl->engine = *std::move(engine);
  // One round of requests beside those that run, so that a row that ends is followed at once.
  const EngineOptions& options = impl->engine->options();
  impl->slots = std::min(2 * options.max_num_seqs, options.max_waiting);
  impl->plenty = options.max_num_seqs + options.max_num_seqs / 2;
  auto encoder = text::PromptEncoder::create(impl->engine->source(), impl->engine->tokenizer(), "");
  if (!encoder) return fail(encoder.error());
  impl->encoder = *std::move(encoder);
  impl->reasoning.emplace(*impl->encoder);
  return std::unique_ptr<LocalModelHost>(new LocalModelHost(std::move(impl)));
}

Status LocalModelHost::check(const Json& schema) {
  const auto compiled = impl_->engine->compile(GrammarKind::kJsonSchema, schema.dump());
  if (!compiled) return fail(compiled.error());
  return {};
}

Status LocalModelHost::check(const AnswerPattern& pattern) {
  const auto compiled = impl_->engine->compile(GrammarKind::kRegex, pattern.regex);
  if (!compiled) return fail(compiled.error());
  return {};
}

ModelClient LocalModelHost::client() {
  Impl* impl = impl_.get();
  ModelClient client;
  client.slots = impl->slots;
  client.room = [impl] { return impl->room(); };
  client.busy = [impl] { return impl->in_flight.load() >= impl->plenty; };
  client.on_room = [](const std::function<void()>&) {};  // only answers make room
  client.submit = [impl](const ModelRequest& request, AnswerSink sink) {
    return impl->submit(request, std::move(sink));
  };
  client.check = [] { return Status(); };
  client.state = [impl] {
    const std::uint32_t now = impl->in_flight.load();
    const IdleCause cause = now < impl->slots ? IdleCause::kNone : IdleCause::kLimit;
    return std::vector<ModelState>{{impl->name, now, impl->slots, cause}};
  };
  return client;
}

}  // namespace dovetail::pipeline
