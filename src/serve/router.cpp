#include "serve/router.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/near_match.h"
#include "serve/kept_responses.h"
#include "serve/llama.h"
#include "serve/model_json.h"
#include "serve/ollama.h"
#include "serve/page.h"
#include "serve/request_target.h"
#include "serve/text_routes.h"

namespace dovetail::serve {
namespace {

constexpr std::string_view kModelPrefix = "/models/";

std::string_view first_part(std::string_view path) { return path.substr(0, path.find('/')); }

// Whether a path is of the pattern; both without "/v1".
bool fits(std::string_view path, std::string_view pattern) {
  while (true) {
    const std::string_view wanted = first_part(pattern);
    const std::string_view part = first_part(path);
    const bool varies = wanted.starts_with(':');
    if (varies ? part.empty() : part != wanted) return false;
    pattern.remove_prefix(wanted.size());
    path.remove_prefix(part.size());
    if (pattern.empty()) return path.empty() || varies;
    if (path.empty()) return false;
    pattern.remove_prefix(1);
    path.remove_prefix(1);
  }
}

bool same_letters(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

ApiError error_of(int status, std::string code, std::string message) {
  ApiError error;
  error.status = status;
  error.code = std::move(code);
  error.message = std::move(message);
  return error;
}

// The key that a request presents; nothing: none in a form that is known.
std::optional<std::string_view> presented_key(const HttpHead& head) {
  if (!head.api_key.empty()) return trimmed(head.api_key);
  const std::string_view authorization = head.authorization;
  const std::size_t space = authorization.find(' ');
  if (space == std::string_view::npos || !same_letters(authorization.substr(0, space), "Bearer"))
    return std::nullopt;
  return trimmed(authorization.substr(space));
}

std::optional<ApiError> refuse_key(const HttpHead& head, const ServerOptions& options) {
  if (!options.asks_for_key()) return std::nullopt;
  if (!presented_key(head)) {
    return error_of(401, "missing_api_key",
                    "no API key given; expected the header \"Authorization: Bearer KEY\"");
  }
  if (!key_name(head, options))
    return error_of(401, "invalid_api_key", "the API key is not the server's");
  return std::nullopt;
}

// Names that no web page can have: they are given by the machine or its network alone, so that
// no name of the Internet leads to the loopback by them. "host.docker.internal" is one.
bool is_private(std::string_view host) {
  constexpr std::string_view kEnds[] = {".localhost", ".internal", ".local"};
  return std::any_of(std::begin(kEnds), std::end(kEnds),
                     [host](std::string_view end) { return host.ends_with(end); });
}

std::optional<ApiError> refuse_host(const HttpHead& head, const ServerState& state) {
  const std::vector<std::string>& names = state.host_names;
  // A client of HTTP/1.0 may name none; web pages cannot make one send that.
  if (names.empty() || !head.host || is_private(*head.host)) return std::nullopt;
  if (std::find(names.begin(), names.end(), *head.host) != names.end()) return std::nullopt;
  return error_of(403, "host_not_allowed",
                  fmt::format("Host is \"{}\"; without an API key this server answers to {} only",
                              head.host->substr(0, 100), fmt::join(names, ", ")));
}

HttpResponse health(const ServerState& state) {
  HttpResponse response;
  Json json;
  const EngineHealth engine = state.backend.health(state.options.stall);
  if (state.draining) {
    json["status"] = "draining";
    json["reason"] = "the server was told to stop and finishes what it has accepted";
  } else if (!engine.ok) {
    json["status"] = "failing";
    json["reason"] = engine.reason;
  } else {
    json["status"] = "ok";
    response.body = json.dump();
    return response;
  }
  response.status = 503;
  response.body = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  response.error_code = json["status"];
  response.error_message = json["reason"];
  return response;
}

HttpResponse response_of(std::string body) {
  HttpResponse response;
  response.body = std::move(body);
  return response;
}

std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

HttpResponse get_health(std::string_view, const ServerState& state, const HttpCounts&) {
  return health(state);
}

HttpResponse get_version(std::string_view, const ServerState&, const HttpCounts&) {
  return response_of(text_of({{"version", DOVETAIL_VERSION}}));
}

// Sequences under way, as vLLM counts a server's load, and what bounds them.
HttpResponse get_load(std::string_view, const ServerState& state, const HttpCounts&) {
  const EngineStats stats = state.backend.stats();
  Json json;
  json["server_load"] = stats.running + stats.waiting;
  json["running"] = stats.running;
  json["waiting"] = stats.waiting;
  json["kv_blocks"] = stats.kv_blocks;
  json["kv_blocks_used"] = stats.kv_blocks_used;
  return response_of(text_of(json));
}

HttpResponse get_metrics(std::string_view, const ServerState& state, const HttpCounts& counts) {
  HttpResponse response = response_of(metrics_text(
      state.backend.stats(), counts, {state.served.shown(), state.backend.model.max_context}));
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  return response;
}

HttpResponse get_page(std::string_view, const ServerState&, const HttpCounts&) {
  HttpResponse response = response_of(std::string(kPage));
  response.content_type = "text/html; charset=utf-8";
  response.headers = {{"Content-Security-Policy", std::string(kPagePolicy)},
                      {"X-Content-Type-Options", "nosniff"},
                      {"Referrer-Policy", "no-referrer"},
                      {"Cache-Control", "no-cache"}};
  return response;
}

HttpResponse get_models(std::string_view, const ServerState& state, const HttpCounts&) {
  Json json;
  json["object"] = "list";
  json["data"] = Json::array();
  for (const std::string& name : state.served.all())
    json["data"].push_back(model_json(state, name));
  return response_of(text_of(json));
}

HttpResponse get_model(std::string_view target, const ServerState& state, const HttpCounts&) {
  const std::string name = percent_decoded(bare_path(target).substr(kModelPrefix.size()));
  if (state.served.has(name)) return response_of(text_of(model_json(state, name)));
  return error_response(state.served.refuse("model", fmt::format("\"{}\"", name.substr(0, 100))));
}

template <Endpoint endpoint>
Outcome<Work> post_generation(std::string_view body, const RequestContext& context) {
  auto generation = read_generation(endpoint, body, context);
  if (!generation) return tl::unexpected<ApiError>(std::move(generation.error()));
  return Work(*std::move(generation));
}

template <Endpoint endpoint>
Outcome<Work> post_ollama(std::string_view body, const RequestContext& context) {
  const auto json = parse_body(body);
  if (!json) return tl::unexpected<ApiError>(json.error());
  if (auto loaded = ollama_load(endpoint, *json, context)) {
    if (!*loaded) return tl::unexpected<ApiError>(std::move(loaded->error()));
    return Work(**std::move(loaded));
  }
  auto generation = read_parsed(endpoint, *json, context);
  if (!generation) return tl::unexpected<ApiError>(std::move(generation.error()));
  return Work(*std::move(generation));
}

// Of a body, or of a target.
template <Outcome<HttpResponse> (*answer)(std::string_view, const RequestContext&)>
Outcome<Work> work_answer(std::string_view text, const RequestContext& context) {
  auto response = answer(text, context);
  if (!response) return tl::unexpected<ApiError>(std::move(response.error()));
  return Work(*std::move(response));
}

// Whether the path has parts that vary.
bool has_names(const Route& route) { return route.path.find("/:") != std::string_view::npos; }

constexpr Route kRoutes[] = {
    {"/", get_page, nullptr, true},
    {"/v1/chat/completions", nullptr, post_generation<Endpoint::kChat>},
    {"/v1/completions", nullptr, post_generation<Endpoint::kCompletion>},
    {"/v1/responses", nullptr, post_generation<Endpoint::kResponses>},
    {"/v1/responses/input_tokens", nullptr, work_answer<count_response_tokens>},
    {"/v1/responses/:id/input_items", nullptr, nullptr, false, ErrorShape::kOpenAi,
     work_answer<list_input_items>},
    {"/v1/responses/:id", nullptr, nullptr, false, ErrorShape::kOpenAi, work_answer<get_response>,
     work_answer<delete_response>},
    {"/v1/messages", nullptr, post_generation<Endpoint::kMessages>, false, ErrorShape::kMessages},
    {"/v1/messages/count_tokens", nullptr, work_answer<count_tokens>, false, ErrorShape::kMessages},
    {"/api/chat", nullptr, post_ollama<Endpoint::kOllamaChat>, false, ErrorShape::kOllama},
    {"/api/generate", nullptr, post_ollama<Endpoint::kOllamaGenerate>, false, ErrorShape::kOllama},
    {"/api/embed", nullptr, post_ollama<Endpoint::kOllamaEmbed>, false, ErrorShape::kOllama},
    {"/api/embeddings", nullptr, post_ollama<Endpoint::kOllamaEmbedding>, false,
     ErrorShape::kOllama},
    {"/api/show", nullptr, work_answer<ollama_show>, false, ErrorShape::kOllama},
    {"/api/tags", get_ollama_tags, nullptr, false, ErrorShape::kOllama},
    {"/api/ps", get_ollama_ps, nullptr, false, ErrorShape::kOllama},
    {"/api/version", get_ollama_version, nullptr, false, ErrorShape::kOllama},
    {"/v1/embeddings", nullptr, post_generation<Endpoint::kEmbedding>},
    {"/v1/rerank", nullptr, post_generation<Endpoint::kRerank>},
    {"/v2/rerank", nullptr, post_generation<Endpoint::kCohereRerank>, false, ErrorShape::kCohere},
    {"/v1/models", get_models, nullptr},
    {"/v1/models/:name", get_model, nullptr},
    // "/completions" is OpenAI's, with and without /v1.
    {"/completion", nullptr, post_generation<Endpoint::kLlamaCompletion>, false,
     ErrorShape::kLlama},
    {"/infill", nullptr, post_generation<Endpoint::kLlamaInfill>, false, ErrorShape::kLlama},
    {"/props", get_llama_props, nullptr, false, ErrorShape::kLlama},
    {"/tokenize", nullptr, work_answer<tokenize>},
    {"/detokenize", nullptr, work_answer<detokenize>},
    {"/apply-template", nullptr, work_answer<apply_template>},
    {"/health", get_health, nullptr, true},
    // Not ready while it drains; before the model is there nothing answers at all.
    {"/ready", get_health, nullptr, true},
    {"/load", get_load, nullptr},
    {"/version", get_version, nullptr},
    {"/metrics", get_metrics, nullptr},
    {"/events", nullptr, nullptr},
};

// A path that is no route, with those that may have been meant.
ApiError unknown_path(const HttpHead& head) {
  std::vector<std::string> known;
  for (const Route& route : kRoutes)
    if (!has_names(route)) known.emplace_back(bare_path(route.path));
  const std::string_view path = path_of(head.target).substr(0, 100);
  const bool by_others = find_route(head.target, "GET") != nullptr;
  std::string message =
      fmt::format("there is no {}{}; ", by_others ? head.method + ' ' : std::string(), path);
  std::vector<std::string_view> near;
  for (const std::string& name : near_matches(bare_path(head.target), known))
    near.push_back(find_route(name, "GET")->path);
  message += near.empty() ? "expected a route that docs/api.md lists, such as "
                            "/v1/chat/completions, /v1/models or /health"
                          : fmt::format("did you mean {}", fmt::join(near, ", "));
  return error_of(404, "unknown_path", std::move(message));
}

}  // namespace

std::vector<std::string> loopback_names(std::string_view host) {
  std::vector<std::string> names = {"localhost", "127.0.0.1", "[::1]"};
  std::string name(host);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (name.find(':') != std::string::npos) name = "[" + name + "]";
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(std::move(name));
  return names;
}

std::span<const Route> routes() { return kRoutes; }

const Route* find_route(std::string_view target, std::string_view method) {
  const std::string_view path = bare_path(target);
  for (const Route& route : kRoutes) {
    // What stands in the place of a name may be a route of an API that is not served here.
    if (method == "POST" && route.post == nullptr && has_names(route)) continue;
    if (fits(path, bare_path(route.path))) return &route;
  }
  return nullptr;
}

ErrorShape errors_of(const Route* route, std::string_view target) {
  if (route != nullptr) return route->errors;
  const std::string_view path = bare_path(target);
  if (path.starts_with("/api/")) return ErrorShape::kOllama;
  if (path.starts_with("/v2/")) return ErrorShape::kCohere;
  return path.starts_with("/messages/") ? ErrorShape::kMessages : ErrorShape::kOpenAi;
}

std::string_view route_name(const Route* route) {
  return route == nullptr ? std::string_view("unknown") : route->path;
}

std::string methods_of(const Route& route) {
  std::string methods = route.post != nullptr ? "POST" : "GET, HEAD";
  if (route.remove != nullptr) methods += ", DELETE";
  return methods;
}

bool takes_work(const Route& route, std::string_view method) {
  return route.post != nullptr || route.read != nullptr || method == "DELETE";
}

std::optional<ApiError> refuse_head(const HttpHead& head, const ServerState& state) {
  const Route* route = find_route(head.target, head.method);
  if (auto refused = refuse_host(head, state)) return refused;
  // The key comes first: who has none learns nothing but that.
  if (route == nullptr || !route->open) {
    if (auto refused = refuse_key(head, state.options)) return refused;
  }
  if (route == nullptr) return unknown_path(head);
  const bool post = route->post != nullptr;
  const bool allowed = post ? head.method == "POST"
                            : head.method == "GET" || head.method == "HEAD" ||
                                  (head.method == "DELETE" && route->remove != nullptr);
  if (!allowed) {
    ApiError error = error_of(405, "method_not_allowed",
                              fmt::format("{} does not take {}; expected {}", route_name(route),
                                          head.method.substr(0, 20), methods_of(*route)));
    error.allow = methods_of(*route);
    return error;
  }
  if (head.content_length && *head.content_length > state.options.max_body_bytes) {
    return error_of(413, "body_too_large",
                    fmt::format("the body has {} bytes; expected at most {}", *head.content_length,
                                state.options.max_body_bytes));
  }
  if (!post) {
    if (!head.has_body()) return std::nullopt;
    return error_of(
        413, "body_not_expected",
        fmt::format("{} {} takes no body; expected none", head.method, route_name(route)));
  }
  const std::string_view type =
      trimmed(std::string_view(head.content_type).substr(0, head.content_type.find(';')));
  // A web page of another origin can send other types without asking first; not this one. It has no
  // key, and where origins are listed it is held to them.
  const bool guarded = !state.options.asks_for_key() && state.options.cors_origins.empty();
  if (guarded && !same_letters(type, "application/json")) {
    return error_of(
        415, "unsupported_media_type",
        fmt::format("Content-Type is {}; expected application/json (curl: -H "
                    "'Content-Type: application/json')",
                    head.content_type.empty() ? std::string("missing")
                                              : '"' + head.content_type.substr(0, 100) + '"'));
  }
  if (!head.content_encoding.empty() && !same_letters(head.content_encoding, "identity")) {
    return error_of(415, "unsupported_content_encoding",
                    fmt::format("Content-Encoding is \"{}\"; expected none",
                                head.content_encoding.substr(0, 100)));
  }
  if (state.draining) {
    ApiError error = error_of(503, "draining", "the server is about to stop and takes no requests");
    error.retry_after = 5;
    return error;
  }
  return std::nullopt;
}

Outcome<Work> work_on(const Route& route, const WorkOrder& order, std::string_view body,
                      const ServerState& state) {
  const ServerOptions& options = state.options;
  const RequestContext context{state.backend,
                               state.served,
                               options.max_choices,
                               options.max_answer_entries,
                               options.strict_fields,
                               state.dialogs,
                               state.calls,
                               options.reasoning_budget,
                               options.reasoning_budget_message,
                               order.key};
  if (route.post != nullptr) return route.post(body, context);
  return (order.method == "DELETE" ? route.remove : route.read)(order.target, context);
}

bool allows_origin(std::string_view origin, const ServerOptions& options) {
  const std::vector<std::string>& allowed = options.cors_origins;
  return !origin.empty() && std::any_of(allowed.begin(), allowed.end(), [&](const auto& each) {
    return each == "*" || same_letters(each, origin);
  });
}

HttpResponse preflight_response() {
  HttpResponse response;
  response.content_type = "text/plain";
  response.headers = {
      {"Access-Control-Allow-Methods", "GET, HEAD, POST, DELETE, OPTIONS"},
      {"Access-Control-Allow-Headers", "Authorization, Content-Type, X-Request-Id, *"},
      {"Access-Control-Max-Age", "600"},
  };
  return response;
}

std::optional<std::string_view> key_name(const HttpHead& head, const ServerOptions& options) {
  const auto presented = presented_key(head);
  if (!presented) return std::nullopt;
  // All are compared, so that time does not tell which one is near.
  std::optional<std::string_view> name;
  for (const NamedKey& named : options.named_keys)
    if (same_key(*presented, named.key)) name = named.name;
  if (same_key(*presented, options.api_key)) name = std::string_view();
  return name;
}

bool same_key(std::string_view presented, std::string_view expected) {
  if (expected.empty()) return false;
  unsigned difference = presented.size() == expected.size() ? 0U : 1U;
  for (std::size_t i = 0; i < presented.size(); ++i) {
    difference |= static_cast<unsigned char>(presented[i]) ^
                  static_cast<unsigned char>(expected[i % expected.size()]);
  }
  return difference == 0;
}

}  // namespace dovetail::serve
