#include "serve/router.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

namespace dovetail::serve {
namespace {

constexpr std::string_view kModelPrefix = "/v1/models/";

struct Path {
  std::string_view path;
  Route route;
};
constexpr Path kPaths[] = {
    {"/health", Route::kHealth},
    {"/metrics", Route::kMetrics},
    {"/v1/models", Route::kModels},
    {"/v1/completions", Route::kCompletions},
    {"/v1/chat/completions", Route::kChatCompletions},
    {"/v1/embeddings", Route::kEmbeddings},
    {"/v1/rerank", Route::kRerank},
    {"/tokenize", Route::kTokenize},
    {"/detokenize", Route::kDetokenize},
};

std::string_view path_of(std::string_view target) { return target.substr(0, target.find('?')); }

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

// "%2F" and the like become what they stand for; what is malformed stays.
std::string percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    unsigned value = 0;
    if (text[at] == '%' && at + 2 < text.size()) {
      const char* digits = text.data() + at + 1;
      const auto [end, failure] = std::from_chars(digits, digits + 2, value, 16);
      if (failure == std::errc() && end == digits + 2) {
        out += static_cast<char>(value);
        at += 2;
        continue;
      }
    }
    out += text[at];
  }
  return out;
}

ApiError error_of(int status, std::string code, std::string message) {
  ApiError error;
  error.status = status;
  error.code = std::move(code);
  error.message = std::move(message);
  return error;
}

std::optional<ApiError> refuse_key(std::string_view authorization, std::string_view key) {
  if (key.empty()) return std::nullopt;
  const std::size_t space = authorization.find(' ');
  if (space == std::string_view::npos || !same_letters(authorization.substr(0, space), "Bearer")) {
    return error_of(401, "missing_api_key",
                    "no API key given; expected the header \"Authorization: Bearer KEY\"");
  }
  if (!same_key(trimmed(authorization.substr(space)), key)) {
    return error_of(401, "invalid_api_key", "the API key is not the server's");
  }
  return std::nullopt;
}

std::optional<ApiError> refuse_host(const HttpHead& head, const ServerState& state) {
  const std::vector<std::string>& names = state.host_names;
  // A client of HTTP/1.0 may name none; web pages cannot make one send that.
  if (names.empty() || !head.host) return std::nullopt;
  if (std::find(names.begin(), names.end(), *head.host) != names.end()) return std::nullopt;
  return error_of(403, "host_not_allowed",
                  fmt::format("Host is \"{}\"; without an API key this server answers to {} only",
                              head.host->substr(0, 100), fmt::join(names, ", ")));
}

Json model_json(const ServerState& state) {
  const SamplingParams& sampling = state.backend.model.sampling;
  Json json;
  json["id"] = state.served_name;
  json["object"] = "model";
  json["created"] = state.created;
  json["owned_by"] = "dovetail";
  json["max_model_len"] = state.backend.model.max_context;
  json["vocab_size"] = state.backend.model.vocab_size;
  json["sampling_defaults"] = {{"temperature", sampling.temperature},
                               {"top_k", sampling.top_k},
                               {"top_p", sampling.top_p},
                               {"min_p", sampling.min_p},
                               {"repetition_penalty", sampling.repetition_penalty}};
  return json;
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
  return response;
}

// Of a route that generates.
Endpoint endpoint_of(Route route) {
  switch (route) {
    case Route::kChatCompletions:
      return Endpoint::kChat;
    case Route::kEmbeddings:
      return Endpoint::kEmbedding;
    case Route::kRerank:
      return Endpoint::kRerank;
    default:
      return Endpoint::kCompletion;
  }
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

Route route_of(std::string_view target) {
  const std::string_view path = path_of(target);
  for (const Path& known : kPaths) {
    if (known.path == path) return known.route;
  }
  if (path.substr(0, kModelPrefix.size()) == kModelPrefix && path.size() > kModelPrefix.size()) {
    return Route::kModel;
  }
  return Route::kUnknown;
}

std::string_view route_name(Route route) {
  if (route == Route::kModel) return "/v1/models/:name";
  for (const Path& known : kPaths) {
    if (known.route == route) return known.path;
  }
  return "unknown";
}

bool takes_body(Route route) {
  switch (route) {
    case Route::kCompletions:
    case Route::kChatCompletions:
    case Route::kEmbeddings:
    case Route::kRerank:
    case Route::kTokenize:
    case Route::kDetokenize:
      return true;
    case Route::kUnknown:
    case Route::kHealth:
    case Route::kMetrics:
    case Route::kModels:
    case Route::kModel:
      return false;
  }
  return false;
}

std::optional<ApiError> refuse_head(const HttpHead& head, const ServerState& state) {
  const Route route = route_of(head.target);
  if (auto refused = refuse_host(head, state)) return refused;
  // The key comes first: who has none learns nothing but that. /health is for machines without one.
  if (route != Route::kHealth) {
    if (auto refused = refuse_key(head.authorization, state.options.api_key)) return refused;
  }
  if (route == Route::kUnknown) {
    return error_of(
        404, "unknown_path",
        fmt::format("there is no {}; expected /v1/completions, /v1/chat/completions, "
                    "/v1/embeddings, /v1/rerank, /v1/models, /tokenize, /detokenize, /health or "
                    "/metrics",
                    path_of(head.target).substr(0, 100)));
  }
  const bool post = takes_body(route);
  if (post ? head.method != "POST" : head.method != "GET" && head.method != "HEAD") {
    ApiError error = error_of(405, "method_not_allowed",
                              fmt::format("{} does not take {}; expected {}", route_name(route),
                                          head.method.substr(0, 20), post ? "POST" : "GET"));
    error.allow = post ? "POST" : "GET, HEAD";
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
  if (!same_letters(type, "application/json")) {
    // A web page of another origin can send other types without asking first; not this one.
    return error_of(415, "unsupported_media_type",
                    fmt::format("Content-Type is \"{}\"; expected application/json",
                                head.content_type.substr(0, 100)));
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

HttpResponse respond_to_get(Route route, std::string_view target, const ServerState& state,
                            const HttpCounts& counts) {
  HttpResponse response;
  switch (route) {
    case Route::kHealth:
      return health(state);
    case Route::kMetrics:
      response.content_type = "text/plain; version=0.0.4; charset=utf-8";
      response.body = metrics_text(state.backend.stats(), counts);
      return response;
    case Route::kModels: {
      Json json;
      json["object"] = "list";
      json["data"] = Json::array();
      json["data"].push_back(model_json(state));
      response.body = json.dump(-1, ' ', false, Json::error_handler_t::replace);
      return response;
    }
    case Route::kModel: {
      const std::string name = percent_decoded(path_of(target).substr(kModelPrefix.size()));
      if (name != state.served_name) {
        ApiError error = error_of(404, "model_not_found",
                                  fmt::format("model: \"{}\" is not served here; expected \"{}\"",
                                              name.substr(0, 100), state.served_name));
        error.param = "model";
        return error_response(error);
      }
      response.body = model_json(state).dump(-1, ' ', false, Json::error_handler_t::replace);
      return response;
    }
    case Route::kUnknown:
    case Route::kCompletions:
    case Route::kChatCompletions:
    case Route::kEmbeddings:
    case Route::kRerank:
    case Route::kTokenize:
    case Route::kDetokenize:
      break;
  }
  return error_response(error_of(500, "internal", "a route without an answer"));
}

Outcome<Work> work_on(Route route, std::string_view body, const ServerState& state) {
  const RequestContext context{state.backend, state.served_name, state.options.max_choices,
                               state.options.max_answer_entries};
  const auto response_of = [](Outcome<std::string> text) -> Outcome<Work> {
    if (!text) return tl::unexpected<ApiError>(std::move(text.error()));
    HttpResponse response;
    response.body = std::move(*text);
    return response;
  };
  if (route == Route::kTokenize) return response_of(tokenize(body, context));
  if (route == Route::kDetokenize) return response_of(detokenize(body, context));
  auto generation = read_generation(endpoint_of(route), body, context);
  if (!generation) return tl::unexpected<ApiError>(std::move(generation.error()));
  return Work(std::move(*generation));
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
