#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "serve/api_request.h"
#include "serve/http_message.h"
#include "serve/request_fields.h"

namespace dovetail::serve {

struct ServerState;
class HttpCounts;

// llama.cpp's own routes: /completion, /infill and /props, as the clients of its server ask them.

// Checks what concerns several fields of a draft of /completion or /infill, whose prompt is built
// of its parts. Before what concerns all completions is settled.
Problem settle_llama(Endpoint endpoint, Draft& draft);

// "generation_settings": the parameters of a request, and those that nothing here heeds as off.
// `limit`: tokens that are asked for at most; -1: none.
Json llama_settings(const Request& request, std::int32_t limit);

// What the answer to such a request shows of it, which is ready to be submitted.
void describe_llama(Draft& draft, Generation& generation);

HttpResponse get_llama_props(std::string_view target, const ServerState& state,
                             const HttpCounts& counts);

}  // namespace dovetail::serve
