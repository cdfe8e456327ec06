#include "serve/ollama.h"

#include <fmt/chrono.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "serve/json_input.h"
#include "serve/router.h"

namespace dovetail::serve {
namespace {

constexpr std::string_view kLatest = ":latest";

HttpResponse json_response(const Json& json) {
  HttpResponse response;
  response.body = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  return response;
}

Problem check_name(const Json& body, const RequestContext& context) {
  const char* field = body.contains("model") ? "model" : "name";
  if (!body.contains(field)) return problem(bad_field("model", "is missing"));
  const auto name = read_string(field, body[field]);
  if (!name) return name.error();
  if (is_ollama_name(*name, context.served_name)) return std::nullopt;
  ApiError error;
  error.status = 404;
  error.param = field;
  error.code = "model_not_found";
  error.message = fmt::format("{}: {} is not served here; expected \"{}\"", field,
                              shown(body[field]), context.served_name);
  return error;
}

}  // namespace

std::string ollama_now() {
  const auto now = std::chrono::system_clock::now();
  const auto parts = std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch());
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:06}Z",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(now)),
                     parts.count() % 1'000'000);
}

bool is_ollama_name(std::string_view name, std::string_view served) {
  if (name.ends_with(kLatest) && !served.ends_with(kLatest)) name.remove_suffix(kLatest.size());
  return name == served;
}

HttpResponse get_ollama_tags(std::string_view, const ServerState& state, const HttpCounts&) {
  Json model;
  model["name"] = state.served_name;
  model["model"] = state.served_name;
  model["modified_at"] = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(state.created));
  model["context_length"] = state.backend.model.max_context;
  Json json;
  json["models"] = Json::array({std::move(model)});
  return json_response(json);
}

Outcome<HttpResponse> ollama_show(std::string_view body, const RequestContext& context) {
  const auto json = parse_body(body);
  if (!json) return tl::unexpected<ApiError>(json.error());
  if (auto found = check_name(*json, context)) return tl::unexpected<ApiError>(*std::move(found));
  const ModelInfo& model = context.backend.model;
  Json out;
  out["details"] = Json::object();
  out["model_info"]["general.basename"] = model.name;
  out["model_info"]["general.context_length"] = model.max_context;
  Json& abilities = out["capabilities"] = Json::array({"completion"});
  if (context.backend.dialog) {
    abilities.push_back("tools");
    if (context.backend.dialog->reasoning() != nullptr) abilities.push_back("thinking");
  }
  return json_response(out);
}

std::optional<Outcome<HttpResponse>> ollama_load(Endpoint endpoint, const Json& body,
                                                 const RequestContext& context) {
  const bool chat = endpoint == Endpoint::kOllamaChat;
  const auto said = body.find(chat ? "messages" : "prompt");
  const bool nothing = said == body.end() || said->is_null() || *said == Json("") ||
                       (said->is_array() && said->empty());
  if (!nothing) return std::nullopt;
  if (auto found = check_name(body, context)) return tl::unexpected<ApiError>(*std::move(found));
  Json out;
  out["model"] = context.served_name;
  out["created_at"] = ollama_now();
  if (chat) {
    out["message"] = {{"role", "assistant"}, {"content", ""}};
  } else {
    out["response"] = "";
  }
  out["done"] = true;
  const bool unload = body.contains("keep_alive") && body["keep_alive"] == 0;
  out["done_reason"] = unload ? "unload" : "load";
  return json_response(out);
}

}  // namespace dovetail::serve
