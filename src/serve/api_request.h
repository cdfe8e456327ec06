#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dovetail/request.h"
#include "serve/backend.h"
#include "serve/json_input.h"

namespace dovetail::serve {

enum class Form : std::uint8_t { kCompletion, kChat };

// What a body is read against.
struct RequestContext {
  const Backend& backend;
  std::string_view served_name;
  std::uint32_t max_choices = 0;
};

// A request for generation, checked and tokenised: one engine request per prompt.
struct Generation {
  Form form = Form::kCompletion;
  std::vector<Request> requests;  // at least one; all with the same n
  bool stream = false;
  bool include_usage = false;
};

// Reads the body of /v1/completions or /v1/chat/completions. A field that is unknown, unsupported,
// of the wrong type or out of range is a 400 that names it; another model than the served one is a
// 404. null stands for "not given". Tokenises and renders, so it may take long: not for the event
// loop. Any thread.
Outcome<Generation> read_generation(Form form, std::string_view body,
                                    const RequestContext& context);

// Bodies of /tokenize and /detokenize, answered at once with the response's body.
Outcome<std::string> tokenize(std::string_view body, const RequestContext& context);
Outcome<std::string> detokenize(std::string_view body, const RequestContext& context);

}  // namespace dovetail::serve
