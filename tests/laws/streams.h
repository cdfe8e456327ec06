#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dovetail/engine.h"
#include "engine/step_loop.h"
#include "load/model_source.h"
#include "observe/event_log.h"
#include "schedule/scheduler.h"
#include "text/tokenizer.h"

namespace dovetail::laws {

// All that a request got: tokens, and for each of them the logits that it was drawn from.
struct Stream {
  std::vector<TokenId> tokens;
  std::vector<std::vector<float>> logits;
  std::vector<OutputToken> reported;  // tokens with their log-probabilities
  std::vector<OutputToken> prompt;    // the prompt's, where they are asked for
  std::string text;                   // with a tokenizer
  std::optional<FinishReason> finish;
  std::string stop_string;
};

// Same tokens, same text, same end, same logits and log-probabilities, the prompt's too, bit for
// bit. A NaN is equal to nothing, not even to itself.
bool same_bits(const Stream& a, const Stream& b);

// A request and the step before which it comes; `cancel_at`: the step before which it is cancelled.
struct Arrival {
  Request request;
  std::uint32_t step = 0;
  std::optional<std::uint32_t> cancel_at;
};

// One admission as the plans showed it.
struct Admission {
  std::size_t request = 0;
  std::uint32_t slot = 0;
  std::uint32_t step = 0;
};

struct Outcome {
  std::vector<Stream> streams;  // in the order of the arrivals
  std::vector<Admission> admissions;
  std::uint32_t steps = 0;
  EngineStats stats;  // at the end
  schedule::SchedulerOptions scheduling;
  std::vector<observe::Event> events;  // with EngineOptions::trace_events, the last of them
};

// Drives a step loop through all arrivals until nothing is left. Requests have n = 1.
Outcome serve(std::shared_ptr<const load::ModelSource> model, const EngineOptions& options,
              const std::vector<Arrival>& arrivals, engine::StepHooks hooks = {},
              const std::optional<text::Tokenizer>& tokenizer = std::nullopt);

// The stream of a request that is alone: one sequence, its prompt in one chunk, one thread.
Stream serve_alone(std::shared_ptr<const load::ModelSource> model, EngineOptions options,
                   const Request& request,
                   const std::optional<text::Tokenizer>& tokenizer = std::nullopt);

// What a stream that was cancelled must be: the beginning of the whole one.
Stream cut(Stream whole, const Stream& cancelled);

}  // namespace dovetail::laws
