#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "serve/api_error.h"
#include "serve/api_request.h"
#include "serve/http_message.h"

namespace dovetail::serve {

struct ServerState;
class HttpCounts;

// What Ollama's clients ask of a server besides answers: /api/tags and /api/ps, /api/version, and
// /api/show of the model.
HttpResponse get_ollama_tags(std::string_view target, const ServerState& state,
                             const HttpCounts& counts);
Outcome<HttpResponse> ollama_show(std::string_view body, const RequestContext& context);

// The answer to a request of /api/chat or /api/generate that says nothing to the model: it asks for
// the model to be loaded, which it is. Of others: nothing. `body`: an object.
std::optional<Outcome<HttpResponse>> ollama_load(Endpoint endpoint, const Json& body,
                                                 const RequestContext& context);

// The time, as Ollama's answers say it.
std::string ollama_now();

// Whether `name` is the served model's, as Ollama writes names: a tag may stand behind it.
bool is_ollama_name(std::string_view name, std::string_view served);

}  // namespace dovetail::serve
