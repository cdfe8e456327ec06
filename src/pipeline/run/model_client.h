#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/result.h"
#include "dovetail/request.h"
#include "pipeline/config/pipeline_spec.h"

namespace dovetail::pipeline {

// One question to a model.
struct ModelRequest {
  std::string prompt;
  std::optional<std::string> system;
  bool chat = true;  // false: the prompt as it is
  SamplingSpec sampling;
  std::uint64_t seed = 0;
};

struct ModelAnswer {
  std::string text;
  bool cut = false;  // by its limit of tokens
  Usage usage;
};

// Called once, on a thread of the model's; must not block.
using AnswerSink = std::function<void(Result<ModelAnswer>)>;

// A model as the runner sees it.
struct ModelClient {
  std::uint32_t slots = 1;  // requests that are under way at the same time, at most
  // Takes a request. An error: it was not taken, and the sink is never called. kExhausted may be
  // tried again later; everything else would fail again.
  std::function<Status(const ModelRequest&, AnswerSink)> submit;
};

}  // namespace dovetail::pipeline
