#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "dialog/tool.h"
#include "serve/api_request.h"
#include "serve/backend.h"
#include "serve/json_input.h"
#include "serve/kept_calls.h"
#include "serve/output_format.h"
#include "serve/unknown_fields.h"

namespace dovetail::serve {

// A chat as the request gives it, checked: what the template will see.
struct Chat {
  std::string previous;           // response from which it goes on; empty: none
  bool keep = true;               // the response, to be gone on from
  Json kept;                      // the messages that are kept with it: all but `system`
  std::string system;             // of APIs that have it beside the messages: stands before them
  Json messages = Json::array();  // each {"role", "content", ...} with content as one string
  Json template_variables = Json::object();  // chat_template_kwargs
  // What other fields set of these, where it sets nothing itself.
  Json reasoning_variables = Json::object();
  // Whether the prompt ends with what opens an answer; not given: it does, but where it ends within
  // the last message, which the answer then continues.
  std::optional<bool> add_generation_prompt;
  bool continue_final_message = false;
  Json documents;  // as the template sees them; null: none
  // Functions as the template sees them, and those that an answer may call: of a choice by name,
  // that one.
  Json tools = Json::array();
  std::vector<dialog::Tool> callable;
  std::vector<std::string> chosen;  // names; empty: all
  std::optional<dialog::ToolChoice> choice;
  std::optional<bool> parallel;  // not set: as the model was trained to
  bool parse_special = false;    // control tokens that the messages spell are control tokens
};

// Checks `messages` and joins text parts. Errors name the message and the field in it.
Outcome<Json> read_messages(const Json& value, UnknownFields& unknown);

// Checks `chat_template_kwargs`: an object that does not redefine what the server itself sets.
Outcome<Json> read_template_variables(const Json& value);

// "tools", an array of functions, into chat.tools and chat.callable; "tool_choice" in all its
// forms. Errors name the tool and the field in it.
Problem read_tools(std::string_view field, const Json& value, UnknownFields& unknown, Chat& chat);
Problem read_tool_choice(std::string_view field, const Json& value, Chat& chat);
// A function to be called, of the field `field`: {"name", "description", "parameters", "strict"};
// the schema may stand under another name in the request. What of the schema cannot be kept is left
// out unless "strict" says otherwise, as OpenAI has it, or fields are strict.
struct FunctionFields {
  std::string field;
  std::string schema_field;
  Json members = Json::object();
};
Problem add_function(const FunctionFields& fields, UnknownFields& unknown, Chat& chat);
// Holds `chosen` against the tools, and settles the choice where none was given.
Problem settle_tools(Chat& chat);
// "tool_calls" of an assistant's message, as the template will see them: arguments are JSON text.
Outcome<Json> read_tool_calls(const std::string& field, const Json& value, UnknownFields& unknown);

// The prompt, in which calls that the server made are the model's tokens. 400 where the model has
// no chat template, the template refuses the messages, or the last one is to be continued and the
// template does not show it once as it is.
Outcome<ChatPrompt> render_chat(const Chat& chat, const RequestContext& context);

// The fields of a body of /v1/completions or /v1/chat/completions as they were read one by one,
// before what concerns several of them is checked.
struct Draft {
  explicit Draft(const RequestContext& request_context) : context(request_context) {}

  const RequestContext& context;
  UnknownFields unknown{context.strict_fields};
  Request request;  // everything but the prompt
  std::vector<std::variant<std::string, std::vector<TokenId>>> prompts;  // completions
  Chat chat;
  bool raw = false;       // Ollama's generate: the prompt is no message
  bool truncate = false;  // what does not fit the context is cut: an embedding's text, old messages
  bool stream = false;
  bool include_usage = false;
  bool logprobs = false;  // chat's switch
  std::optional<std::int32_t> top_logprobs;
  // 0: as many as the context has room for.
  std::optional<std::int32_t> max_tokens;
  std::optional<std::int32_t> max_completion_tokens;
  bool echo = false;   // completions: the text begins with the prompt's
  std::string suffix;  // completions and Ollama's generate: what follows the text; empty: nothing
                       // is said of it
  std::optional<OutputFormat> format;  // not yet compiled
  bool show_reasoning = true;
  // Whether the model reasons, and for how many tokens at most (-1: any number); not set: as its
  // template, and the server's options, have it.
  std::optional<bool> reasons;
  std::optional<std::int32_t> reasoning_budget;
  std::optional<std::string> reasoning_budget_message;
  // As llama.cpp has them: samplers that act, all where none are given; how many of the last tokens
  // penalties count, -1: all, and the field that says so.
  std::optional<std::vector<std::string>> samplers;
  std::optional<std::int32_t> penalty_window;
  std::string penalty_window_field;
  LlamaDraft llama;     // of llama.cpp's routes
  bool base64 = false;  // embeddings
  std::string query;    // to rank documents by
  Ranking ranking;
  std::size_t max_document_tokens = 0;  // what a document has beyond is cut; 0: nothing is
};

// Turns off what samplers that do not act would do; other orders of them than the one here, names
// that are none here and windows of penalties are ignored.
void settle_samplers(Draft& draft);

// Whether the prompt is a dialog, rendered by the chat template.
bool is_dialog(Endpoint endpoint, const Draft& draft);

// Reads one field into the draft; null is as good as no field, but for max_tokens, which has no
// limit then. Errors as read_generation().
Problem read_field(Endpoint endpoint, std::string_view name, const Json& value, Draft& draft);
// The same of a value that stands at `field` in the body, under another name there.
Problem read_field_as(Endpoint endpoint, std::string_view name, std::string_view field,
                      const Json& value, Draft& draft);

// The fields that a route knows, for its documentation: those that are read, hints, and those that
// are accepted at values that ask for nothing (a JSON array).
struct KnownFields {
  std::vector<std::string> read;
  std::vector<std::string> hints;
  std::vector<std::pair<std::string, std::string>> neutral;
};
KnownFields known_fields(Endpoint endpoint);

}  // namespace dovetail::serve
