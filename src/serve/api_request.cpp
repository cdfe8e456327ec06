#include "serve/api_request.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "dialog/reasoning_budget.h"
#include "grammar/token_masks.h"
#include "serve/chat_truncation.h"
#include "serve/completion_prompt.h"
#include "serve/dialog_store.h"
#include "serve/kept_calls.h"
#include "serve/llama.h"
#include "serve/request_fields.h"

namespace dovetail::serve {
namespace {

constexpr std::int32_t kDefaultCompletionTokens = 16;  // as OpenAI's API defines it
constexpr std::size_t kCohereDocumentTokens = 4096;    // as Cohere's does

// No reasoning is a budget of none, too: not all templates have a switch.
void settle_reasoning(Draft& draft) {
  std::int32_t budget = draft.reasoning_budget.value_or(draft.context.reasoning_budget);
  if (draft.reasons == false) budget = 0;
  draft.reasoning_budget = budget;
  if (!draft.reasoning_budget_message)
    draft.reasoning_budget_message = std::string(draft.context.reasoning_budget_message);
  draft.chat.reasoning_variables.update(dialog::reasoning_variables(draft.reasons, budget));
}

// Puts the messages of the response from which it goes on before its own.
Problem go_on_from_previous(Draft& draft) {
  Chat& chat = draft.chat;
  if (chat.previous.empty()) return std::nullopt;
  auto before = draft.context.dialogs != nullptr
                    ? draft.context.dialogs->messages(chat.previous, draft.context.key)
                    : std::nullopt;
  if (!before) {
    auto error = bad_field("previous_response_id",
                           "{} is not kept here; expected the id of a response of this server",
                           shown(Json(chat.previous)));
    error.value().status = 404;
    error.value().code = "previous_response_not_found";
    return problem(std::move(error));
  }
  for (Json& message : chat.messages) before->push_back(std::move(message));
  chat.messages = *std::move(before);
  return std::nullopt;
}

Problem settle_logprobs(Endpoint endpoint, Draft& draft) {
  const bool of_response = endpoint == Endpoint::kResponses;
  if (draft.top_logprobs.value_or(0) > 0 && !draft.logprobs) {
    return problem(bad_field(
        "top_logprobs", "is allowed only with {}",
        of_response ? "\"include\": [\"message.output_text.logprobs\"]" : "\"logprobs\": true"));
  }
  if (draft.logprobs) draft.request.logprobs = draft.top_logprobs.value_or(0);
  return std::nullopt;
}

// The field that says what a dialog's messages are.
std::string_view dialog_field(Endpoint endpoint) {
  if (endpoint == Endpoint::kResponses) return "input";
  return endpoint == Endpoint::kOllamaGenerate ? "prompt" : "messages";
}

// What concerns several fields at once.
Problem settle(Endpoint endpoint, Draft& draft) {
  Request& request = draft.request;
  if (is_dialog(endpoint, draft)) {
    if (endpoint == Endpoint::kOllamaGenerate) {
      for (const auto& prompt : draft.prompts) {
        draft.chat.messages.push_back(
            {{"role", "user"}, {"content", std::get<std::string>(prompt)}});
      }
    }
    if (draft.chat.messages.empty())
      return problem(bad_field(dialog_field(endpoint), "is missing"));
    if (auto found = go_on_from_previous(draft)) return found;
    if (endpoint == Endpoint::kResponses) draft.chat.kept = draft.chat.messages;
    if (!draft.chat.system.empty()) {
      const Json system = {{"role", "system"}, {"content", draft.chat.system}};
      draft.chat.messages.insert(draft.chat.messages.begin(), system);
    }
    if (auto found = settle_tools(draft.chat)) return found;
    settle_reasoning(draft);
    if (auto found = settle_logprobs(endpoint, draft)) return found;
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
  } else if (endpoint == Endpoint::kEmbedding || endpoint == Endpoint::kOllamaEmbed ||
             endpoint == Endpoint::kOllamaEmbedding) {
    const char* field = endpoint == Endpoint::kOllamaEmbedding ? "prompt" : "input";
    if (draft.prompts.empty()) return problem(bad_field(field, "is missing"));
    request.embed = true;
    request.max_tokens = 1;
    return std::nullopt;
  } else if (ranks(endpoint)) {
    if (draft.query.empty()) return problem(bad_field("query", "is missing or empty"));
    Ranking& ranking = draft.ranking;
    if (ranking.documents.empty()) return problem(bad_field("documents", "is missing"));
    const std::size_t count = ranking.documents.size();
    ranking.top = ranking.top == 0 ? count : std::min(ranking.top, count);
    request.rank = true;
    request.max_tokens = 1;
    return std::nullopt;
  } else {
    if (is_llama(endpoint)) {
      if (auto found = settle_llama(endpoint, draft)) return found;
    }
    if (draft.prompts.empty()) return problem(bad_field("prompt", "is missing"));
    const std::int32_t otherwise = endpoint == Endpoint::kCompletion ? kDefaultCompletionTokens : 0;
    request.max_tokens = draft.max_tokens.value_or(otherwise);
    if (auto found = settle_logprobs(endpoint, draft)) return found;
    if (auto found = settle_completion(draft)) return found;
  }
  settle_samplers(draft);
  const std::size_t prompts = is_dialog(endpoint, draft) ? 1 : draft.prompts.size();
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
    // Clients that shorten a prompt and try again know Anthropic's words and OpenAI's.
    auto error = bad_field(field,
                           "prompt is too long: {} tokens > {} maximum; this model's maximum "
                           "context length is {} tokens",
                           prompt.size(), context - 1, context);
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
  if (auto found = check_prompt_entries(generation, most)) return found;
  if (generation.stream) return std::nullopt;
  std::uint64_t entries = 0;
  std::uint64_t choices = 0;
  for (const Request& request : generation.requests) {
    const auto n = static_cast<std::uint64_t>(request.n);
    const auto each = static_cast<std::uint64_t>(1 + std::max(request.logprobs, 0));
    if (!request.no_output) entries += n * static_cast<std::uint64_t>(request.max_tokens) * each;
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

// What of lenient schemas the grammar does not hold is ignored.
void note_left_out(const CompiledGrammar& grammar, UnknownFields& unknown) {
  for (const std::string& keyword : grammar->left_out()) unknown.ignore(keyword);
}

// The begin of a document that is longer.
std::string cut_document(std::string document, const Backend& backend, std::size_t most_tokens) {
  const std::vector<TokenId> ids = backend.encode(document, false, false);
  if (ids.size() <= most_tokens) return document;
  return backend.decode(std::span(ids).first(most_tokens), false);
}

// A request for each document, behind the query.
Problem add_documents(Draft& draft, Generation& generation) {
  const Backend& backend = draft.context.backend;
  for (std::size_t i = 0; i < draft.ranking.documents.size(); ++i) {
    std::string& document = draft.ranking.documents[i];
    if (draft.max_document_tokens > 0)
      document = cut_document(std::move(document), backend, draft.max_document_tokens);
    auto pair = backend.encode_pair(draft.query, document);
    if (!pair) return problem(bad_field("model", "{}", pair.error().message));
    auto request = with_prompt(draft, fmt::format("documents[{}]", i), std::move(pair->first));
    if (!request) return std::move(request.error());
    request->second = static_cast<std::uint32_t>(pair->second);
    generation.requests.push_back(*std::move(request));
  }
  generation.ranking = std::move(draft.ranking);
  return std::nullopt;
}

dialog::ContentForm content_form(const OutputFormat& format) {
  using Kind = dialog::ContentForm::Kind;
  const Kind kind = format.kind == GrammarKind::kJsonSchema ? Kind::kJsonSchema
                    : format.kind == GrammarKind::kRegex    ? Kind::kRegex
                                                            : Kind::kJsonObject;
  return {kind, format.text, format.strict, format.field};
}

// Leaves out so much of a text's end that its tokens fit the context. What the tokenizer puts
// around a text stays: a model may pool the row of the last token.
void cut_to_context(std::vector<TokenId>& tokens, const Backend& backend) {
  const std::size_t most = backend.model.max_context - 1;
  if (tokens.size() <= most) return;
  const std::vector<TokenId> around = backend.encode("", true, false);
  const auto before = std::mismatch(around.begin(), around.end(), tokens.begin(), tokens.end());
  auto after = around.end() - before.first;
  const bool stands =
      around.size() < most && std::equal(around.end() - after, around.end(), tokens.end() - after);
  if (!stands) after = 0;
  tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(most) - after, tokens.end() - after);
}

// The tokens of the draft's text with this index, which is given away.
std::vector<TokenId> embedded_text(Draft& draft, std::size_t index) {
  const Backend& backend = draft.context.backend;
  auto& input = draft.prompts[index];
  auto* ids = std::get_if<std::vector<TokenId>>(&input);
  std::vector<TokenId> tokens =
      ids != nullptr ? std::move(*ids) : backend.encode(std::get<std::string>(input), true, false);
  if (draft.truncate) cut_to_context(tokens, backend);
  return tokens;
}

// What the answer of a chat may be, and how it is read: with calls, ahead of it reasoning, and both
// beside what response_format asks for.
Problem plan_answer(Draft& draft, std::string_view prompt, Generation& generation) {
  const dialog::DialogFormat& format = *draft.context.backend.dialog;
  Chat& chat = draft.chat;
  dialog::AnswerRequest asked;
  asked.tools = chat.callable;
  asked.choice = *chat.choice;
  // A model that was not trained for calls may not know when to end a row of them.
  asked.parallel = chat.parallel.value_or(format.native());
  asked.reasoning_opened = format.opens_reasoning(prompt);
  if (draft.format) asked.content = content_form(*draft.format);
  const bool plain =
      asked.tools.empty() && format.reasoning() == nullptr && format.content() == nullptr;
  if (plain) return std::nullopt;
  if (draft.format && draft.format->kind == GrammarKind::kGbnf) {
    // Such a grammar is of the whole output.
    if (asked.tools.empty() || asked.choice == dialog::ToolChoice::kNone) return std::nullopt;
    return problem(bad_field(draft.format->field,
                             "cannot stand beside tools that may be called; expected one of them"));
  }

  draft.request.reasoning = dialog::reasoning_budget(
      format, prompt, {*draft.reasoning_budget, *std::move(draft.reasoning_budget_message)},
      [&](std::string_view text, bool special) {
        return draft.context.backend.encode(text, false, special);
      });
  auto plan = dialog::AnswerPlan::create(format, std::move(asked));
  if (!plan) return problem(bad_field("tools", "{}", plan.error().message));
  if (!plan->structure().empty()) {
    if (draft.format) generation.blamed.push_back(*std::move(draft.format));
    for (const dialog::Tool& tool : chat.callable) {
      if (tool.parameters.is_null()) continue;
      generation.blamed.push_back(
          {tool.place, GrammarKind::kJsonSchema, tool.parameters.dump(), tool.strict});
    }
    const std::string field = chat.callable.empty() ? "response_format" : "tools";
    draft.format = OutputFormat{field, GrammarKind::kStructure, plan->structure()};
  }
  draft.request.mark_control_tokens = plan->marks();
  generation.call_ids = format.calls().ids;
  generation.answer = *std::move(plan);
  return std::nullopt;
}

// What a response of /v1/responses repeats of its request.
Json echo_of(const Json& body, const Draft& draft) {
  struct Member {
    const char* name;
    std::string_view otherwise;  // JSON
  };
  constexpr Member kMembers[] = {
      {"background", "false"},
      {"instructions", "null"},
      {"max_output_tokens", "null"},
      {"max_tool_calls", "null"},
      {"metadata", "{}"},
      {"parallel_tool_calls", "true"},
      {"previous_response_id", "null"},
      {"prompt_cache_key", "null"},
      {"reasoning", R"({"effort": null, "summary": null})"},
      {"safety_identifier", "null"},
      {"service_tier", R"("default")"},
      {"store", "true"},
      {"text", R"({"format": {"type": "text"}})"},
      {"tool_choice", R"("auto")"},
      {"tools", "[]"},
      {"top_logprobs", "0"},
      {"truncation", R"("disabled")"},
      {"user", "null"},
  };
  Json echo;
  for (const Member& member : kMembers) {
    const auto at = body.find(member.name);
    echo[member.name] = at == body.end() || at->is_null() ? Json::parse(member.otherwise) : *at;
  }
  echo["temperature"] = shortest(draft.request.sampling.temperature);
  echo["top_p"] = shortest(draft.request.sampling.top_p);
  return echo;
}

}  // namespace

Outcome<Generation> read_generation(Endpoint endpoint, std::string_view body,
                                    const RequestContext& context) {
  const auto json = parse_body(body);
  if (!json) return tl::unexpected<ApiError>(json.error());
  return read_parsed(endpoint, *json, context);
}

Outcome<Generation> read_parsed(Endpoint endpoint, const Json& body,
                                const RequestContext& context) {
  Draft draft(context);
  draft.request.sampling = context.backend.model.sampling;
  draft.truncate = endpoint == Endpoint::kOllamaEmbed || endpoint == Endpoint::kOllamaChat;
  if (endpoint == Endpoint::kCohereRerank) {
    draft.max_document_tokens = kCohereDocumentTokens;
    draft.ranking.with_texts = false;
  }
  draft.stream = endpoint == Endpoint::kOllamaChat || endpoint == Endpoint::kOllamaGenerate;
  for (const auto& [key, value] : body.items()) {
    if (auto found = read_field(endpoint, key, value, draft)) {
      return tl::unexpected<ApiError>(std::move(*found));
    }
  }
  const std::int32_t asked_of_prompt = draft.request.prompt_logprobs;
  if (auto found = settle(endpoint, draft)) return tl::unexpected<ApiError>(std::move(*found));

  Generation generation;
  generation.prompt_logprobs = asked_of_prompt;
  std::vector<TokenId> chat_tokens;
  if (is_dialog(endpoint, draft)) {
    auto rendered = render_fitting(draft);
    if (!rendered) return tl::unexpected<ApiError>(std::move(rendered.error()));
    chat_tokens = std::move(rendered->tokens);
    if (auto found = plan_answer(draft, rendered->prompt.text.text, generation))
      return tl::unexpected<ApiError>(*std::move(found));
    if (draft.chat.choice != dialog::ToolChoice::kNone) generation.calls = context.calls;
  }
  if (draft.format) {
    if (auto known = known_outcome(*draft.format, context.backend); known && *known) {
      draft.request.grammar = **std::move(known);
      note_left_out(draft.request.grammar, draft.unknown);
    } else if (known && generation.blamed.empty()) {
      return tl::unexpected<ApiError>(std::move(known->error()));
    } else {
      generation.format = std::move(draft.format);
    }
  }
  generation.endpoint = endpoint;
  generation.is_dialog = is_dialog(endpoint, draft);
  generation.stream = draft.stream;
  generation.include_usage = draft.include_usage;
  generation.show_reasoning = draft.show_reasoning;
  generation.base64 = draft.base64;
  generation.ignored = std::move(draft.unknown);
  if (endpoint == Endpoint::kResponses) {
    generation.repeated = echo_of(body, draft);
    generation.messages = std::move(draft.chat.kept);
    if (draft.chat.keep) generation.dialogs = context.dialogs;
    generation.key = context.key;
  }
  if (is_dialog(endpoint, draft)) {
    // The template itself writes BOS where the model wants one.
    auto request = with_prompt(draft, dialog_field(endpoint), std::move(chat_tokens));
    if (!request) return tl::unexpected<ApiError>(std::move(request.error()));
    generation.requests.push_back(std::move(*request));
    if (auto found = check_size(generation, context.max_answer_entries)) {
      return tl::unexpected<ApiError>(*std::move(found));
    }
    return generation;
  }
  if (ranks(endpoint)) {
    if (auto found = add_documents(draft, generation))
      return tl::unexpected<ApiError>(*std::move(found));
    return generation;
  }
  for (std::size_t i = 0; i < draft.prompts.size(); ++i) {
    std::vector<TokenId> tokens = draft.request.embed
                                      ? embedded_text(draft, i)
                                      : completion_prompt(draft, i, generation.echo);
    const bool is_input = draft.request.embed && endpoint != Endpoint::kOllamaEmbedding;
    const bool fills = endpoint == Endpoint::kLlamaInfill;
    const std::string_view name = is_input ? "input" : fills ? "input_prefix" : "prompt";
    const std::string field =
        draft.prompts.size() == 1 ? std::string(name) : fmt::format("{}[{}]", name, i);
    auto request = with_prompt(draft, field, std::move(tokens));
    if (!request) return tl::unexpected<ApiError>(std::move(request.error()));
    generation.requests.push_back(std::move(*request));
  }
  if (auto found = check_size(generation, context.max_answer_entries)) {
    return tl::unexpected<ApiError>(*std::move(found));
  }
  if (is_llama(endpoint)) describe_llama(draft, generation);
  return generation;
}

Problem compile_format(Generation& generation, const Backend& backend,
                       const std::atomic<bool>& stop) {
  if (!generation.format) return std::nullopt;
  const auto grammar = compile(*generation.format, backend, stop);
  if (!grammar) {
    // A part that cannot be compiled alone is what is wrong, and says so in its own words.
    for (const OutputFormat& part : generation.blamed)
      if (const auto alone = compile(part, backend, stop); !alone) return alone.error();
    return grammar.error();
  }
  for (Request& request : generation.requests) request.grammar = *grammar;
  note_left_out(*grammar, generation.ignored);
  generation.format.reset();
  return std::nullopt;
}

}  // namespace dovetail::serve
