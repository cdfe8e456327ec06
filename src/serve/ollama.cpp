#include "serve/ollama.h"

#include <fmt/chrono.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "serve/json_input.h"
#include "serve/model_facts.h"
#include "serve/router.h"

namespace dovetail::serve {
namespace {

// When a loaded model leaves, which none does: Ollama's clients take a time so far away as
// "forever".
constexpr const char* kNever = "2999-01-01T00:00:00Z";

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
  if (context.served.has(*name)) return std::nullopt;
  return context.served.refuse(field, shown(body[field]));
}

// What is not known of the model is left out of its descriptions.
template <class T>
void set_known(Json& to, const std::string& key, const T& value) {
  if (value != T()) to[key] = value;
}

std::string time_text(std::int64_t seconds) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(static_cast<std::time_t>(seconds)));
}

Json details_of(const ModelFacts& facts) {
  Json json;
  json["parent_model"] = "";
  set_known(json, "format", facts.format);
  set_known(json, "family", facts.family);
  if (!facts.family.empty()) json["families"] = Json::array({facts.family});
  if (facts.parameters > 0) json["parameter_size"] = parameter_size(facts.parameters);
  set_known(json, "quantization_level", facts.quantization);
  return json;
}

// The model under one of its names, as lists have it.
Json listed(const std::string& name, const ModelInfo& model) {
  const ModelFacts& facts = model.facts;
  Json json;
  // Open WebUI looks for what it asks with a tag among these.
  json["name"] = with_tag(name);
  json["model"] = with_tag(name);
  json["size"] = facts.file_bytes;
  // Clients show its first digits, so there is always one.
  json["digest"] = facts.digest.empty() ? model_digest(model.name, facts, {}) : facts.digest;
  json["details"] = details_of(facts);
  return json;
}

template <class Fill>
HttpResponse list_of(const ServerState& state, Fill fill) {
  Json json;
  json["models"] = Json::array();
  for (const std::string& name : state.served.all()) {
    Json model = listed(name, state.backend.model);
    fill(model);
    json["models"].push_back(std::move(model));
  }
  return json_response(json);
}

// Named as GGUF's metadata names it.
Json model_info(const ModelInfo& model) {
  const ModelFacts& facts = model.facts;
  Json json = Json::object();
  set_known(json, "general.architecture", facts.family);
  json["general.basename"] = model.name;
  set_known(json, "general.parameter_count", facts.parameters);
  if (facts.family.empty()) return json;
  const auto set = [&](std::string_view key, std::uint32_t value) {
    set_known(json, fmt::format("{}.{}", facts.family, key), value);
  };
  // What requests may have here: clients measure their prompts by it.
  set("context_length", model.max_context);
  set("embedding_length", facts.hidden_size);
  set("block_count", facts.layers);
  set("feed_forward_length", facts.feed_forward);
  set("attention.head_count", facts.heads);
  set("attention.head_count_kv", facts.kv_heads);
  set("vocab_size", model.vocab_size);
  return json;
}

// A row: what clients look for, and whether the model has it.
struct Capability {
  const char* name;
  bool (*has)(const Backend& backend);
};
constexpr Capability kCapabilities[] = {
    {"completion", [](const Backend& b) { return b.model.facts.generates; }},
    {"embedding", [](const Backend& b) { return b.model.facts.embeds; }},
    {"tools", [](const Backend& b) { return b.dialog.has_value(); }},
    {"insert", [](const Backend& b) { return static_cast<bool>(b.fill_in_middle); }},
    {"thinking", [](const Backend& b) { return b.dialog && b.dialog->reasoning() != nullptr; }},
};

}  // namespace

std::string ollama_now() {
  const auto now = std::chrono::system_clock::now();
  const auto parts = std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch());
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:06}Z",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(now)),
                     parts.count() % 1'000'000);
}

HttpResponse get_ollama_version(std::string_view, const ServerState&, const HttpCounts&) {
  return json_response(Json{{"version", kOllamaApiLevel}});
}

HttpResponse get_ollama_tags(std::string_view, const ServerState& state, const HttpCounts&) {
  const std::int64_t modified = state.backend.model.facts.modified;
  const std::string when = time_text(modified > 0 ? modified : state.created);
  return list_of(state, [&](Json& model) { model["modified_at"] = when; });
}

HttpResponse get_ollama_ps(std::string_view, const ServerState& state, const HttpCounts&) {
  return list_of(state, [&](Json& model) {
    model["expires_at"] = kNever;
    model["size_vram"] = 0;
    model["context_length"] = state.backend.model.max_context;
  });
}

Outcome<HttpResponse> ollama_show(std::string_view body, const RequestContext& context) {
  const auto json = parse_body(body);
  if (!json) return tl::unexpected<ApiError>(json.error());
  if (auto found = check_name(*json, context)) return tl::unexpected<ApiError>(*std::move(found));
  const ModelInfo& model = context.backend.model;
  const ModelFacts& facts = model.facts;
  Json out;
  set_known(out, "template", facts.chat_template);
  out["details"] = details_of(facts);
  out["model_info"] = model_info(model);
  Json& capabilities = out["capabilities"] = Json::array();
  for (const Capability& each : kCapabilities)
    if (each.has(context.backend)) capabilities.push_back(each.name);
  if (facts.modified > 0) out["modified_at"] = time_text(facts.modified);
  return json_response(out);
}

std::optional<Outcome<HttpResponse>> ollama_load(Endpoint endpoint, const Json& body,
                                                 const RequestContext& context) {
  struct Row {
    Endpoint endpoint;
    const char* says;  // the field that says something to the model
    const char* answer;
    std::string_view nothing;  // JSON
  };
  constexpr Row kRows[] = {
      {Endpoint::kOllamaChat, "messages", "message", R"({"role":"assistant","content":""})"},
      {Endpoint::kOllamaGenerate, "prompt", "response", R"("")"},
      {Endpoint::kOllamaEmbed, "input", "embeddings", "[]"},
      {Endpoint::kOllamaEmbedding, "prompt", "embedding", "[]"},
  };
  const Row* row = std::find_if(std::begin(kRows), std::end(kRows),
                                [endpoint](const Row& each) { return each.endpoint == endpoint; });
  if (row == std::end(kRows)) return std::nullopt;
  const auto said = body.find(row->says);
  const auto suffix = body.find("suffix");
  const bool fills = endpoint == Endpoint::kOllamaGenerate && suffix != body.end() &&
                     !suffix->is_null() && *suffix != Json("");
  const bool nothing = !fills && (said == body.end() || said->is_null() || *said == Json("") ||
                                  (said->is_array() && said->empty()));
  if (!nothing) return std::nullopt;
  if (auto found = check_name(body, context)) return tl::unexpected<ApiError>(*std::move(found));
  Json out;
  const bool embeds = endpoint == Endpoint::kOllamaEmbed || endpoint == Endpoint::kOllamaEmbedding;
  if (endpoint != Endpoint::kOllamaEmbedding) out["model"] = context.served.shown();
  if (!embeds) out["created_at"] = ollama_now();
  out[row->answer] = Json::parse(row->nothing);
  if (embeds) return json_response(out);
  out["done"] = true;
  const bool unload = body.contains("keep_alive") && body["keep_alive"] == 0;
  out["done_reason"] = unload ? "unload" : "load";
  return json_response(out);
}

}  // namespace dovetail::serve
