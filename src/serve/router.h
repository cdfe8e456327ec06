#pragma once

#include <cstdint>
#include <optional>
#include <span>
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
#include "serve/served_names.h"

namespace dovetail::serve {

struct ServerState;

// Works on the body of a request; what it gives is answered at once, or generated.
using Work = std::variant<HttpResponse, Generation>;

// A row of the table of routes. Paths with and without /v1 in front are the same, and so are those
// with slashes at the end.
struct Route {
  // A part that varies is ":name"; at the end it may have slashes. The first row that fits is
  // taken.
  std::string_view path;
  // Answers GET and HEAD, cheap enough for the event loop; or null, and `post`
  HttpResponse (*get)(std::string_view target, const ServerState& state, const HttpCounts& counts);
  // answers POST. May take long. Any thread: of the context it uses what never changes. Where all
  // are null, GET is answered by the stream of what the server does.
  Outcome<Work> (*post)(std::string_view body, const RequestContext& context);
  bool open = false;  // asks for no key
  ErrorShape errors = ErrorShape::kOpenAi;
  // As `post`, for GET and DELETE of what the server keeps; without a body.
  Outcome<Work> (*read)(std::string_view target, const RequestContext& context) = nullptr;
  Outcome<Work> (*remove)(std::string_view target, const RequestContext& context) = nullptr;
};

std::span<const Route> routes();
// Null: there is none. A path with parts that vary is no route for POST where its row takes none.
const Route* find_route(std::string_view target, std::string_view method);
// How errors of a route are written, and those of a path that is none (null) but begins as those of
// an API do.
ErrorShape errors_of(const Route* route, std::string_view target);
std::string_view route_name(const Route* route);               // its path, or "unknown"
std::string methods_of(const Route& route);                    // "GET, HEAD, DELETE"
bool takes_work(const Route& route, std::string_view method);  // else it is answered by `get`

// What the server is at the moment, for the responses that depend on it.
struct ServerState {
  const Backend& backend;
  const ServerOptions& options;
  ServedNames served;
  std::int64_t created = 0;  // when the server started
  bool draining = false;
  // Names that a request may give as its host; empty: any. Set where a web page could otherwise
  // reach the server by a name of its own that resolves to the loopback (DNS rebinding).
  std::vector<std::string> host_names;
  DialogStore* dialogs = nullptr;  // of responses that may be gone on from
  KeptAnswers* calls = nullptr;    // of responses that a client may send back
};

// The names for a server on the loopback that asks for no key; `host` is what it was told to bind.
std::vector<std::string> loopback_names(std::string_view host);

// What can be refused by a request's head alone: 403, 404, 405, 401, 415, 413, and 503 while
// draining.
std::optional<ApiError> refuse_head(const HttpHead& head, const ServerState& state);

// A request that is worked on; `key`: the name of the one that it came with.
struct WorkOrder {
  std::string method, target, key;
};
// What a route works on.
Outcome<Work> work_on(const Route& route, const WorkOrder& order, std::string_view body,
                      const ServerState& state);

// Whether a page of the origin may read responses (ServerOptions::cors_origins).
bool allows_origin(std::string_view origin, const ServerOptions& options);
// To the question that a browser asks before it sends a request of another origin.
HttpResponse preflight_response();

// The name of the key that a request presents, "" for the one without; nothing: it is no key of the
// server's.
std::optional<std::string_view> key_name(const HttpHead& head, const ServerOptions& options);

// Whether two keys are equal, in a time that depends on the presented key's length alone.
bool same_key(std::string_view presented, std::string_view expected);

}  // namespace dovetail::serve
