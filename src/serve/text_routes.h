#pragma once

#include <string_view>

#include "serve/api_request.h"

namespace dovetail::serve {

// Bodies of /tokenize, /detokenize and /apply-template, answered at once.
Outcome<HttpResponse> tokenize(std::string_view body, const RequestContext& context);
Outcome<HttpResponse> detokenize(std::string_view body, const RequestContext& context);
// Bodies of /v1/messages/count_tokens and /v1/responses/input_tokens: how many tokens the prompt
// would have.
Outcome<HttpResponse> count_tokens(std::string_view body, const RequestContext& context);
Outcome<HttpResponse> count_response_tokens(std::string_view body, const RequestContext& context);
Outcome<HttpResponse> apply_template(std::string_view body, const RequestContext& context);

}  // namespace dovetail::serve
