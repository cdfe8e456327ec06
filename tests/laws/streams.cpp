#include "laws/streams.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

namespace dovetail::laws {

bool same_bits(const Stream& a, const Stream& b) {
  const auto equal_rows = [](const std::vector<float>& x, const std::vector<float>& y) {
    // == sees a NaN, memcmp sees a zero's sign.
    return x == y && std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0;
  };
  return a.tokens == b.tokens && a.finish == b.finish &&
         std::equal(a.logits.begin(), a.logits.end(), b.logits.begin(), b.logits.end(), equal_rows);
}

Outcome serve(std::shared_ptr<const load::ModelSource> model, const EngineOptions& options,
              const std::vector<Arrival>& arrivals, engine::StepHooks hooks) {
  Outcome outcome;
  outcome.streams.resize(arrivals.size());
  std::vector<std::size_t>
      request_of;  // by sequence id: the loop numbers sequences as they are added
  const std::size_t vocab = model->config.vocab_size;

  hooks.after_sampling = [&](const schedule::StepPlan& plan, const schedule::StepResult& result,
                             std::span<const float> logits) {
    for (const schedule::Admission& admission : plan.admitted) {
      outcome.admissions.push_back(
          {request_of.at(admission.sequence), admission.slot, outcome.steps});
    }
    std::size_t sampled = 0;
    for (const schedule::Row& row : plan.rows) {
      if (!row.sampled) continue;
      const std::uint32_t new_tokens = result.rows.at(sampled++).new_tokens;
      if (new_tokens == 0) continue;
      auto& stream = outcome.streams.at(request_of.at(row.sequence));
      for (std::uint32_t i = 0; i < new_tokens; ++i) {
        const auto begin = logits.begin() + static_cast<std::ptrdiff_t>(i * vocab);
        stream.logits.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(vocab));
      }
      logits = logits.subspan(row.logit_rows() * vocab);
    }
  };
  auto created =
      engine::StepLoop::create(std::move(model), std::nullopt, options, std::move(hooks));
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
          stream.finish = event.finish;
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
  return outcome;
}

Stream serve_alone(std::shared_ptr<const load::ModelSource> model, EngineOptions options,
                   const Request& request) {
  options.max_num_seqs = 1;
  options.max_num_batched_tokens = model->config.max_context;
  options.long_prefill_token_threshold = 0;
  options.threads = 1;
  options.kv_blocks = 0;
  options.prefix_cache = false;
  options.speculative_tokens = 0;
  options.async_scheduling = false;
  return std::move(serve(std::move(model), options, {{request, 0, std::nullopt}}).streams.front());
}

}  // namespace dovetail::laws
