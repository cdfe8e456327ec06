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

}  // namespace

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
  const char* field = json->contains("model") ? "model" : "name";
  if (!json->contains(field)) return bad_field("model", "is missing");
  const auto name = read_string(field, (*json)[field]);
  if (!name) return tl::unexpected<ApiError>(name.error());
  if (!is_ollama_name(*name, context.served_name)) {
    ApiError error;
    error.status = 404;
    error.param = field;
    error.code = "model_not_found";
    error.message = fmt::format("{}: {} is not served here; expected \"{}\"", field,
                                shown((*json)[field]), context.served_name);
    return tl::unexpected<ApiError>(std::move(error));
  }
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

}  // namespace dovetail::serve
