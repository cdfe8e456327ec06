#include "pipeline/run/local_model.h"

#include <algorithm>
#include <utility>

#include "dovetail/engine.h"
#include "load/model_source.h"
#include "text/prompt_encoder.h"
#include "text/tokenizer.h"

namespace dovetail::pipeline {
namespace {

template <class T>
void fill(std::optional<T>& value, const std::optional<T>& otherwise) {
  if (!value) value = otherwise;
}

SamplingParams sampling_params(const SamplingSpec& spec, const load::GenerationDefaults& model,
                               std::uint64_t seed) {
  SamplingParams params;
  const auto real = [](const std::optional<double>& given, const std::optional<float>& maker,
                       float otherwise) {
    return given ? static_cast<float>(*given) : maker.value_or(otherwise);
  };
  params.temperature = real(spec.temperature, model.temperature, params.temperature);
  params.top_p = real(spec.top_p, model.top_p, params.top_p);
  params.min_p = real(spec.min_p, model.min_p, params.min_p);
  params.top_k =
      spec.top_k ? static_cast<std::int32_t>(*spec.top_k) : model.top_k.value_or(params.top_k);
  params.repetition_penalty = model.repetition_penalty.value_or(params.repetition_penalty);
  params.seed = seed;
  return params;
}

}  // namespace

SamplingSpec merged(const SamplingSpec& column, const SamplingSpec& model) {
  SamplingSpec result = column;
  fill(result.temperature, model.temperature);
  fill(result.top_p, model.top_p);
  fill(result.min_p, model.min_p);
  fill(result.top_k, model.top_k);
  fill(result.max_tokens, model.max_tokens);
  if (result.stop.empty()) result.stop = model.stop;
  return result;
}

struct LocalModelHost::Impl {
  SamplingSpec defaults;
  std::unique_ptr<Engine> engine;
  std::optional<text::PromptEncoder> encoder;

  Result<std::vector<TokenId>> encode(const ModelRequest& request) const {
    if (!request.chat) return encoder->text(request.prompt, false);
    Json messages = Json::array();
    if (request.system) messages.push_back({{"role", "system"}, {"content", *request.system}});
    messages.push_back({{"role", "user"}, {"content", request.prompt}});
    return encoder->chat(messages);
  }

  Status submit(const ModelRequest& given, AnswerSink sink) const {
    auto prompt = encode(given);
    if (!prompt) return fail(std::move(prompt.error()));
    const SamplingSpec sampling = merged(given.sampling, defaults);
    Request request;
    request.prompt = *std::move(prompt);
    request.sampling = sampling_params(sampling, engine->source().generation, given.seed);
    request.max_tokens = static_cast<std::int32_t>(sampling.max_tokens.value_or(0));
    request.stop = sampling.stop;
    auto answer = std::make_shared<ModelAnswer>();
    const auto accepted = engine->submit(
        std::move(request), [answer, sink = std::move(sink)](const OutputEvent& event) {
          answer->text += event.text;
          answer->usage = event.usage;
          if (!event.finish) return;
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
    if (!accepted) return fail(accepted.error());
    return {};
  }
};

LocalModelHost::LocalModelHost(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LocalModelHost::~LocalModelHost() = default;

Result<std::unique_ptr<LocalModelHost>> LocalModelHost::create(const LocalModel& model,
                                                               const SamplingSpec& defaults) {
  auto source = load::open_model(model.path.string());
  if (!source) return fail(source.error());
  auto impl = std::make_unique<Impl>();
  impl->defaults = defaults;
  auto engine = Engine::create(*source, model.engine);
  if (!engine) return fail(engine.error());
  impl->engine = *std::move(engine);
  auto encoder = text::PromptEncoder::create(impl->engine->source(), impl->engine->tokenizer(), "");
  if (!encoder) return fail(encoder.error());
  impl->encoder = *std::move(encoder);
  return std::unique_ptr<LocalModelHost>(new LocalModelHost(std::move(impl)));
}

ModelClient LocalModelHost::client() {
  const EngineOptions& options = impl_->engine->options();
  ModelClient client;
  client.slots = std::min(2 * options.max_num_seqs, options.max_waiting);
  client.submit = [impl = impl_.get()](const ModelRequest& request, AnswerSink sink) {
    return impl->submit(request, std::move(sink));
  };
  return client;
}

}  // namespace dovetail::pipeline
