#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "dovetail/request.h"
#include "pipeline/config/model_spec.h"
#include "pipeline/config/pipeline_spec.h"
#include "text/marked_text.h"

namespace dovetail::pipeline {

// Of a million tokens.
struct Price {
  double input = 0.0, output = 0.0;
};

inline Price price_of(const ModelSpec& model) {
  const auto* remote = std::get_if<RemoteModel>(&model.where);
  return remote == nullptr ? Price() : Price{remote->input_price, remote->output_price};
}

// What an answer costs, in 1e-9 of the currency.
inline std::uint64_t cost_of(const Price& price, const Usage& usage) {
  return static_cast<std::uint64_t>(
      1000.0 * (price.input * usage.prompt_tokens + price.output * usage.completion_tokens));
}

struct ModelMessage {
  std::string role;  // "system", "user", "assistant"
  std::string content;
  // What of the content the pipeline's author wrote; the rest, values of columns and answers of
  // models, holds no control tokens. Ascending; none touches the next.
  std::vector<text::ByteSpan> trusted = {};
};

// One question to a model.
struct ModelRequest {
  std::vector<ModelMessage> messages;
  std::string prompt;  // where there are no messages: as it is, without the model's chat template
  SamplingSpec sampling;
  std::uint64_t seed = 0;
  Json schema;  // that the answer must be an instance of; null: any text
  // That the whole answer must match. Models in this process are held to it, whatever `sampling`
  // says of the end of an answer; those behind endpoints are not told.
  AnswerPattern pattern = {};
};

struct ModelAnswer {
  std::string text;
  bool cut = false;  // by its limit of tokens
  Usage usage;
  std::uint32_t attempts = 1;    // requests that were made for it
  std::uint64_t on_wire_us = 0;  // of the one that was answered
};

// Called once, on a thread of the model's; must not block. Errors: kInvalid, the model refuses the
// request and would again; kExhausted, kUnavailable and kTimeout, it might succeed later, but the
// model's own tries are used up.
using AnswerSink = std::function<void(Result<ModelAnswer>)>;

// Why a model is not sent more at this moment.
enum class IdleCause : std::uint8_t {
  kNone,      // it would be sent more
  kLimit,     // its limit of requests is in flight
  kCoolDown,  // it asked for a pause
  kBudget,    // its requests or tokens of this minute are used up
  kBroken,    // it fails; it is tried again soon
};
inline constexpr std::size_t kIdleCauses = 5;

struct ModelState {
  std::string name;             // of the endpoint
  std::uint32_t in_flight = 0;  // on the wire, or in the engine
  std::uint32_t limit = 0;      // of in_flight, at this moment
  IdleCause idle = IdleCause::kNone;
  std::string note = {};     // what a person should know about it; mostly empty
  std::string failure = {};  // of the last request, where it is kBroken
};

// A model as the runner sees it. Every function may be called from any thread and returns at once.
struct ModelClient {
  // How many requests it might have under way at the same time.
  std::uint32_t slots = 1;
  // How many requests it would begin now. A request whose answer is being read, that waits for a
  // further try or for anything but the model does not count as under way.
  std::function<std::uint32_t()> room;
  // Whether it has so much to do that it does not run dry in the next milliseconds, whatever of it
  // ends: its answers need not be heard at once. Empty: never.
  std::function<bool()> busy;
  // Called once, before the first submit(): `wake` is to be called, from any thread, when room may
  // have grown without an answer; it does not block.
  std::function<void(std::function<void()> wake)> on_room;
  // Takes a request. An error: it was not taken, and the sink is never called. kExhausted may be
  // tried again when there is room; everything else would fail again.
  std::function<Status(const ModelRequest&, AnswerSink)> submit;
  // An error: nothing has succeeded for so long that the run is to end.
  std::function<Status()> check;
  // One per endpoint.
  std::function<std::vector<ModelState>()> state;
};

}  // namespace dovetail::pipeline
