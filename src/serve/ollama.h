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

// What /api/version answers: the version of Ollama whose API the routes under /api speak, since
// clients take it for that and refuse older ones (VS Code 0.6.4, Codex 0.13.4). Log-probabilities
// came with 0.12.11, /v1/responses with 0.13.3, /v1/messages with 0.14.0.
inline constexpr std::string_view kOllamaApiLevel = "0.14.0";

// What Ollama's clients ask of a server besides answers: /api/version; /api/tags, the models that
// there are; /api/ps, those that are loaded, which are the same; and /api/show of the model.
HttpResponse get_ollama_version(std::string_view target, const ServerState& state,
                                const HttpCounts& counts);
HttpResponse get_ollama_tags(std::string_view target, const ServerState& state,
                             const HttpCounts& counts);
HttpResponse get_ollama_ps(std::string_view target, const ServerState& state,
                           const HttpCounts& counts);
Outcome<HttpResponse> ollama_show(std::string_view body, const RequestContext& context);

// The answer to a request of /api/chat, /api/generate, /api/embed or /api/embeddings that says
// nothing to the model: it asks for the model to be loaded, which it is. Of others: nothing.
// `body`: an object.
std::optional<Outcome<HttpResponse>> ollama_load(Endpoint endpoint, const Json& body,
                                                 const RequestContext& context);

// The time, as Ollama's answers say it.
std::string ollama_now();

}  // namespace dovetail::serve
