#include "serve/text_routes.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "serve/completion_prompt.h"
#include "serve/request_fields.h"
#include "serve/token_text.h"

namespace dovetail::serve {
namespace {

// Reads the body of a route that generates nothing, which knows these fields; those of a chat go
// into the draft.
Outcome<Json> read_fields(std::string_view body, std::initializer_list<std::string_view> known,
                          Draft& draft) {
  auto json = parse_body(body);
  if (!json) return json;
  constexpr std::string_view kOfChats[] = {"messages", "add_generation_prompt",
                                           "continue_final_message", "chat_template_kwargs",
                                           "tools"};
  for (const auto& [key, value] : json->items()) {
    const bool of_chat =
        std::find(std::begin(kOfChats), std::end(kOfChats), key) != std::end(kOfChats);
    const bool is_known = std::find(known.begin(), known.end(), key) != known.end();
    if (is_known && !of_chat) continue;
    auto found = is_known || key == "model" ? read_field(Endpoint::kChat, key, value, draft)
                                            : draft.unknown.meet(key, {known.begin(), known.end()});
    if (found) return tl::unexpected<ApiError>(*std::move(found));
  }
  return json;
}

HttpResponse response_of(const Json& json, const Draft& draft) {
  HttpResponse response;
  response.body = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (std::string ignored = draft.unknown.text(); !ignored.empty())
    response.headers.emplace_back(kIgnoredHeader, std::move(ignored));
  return response;
}

// As llama.cpp's server shows them: each with its text, or with its bytes where that is a part of a
// character.
Json with_pieces(const Json& ids, const Backend& backend) {
  Json tokens = Json::array();
  for (const Json& id : ids) {
    const std::string bytes = backend.token_bytes(id.get<TokenId>());
    Json& token = tokens.emplace_back();
    token["id"] = id;
    if (is_utf8(bytes)) {
      token["piece"] = bytes;
    } else {
      for (const char c : bytes) token["piece"].push_back(static_cast<unsigned char>(c));
    }
  }
  return tokens;
}

bool has(const Json& body, const char* field) {
  const auto at = body.find(field);
  return at != body.end() && !at->is_null();
}

Outcome<bool> optional_bool(const Json& body, const char* field, bool otherwise) {
  if (!has(body, field)) return otherwise;
  return read_bool(field, body.at(field));
}

}  // namespace

Outcome<HttpResponse> tokenize(std::string_view body, const RequestContext& context) {
  Draft draft(context);
  const auto json =
      read_fields(body,
                  {"content", "prompt", "messages", "add_special", "add_special_tokens",
                   "parse_special", "with_pieces", "add_generation_prompt",
                   "continue_final_message", "chat_template_kwargs", "tools"},
                  draft);
  if (!json) return tl::unexpected<ApiError>(json.error());
  if (has(*json, "content") + has(*json, "prompt") + has(*json, "messages") != 1) {
    return bad_field("content", "expected exactly one of \"content\", \"prompt\" and \"messages\"");
  }
  // llama.cpp's clients send a content, and mean the text alone; vLLM's a prompt, and mean what
  // would be generated for.
  const char* special = has(*json, "add_special_tokens") ? "add_special_tokens" : "add_special";
  const auto add_special = optional_bool(*json, special, !has(*json, "content"));
  if (!add_special) return tl::unexpected<ApiError>(add_special.error());
  const auto parse_special = optional_bool(*json, "parse_special", !has(*json, "messages"));
  if (!parse_special) return tl::unexpected<ApiError>(parse_special.error());
  const auto pieces = optional_bool(*json, "with_pieces", false);
  if (!pieces) return tl::unexpected<ApiError>(pieces.error());

  Json response;
  if (has(*json, "messages")) {
    draft.chat.parse_special = *parse_special;
    const auto prompt = render_chat(draft.chat, context);
    if (!prompt) return tl::unexpected<ApiError>(prompt.error());
    response["tokens"] = encode_prompt(*prompt, context.backend);
  } else {
    const char* field = has(*json, "content") ? "content" : "prompt";
    const auto text = read_string(field, json->at(field));
    if (!text) return tl::unexpected<ApiError>(text.error());
    response["tokens"] = context.backend.encode(*text, *add_special, *parse_special);
  }
  if (*pieces) response["tokens"] = with_pieces(response["tokens"], context.backend);
  response["count"] = response["tokens"].size();
  response["max_model_len"] = context.backend.model.max_context;
  return response_of(response, draft);
}

Outcome<HttpResponse> detokenize(std::string_view body, const RequestContext& context) {
  Draft draft(context);
  const auto json = read_fields(body, {"tokens", "skip_special"}, draft);
  if (!json) return tl::unexpected<ApiError>(json.error());
  if (!has(*json, "tokens")) return bad_field("tokens", "is missing");
  // A token takes at least two bytes of the body, which is bounded.
  const auto ids = read_token_ids("tokens", json->at("tokens"), context.backend.model.vocab_size,
                                  body.size() / 2);
  if (!ids) return tl::unexpected<ApiError>(ids.error());
  const auto skip_special = optional_bool(*json, "skip_special", false);
  if (!skip_special) return tl::unexpected<ApiError>(skip_special.error());

  Json response;
  response["content"] = context.backend.decode(*ids, *skip_special);
  // As vLLM names it.
  response["prompt"] = response["content"];
  return response_of(response, draft);
}

namespace {

// `json`, with how many tokens the prompt of a body has that would be generated for.
Outcome<HttpResponse> counted(Endpoint endpoint, std::string_view body,
                              const RequestContext& context, Json json) {
  const auto generation = read_generation(endpoint, body, context);
  if (!generation) return tl::unexpected<ApiError>(generation.error());
  json["input_tokens"] = generation->requests.front().prompt.size();
  HttpResponse response;
  response.body = json.dump();
  if (std::string ignored = generation->ignored.text(); !ignored.empty())
    response.headers.emplace_back(kIgnoredHeader, std::move(ignored));
  return response;
}

}  // namespace

Outcome<HttpResponse> count_tokens(std::string_view body, const RequestContext& context) {
  return counted(Endpoint::kMessages, body, context, Json::object());
}

Outcome<HttpResponse> count_response_tokens(std::string_view body, const RequestContext& context) {
  return counted(Endpoint::kResponses, body, context, {{"object", "response.input_tokens"}});
}

Outcome<HttpResponse> apply_template(std::string_view body, const RequestContext& context) {
  Draft draft(context);
  const auto json = read_fields(body,
                                {"messages", "add_generation_prompt", "continue_final_message",
                                 "chat_template_kwargs", "tools"},
                                draft);
  if (!json) return tl::unexpected<ApiError>(json.error());
  if (draft.chat.messages.empty()) return bad_field("messages", "is missing");
  const auto prompt = render_chat(draft.chat, context);
  if (!prompt) return tl::unexpected<ApiError>(prompt.error());
  Json response;
  response["prompt"] = prompt->text.text;
  return response_of(response, draft);
}

}  // namespace dovetail::serve
