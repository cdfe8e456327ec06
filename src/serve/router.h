#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "dovetail/server.h"
#include "serve/api_error.h"
#include "serve/api_request.h"
#include "serve/backend.h"
#include "serve/http_message.h"
#include "serve/metrics.h"

namespace dovetail::serve {

enum class Route : std::uint8_t {
  kUnknown,
  kHealth,
  kMetrics,
  kModels,
  kModel,  // /v1/models/NAME
  kCompletions,
  kChatCompletions,
  kEmbeddings,
  kRerank,
  kTokenize,
  kDetokenize,
};

Route route_of(std::string_view target);
std::string_view route_name(Route route);  // for metrics: the path without what varies
bool takes_body(Route route);              // answered by POST

// What the server is at the moment, for the responses that depend on it.
struct ServerState {
  const Backend& backend;
  const ServerOptions& options;
  std::string served_name;
  std::int64_t created = 0;  // when the server started
  bool draining = false;
  // Names that a request may give as its host; empty: any. Set where a web page could otherwise
  // reach the server by a name of its own that resolves to the loopback (DNS rebinding).
  std::vector<std::string> host_names;
};

// The names for a server on the loopback that asks for no key; `host` is what it was told to bind.
std::vector<std::string> loopback_names(std::string_view host);

// What can be refused by a request's head alone: 403, 404, 405, 401, 415, 413, and 503 while
// draining.
std::optional<ApiError> refuse_head(const HttpHead& head, const ServerState& state);

// Responds to GET routes; cheap enough for the event loop.
HttpResponse respond_to_get(Route route, std::string_view target, const ServerState& state,
                            const HttpCounts& counts);

// Works on the body of a POST route; may take long. Any thread: of `state` it uses what never
// changes.
using Work = std::variant<HttpResponse, Generation>;
Outcome<Work> work_on(Route route, std::string_view body, const ServerState& state);

// Whether two keys are equal, in a time that depends on the presented key's length alone.
bool same_key(std::string_view presented, std::string_view expected);

}  // namespace dovetail::serve
