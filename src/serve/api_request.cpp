#include "serve/api_request.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "serve/request_fields.h"

namespace dovetail::serve {
namespace {

constexpr std::int32_t kDefaultCompletionTokens = 16;  // as OpenAI's API defines it

// What concerns several fields at once.
Problem settle(Endpoint endpoint, Draft& draft) {
  Request& request = draft.request;
  if (endpoint == Endpoint::kChat) {
    if (draft.chat.messages.empty()) return problem(bad_field("messages", "is missing"));
    if (draft.top_logprobs && !draft.logprobs) {
      return problem(bad_field("top_logprobs", "is allowed only with \"logprobs\": true"));
    }
    if (draft.logprobs) request.logprobs = draft.top_logprobs.value_or(0);
    // What has no limit says no more than what is not there.
    if (draft.max_tokens == 0) draft.max_tokens.reset();
    if (draft.max_completion_tokens == 0) draft.max_completion_tokens.reset();
    if (draft.max_tokens && draft.max_completion_tokens &&
        *draft.max_tokens != *draft.max_completion_tokens) {
      return problem(bad_field("max_tokens",
                               "{} contradicts max_completion_tokens {}; expected one of them",
                               *draft.max_tokens, *draft.max_completion_tokens));
    }
    request.max_tokens =
        draft.max_completion_tokens ? *draft.max_completion_tokens : draft.max_tokens.value_or(0);
  } else if (endpoint == Endpoint::kEmbedding) {
    if (draft.prompts.empty()) return problem(bad_field("input", "is missing"));
    request.embed = true;
    request.max_tokens = 1;
    return std::nullopt;
  } else if (endpoint == Endpoint::kRerank) {
    if (draft.query.empty()) return problem(bad_field("query", "is missing or empty"));
    Ranking& ranking = draft.ranking;
    if (ranking.documents.empty()) return problem(bad_field("documents", "is missing"));
    const std::size_t count = ranking.documents.size();
    ranking.top = ranking.top == 0 ? count : std::min(ranking.top, count);
    request.rank = true;
    request.max_tokens = 1;
    return std::nullopt;
  } else {
    if (draft.prompts.empty()) return problem(bad_field("prompt", "is missing"));
    request.max_tokens = draft.max_tokens.value_or(kDefaultCompletionTokens);
  }
  const std::size_t prompts = endpoint == Endpoint::kChat ? 1 : draft.prompts.size();
  if (prompts * static_cast<std::size_t>(request.n) > draft.context.max_choices) {
    return problem(bad_field("n",
                             "{} prompts of {} choices are too many; expected at most {} choices",
                             prompts, request.n, draft.context.max_choices));
  }
  if (request.max_tokens > 0 && request.min_tokens > request.max_tokens) {
    return problem(bad_field("min_tokens", "{} is more than max_tokens; expected at most {}",
                             request.min_tokens, request.max_tokens));
  }
  return std::nullopt;
}

// The engine's request for one prompt. `field` is the prompt's name in messages.
Outcome<Request> with_prompt(const Draft& draft, std::string_view field,
                             std::vector<TokenId> prompt) {
  const std::uint32_t context = draft.context.backend.model.max_context;
  if (prompt.empty()) return bad_field(field, "is empty; expected at least one token");
  if (prompt.size() >= context) {
    auto error =
        bad_field(field, "{} tokens leave no room in the context of {}; expected at most {}",
                  prompt.size(), context, context - 1);
    error.value().code = "context_length_exceeded";
    return error;
  }
  Request request = draft.request;
  // More than there is room for ends at the context's end, with finish_reason "length".
  const auto capacity = static_cast<std::int32_t>(context - prompt.size());
  if (request.min_tokens > capacity) {
    return bad_field("min_tokens",
                     "{} do not fit behind a prompt of {} tokens; expected at most {}",
                     request.min_tokens, prompt.size(), capacity);
  }
  request.max_tokens = request.max_tokens == 0 ? capacity : std::min(request.max_tokens, capacity);
  request.prompt = std::move(prompt);
  return request;
}

// A response that is not streamed is held until its end.
Problem check_size(const Generation& generation, std::uint64_t most) {
  if (generation.stream) return std::nullopt;
  std::uint64_t entries = 0;
  std::uint64_t choices = 0;
  for (const Request& request : generation.requests) {
    const auto n = static_cast<std::uint64_t>(request.n);
    const auto each = static_cast<std::uint64_t>(1 + std::max(request.logprobs, 0));
    entries += n * static_cast<std::uint64_t>(request.max_tokens) * each;
    choices += n;
  }
  if (entries <= most) return std::nullopt;
  const Request& first = generation.requests.front();
  return problem(
      bad_field("max_tokens",
                "{} choices of up to {} tokens, with {} logprobs each, are {} entries of "
                "one answer; expected at most {}, or \"stream\": true",
                choices, first.max_tokens, std::max(first.logprobs, 0), entries, most));
}

// A request for each document, behind the query.
Problem add_documents(Draft& draft, Generation& generation) {
  for (std::size_t i = 0; i < draft.ranking.documents.size(); ++i) {
    auto pair = draft.context.backend.encode_pair(draft.query, draft.ranking.documents[i]);
    if (!pair) return problem(bad_field("model", "{}", pair.error().message));
    auto request = with_prompt(draft, fmt::format("documents[{}]", i), std::move(pair->first));
    if (!request) return std::move(request.error());
    request->second = static_cast<std::uint32_t>(pair->second);
    generation.requests.push_back(*std::move(request));
  }
  generation.ranking = std::move(draft.ranking);
  return std::nullopt;
}

// Reads the body of a route that generates nothing, which knows these fields; those of a chat go
// into the draft.
Outcome<Json> read_fields(std::string_view body, std::initializer_list<std::string_view> known,
                          Draft& draft) {
  auto json = parse_body(body);
  if (!json) return json;
  constexpr std::string_view kOfChats[] = {"messages", "add_generation_prompt",
                                           "continue_final_message", "chat_template_kwargs"};
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

bool has(const Json& body, const char* field) {
  const auto at = body.find(field);
  return at != body.end() && !at->is_null();
}

Outcome<bool> optional_bool(const Json& body, const char* field, bool otherwise) {
  if (!has(body, field)) return otherwise;
  return read_bool(field, body.at(field));
}

}  // namespace

Outcome<Generation> read_generation(Endpoint endpoint, std::string_view body,
                                    const RequestContext& context) {
  const auto json = parse_body(body);
  if (!json) return tl::unexpected<ApiError>(json.error());

  Draft draft(context);
  draft.request.sampling = context.backend.model.sampling;
  for (const auto& [key, value] : json->items()) {
    if (auto found = read_field(endpoint, key, value, draft)) {
      return tl::unexpected<ApiError>(std::move(*found));
    }
  }
  if (auto found = settle(endpoint, draft)) return tl::unexpected<ApiError>(std::move(*found));

  Generation generation;
  if (draft.format) {
    if (auto known = known_outcome(*draft.format, context.backend)) {
      if (!*known) return tl::unexpected<ApiError>(std::move(known->error()));
      draft.request.grammar = **std::move(known);
    } else {
      generation.format = std::move(draft.format);
    }
  }
  generation.endpoint = endpoint;
  generation.stream = draft.stream;
  generation.include_usage = draft.include_usage;
  generation.base64 = draft.base64;
  generation.ignored = draft.unknown.text();
  if (endpoint == Endpoint::kChat) {
    const auto text = render_chat(draft.chat, context.backend);
    if (!text) return tl::unexpected<ApiError>(text.error());
    // The template itself writes BOS where the model wants one.
    auto request = with_prompt(draft, "messages", context.backend.encode_chat(*text));
    if (!request) return tl::unexpected<ApiError>(std::move(request.error()));
    generation.requests.push_back(std::move(*request));
    if (auto found = check_size(generation, context.max_answer_entries)) {
      return tl::unexpected<ApiError>(*std::move(found));
    }
    return generation;
  }
  if (endpoint == Endpoint::kRerank) {
    if (auto found = add_documents(draft, generation))
      return tl::unexpected<ApiError>(*std::move(found));
    return generation;
  }
  for (std::size_t i = 0; i < draft.prompts.size(); ++i) {
    auto& prompt = draft.prompts[i];
    auto* ids = std::get_if<std::vector<TokenId>>(&prompt);
    auto tokens = ids != nullptr ? std::move(*ids)
                                 : context.backend.encode(std::get<std::string>(prompt), true,
                                                          endpoint != Endpoint::kEmbedding);
    const std::string_view name = endpoint == Endpoint::kEmbedding ? "input" : "prompt";
    const std::string field =
        draft.prompts.size() == 1 ? std::string(name) : fmt::format("{}[{}]", name, i);
    auto request = with_prompt(draft, field, std::move(tokens));
    if (!request) return tl::unexpected<ApiError>(std::move(request.error()));
    generation.requests.push_back(std::move(*request));
  }
  if (auto found = check_size(generation, context.max_answer_entries)) {
    return tl::unexpected<ApiError>(*std::move(found));
  }
  return generation;
}

Problem compile_format(Generation& generation, const Backend& backend,
                       const std::atomic<bool>& stop) {
  if (!generation.format) return std::nullopt;
  const auto grammar = compile(*generation.format, backend, stop);
  if (!grammar) return grammar.error();
  for (Request& request : generation.requests) request.grammar = *grammar;
  generation.format.reset();
  return std::nullopt;
}

Outcome<HttpResponse> tokenize(std::string_view body, const RequestContext& context) {
  Draft draft(context);
  const auto json =
      read_fields(body,
                  {"content", "prompt", "messages", "add_special", "parse_special",
                   "add_generation_prompt", "continue_final_message", "chat_template_kwargs"},
                  draft);
  if (!json) return tl::unexpected<ApiError>(json.error());
  if (has(*json, "content") + has(*json, "prompt") + has(*json, "messages") != 1) {
    return bad_field("content", "expected exactly one of \"content\", \"prompt\" and \"messages\"");
  }
  const auto add_special = optional_bool(*json, "add_special", true);
  if (!add_special) return tl::unexpected<ApiError>(add_special.error());
  const auto parse_special = optional_bool(*json, "parse_special", !has(*json, "messages"));
  if (!parse_special) return tl::unexpected<ApiError>(parse_special.error());

  Json response;
  if (has(*json, "messages")) {
    draft.chat.parse_special = *parse_special;
    const auto text = render_chat(draft.chat, context.backend);
    if (!text) return tl::unexpected<ApiError>(text.error());
    response["tokens"] = context.backend.encode_chat(*text);
  } else {
    const char* field = has(*json, "content") ? "content" : "prompt";
    const auto text = read_string(field, json->at(field));
    if (!text) return tl::unexpected<ApiError>(text.error());
    response["tokens"] = context.backend.encode(*text, *add_special, *parse_special);
  }
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

Outcome<HttpResponse> apply_template(std::string_view body, const RequestContext& context) {
  Draft draft(context);
  const auto json = read_fields(
      body, {"messages", "add_generation_prompt", "continue_final_message", "chat_template_kwargs"},
      draft);
  if (!json) return tl::unexpected<ApiError>(json.error());
  if (draft.chat.messages.empty()) return bad_field("messages", "is missing");
  const auto text = render_chat(draft.chat, context.backend);
  if (!text) return tl::unexpected<ApiError>(text.error());
  Json response;
  response["prompt"] = text->text;
  return response_of(response, draft);
}

}  // namespace dovetail::serve
