#include "laws/streams.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

namespace dovetail::laws {

namespace {

template <class T>
bool same_bytes(const std::vector<T>& x, const std::vector<T>& y) {
  // == sees a NaN, memcmp sees a zero's sign.
  return x == y && std::memcmp(x.data(), y.data(), x.size() * sizeof(T)) == 0;
}

// A token as it was reported, in numbers.
std::vector<float> numbers(const OutputToken& token) {
  std::vector<float> result = {static_cast<float>(token.id), token.logprob,
                               static_cast<float>(token.rank)};
  for (const TokenLogprob& top : token.top) {
    result.push_back(static_cast<float>(top.id));
    result.push_back(top.logprob);
  }
  return result;
}

bool same_reports(const std::vector<OutputToken>& a, const std::vector<OutputToken>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const OutputToken& x, const OutputToken& y) {
                      return same_bytes(numbers(x), numbers(y));
                    });
}

}  // namespace

bool same_bits(const Stream& a, const Stream& b) {
  return a.tokens == b.tokens && a.text == b.text && a.finish == b.finish &&
         a.stop_string == b.stop_string &&
         std::equal(a.logits.begin(), a.logits.end(), b.logits.begin(), b.logits.end(),
                    same_bytes<float>) &&
         same_reports(a.reported, b.reported) && same_reports(a.prompt, b.prompt);
}

Stream cut(Stream whole, const Stream& cancelled) {
  // Without a token of its own an end token has logits.
  const auto shorten = [](auto& list, std::size_t size) {
    list.resize(std::min(list.size(), size));
  };
  shorten(whole.tokens, cancelled.tokens.size());
  shorten(whole.logits, cancelled.logits.size());
  shorten(whole.reported, cancelled.reported.size());
  shorten(whole.text, cancelled.text.size());
  // It comes whole, with the first token.
  if (cancelled.prompt.empty()) whole.prompt.clear();
  whole.finish = cancelled.finish;
  whole.stop_string.clear();
  return whole;
}

Outcome serve(std::shared_ptr<const load::ModelSource> model, const EngineOptions& options,
              const std::vector<Arrival>& arrivals, engine::StepHooks hooks,
              const std::optional<text::Tokenizer>& tokenizer) {
  Outcome outcome;
  outcome.streams.resize(arrivals.size());
  std::vector<std::size_t>
      request_of;  // by sequence id: the loop numbers sequences as they are added
  const std::size_t vocab = model->config.vocab_size;

  hooks.after_sampling = [&](const schedule::StepPlan& plan, const schedule::StepResult& result,
                             std::span<const std::span<const float>> logits) {
    for (const schedule::Admission& admission : plan.admitted) {
      outcome.admissions.push_back(
          {request_of.at(admission.sequence), admission.slot, outcome.steps});
    }
    std::size_t sampled = 0;
    for (const schedule::Row& row : plan.rows) {
      if (!row.sampled) continue;
      auto& stream = outcome.streams.at(request_of.at(row.sequence));
      const bool has_logits = !logits[sampled].empty();
      for (std::uint32_t i = 0; has_logits && i < result.rows.at(sampled).new_tokens; ++i) {
        const std::span<const float> its = logits[sampled].subspan(i * vocab, vocab);
        stream.logits.emplace_back(its.begin(), its.end());
      }
      ++sampled;
    }
  };
  auto created = engine::StepLoop::create(std::move(model), tokenizer, options, std::move(hooks));
  if (!created) throw std::runtime_error(created.error().message);
  engine::StepLoop& loop = **created;

  std::uint32_t limit = 1000;
  for (const Arrival& arrival : arrivals)
    limit += arrival.step + 64 * static_cast<std::uint32_t>(arrival.request.prompt.size()) +
             64 * static_cast<std::uint32_t>(arrival.request.max_tokens);
  std::size_t added = 0;
  const auto arrives_now = [&](const Arrival& arrival) { return arrival.step == outcome.steps; };
  while (added < arrivals.size() || !loop.idle()) {
    for (std::size_t i = 0; i < arrivals.size(); ++i) {
      const Arrival& arrival = arrivals[i];
      if (arrives_now(arrival)) {
        request_of.push_back(i);
        ++added;
        const auto sink = [&outcome, i](const OutputEvent& event) {
          Stream& stream = outcome.streams[i];
          if (stream.finish) throw std::runtime_error("an event after the last one");
          for (const OutputToken& token : event.tokens) stream.tokens.push_back(token.id);
          stream.reported.insert(stream.reported.end(), event.tokens.begin(), event.tokens.end());
          stream.prompt.insert(stream.prompt.end(), event.prompt_logprobs.begin(),
                               event.prompt_logprobs.end());
          stream.text += event.text;
          stream.finish = event.finish;
          stream.stop_string = event.stop_string;
        };
        if (const Status status = loop.add(i, arrival.request, sink); !status)
          throw std::runtime_error(status.error().message);
      }
      if (arrival.cancel_at == outcome.steps) loop.cancel(i);
    }
    if (const Status status = loop.step(); !status)
      throw std::runtime_error(status.error().message);
    if (++outcome.steps > limit)
      throw std::runtime_error("no end in sight after " + std::to_string(limit) + " steps");
  }
  outcome.stats = loop.stats();
  outcome.scheduling = loop.scheduling();
  outcome.events = loop.trace().events;
  return outcome;
}

Stream serve_alone(std::shared_ptr<const load::ModelSource> model, EngineOptions options,
                   const Request& request, const std::optional<text::Tokenizer>& tokenizer) {
  options.max_num_seqs = 1;
  options.max_num_batched_tokens = model->config.max_context;
  options.long_prefill_token_threshold = 0;
  options.threads = 1;
  options.kv_blocks = 0;
  options.prefix_cache = false;
  options.speculative_tokens = 0;
  options.async_scheduling = false;
  options.trace_events = 0;
  return std::move(serve(std::move(model), options, {{request, 0, std::nullopt}}, {}, tokenizer)
                       .streams.front());
}

}  // namespace dovetail::laws
