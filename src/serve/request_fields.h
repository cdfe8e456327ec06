#pragma once

#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "serve/api_request.h"
#include "serve/chat.h"
#include "serve/output_format.h"

namespace dovetail::serve {

// The fields of a body of /v1/completions or /v1/chat/completions as they were read one by one,
// before what concerns several of them is checked.
struct Draft {
  explicit Draft(const RequestContext& request_context) : context(request_context) {}

  const RequestContext& context;
  Request request;  // everything but the prompt
  std::vector<std::variant<std::string, std::vector<TokenId>>> prompts;  // completions
  Chat chat;
  bool stream = false;
  bool has_stream_options = false;
  bool include_usage = false;
  bool logprobs = false;  // chat's switch
  std::optional<std::int32_t> top_logprobs;
  std::optional<std::int32_t> max_tokens;
  std::optional<std::int32_t> max_completion_tokens;
  std::optional<OutputFormat> format;  // not yet compiled
};

// Reads one field into the draft; null is as good as no field. Errors as read_generation().
Problem read_field(Form form, std::string_view name, const Json& value, Draft& draft);

}  // namespace dovetail::serve
