#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "serve/api_request.h"
#include "serve/backend.h"
#include "serve/json_input.h"
#include "serve/output_format.h"

namespace dovetail::serve {

// A chat as the request gives it, checked: what the template will see.
struct Chat {
  Json messages = Json::array();  // each {"role", "content", ...} with content as one string
  Json template_variables = Json::object();  // chat_template_kwargs
  // Whether the prompt ends with what opens an answer; not given: it does, but where it ends within
  // the last message, which the answer then continues.
  std::optional<bool> add_generation_prompt;
  bool continue_final_message = false;
  bool parse_special = false;  // control tokens that the messages spell are control tokens
};

// Fields that are not known: refused, or collected as ignored.
class UnknownFields {
 public:
  explicit UnknownFields(bool strict) : strict_(strict) {}

  // `known`: fields that it may be a slip of.
  Problem meet(std::string_view name, const std::vector<std::string>& known = {});
  // As the value of a header: names in ASCII, the first sixteen of them.
  std::string text() const;

 private:
  bool strict_;
  std::vector<std::string> names_;
};

// Checks `messages` and joins text parts. Errors name the message and the field in it.
Outcome<Json> read_messages(const Json& value, UnknownFields& unknown);

// Checks `chat_template_kwargs`: an object that does not redefine what the server itself sets.
Outcome<Json> read_template_variables(const Json& value);

// The prompt's text. 400 where the model has no chat template, the template refuses the messages,
// or the last one is to be continued and the template does not show it once as it is.
Outcome<text::MarkedText> render_chat(const Chat& chat, const Backend& backend);

// The fields of a body of /v1/completions or /v1/chat/completions as they were read one by one,
// before what concerns several of them is checked.
struct Draft {
  explicit Draft(const RequestContext& request_context) : context(request_context) {}

  const RequestContext& context;
  UnknownFields unknown{context.strict_fields};
  Request request;  // everything but the prompt
  std::vector<std::variant<std::string, std::vector<TokenId>>> prompts;  // completions
  Chat chat;
  bool stream = false;
  bool include_usage = false;
  bool logprobs = false;  // chat's switch
  std::optional<std::int32_t> top_logprobs;
  // 0: as many as the context has room for.
  std::optional<std::int32_t> max_tokens;
  std::optional<std::int32_t> max_completion_tokens;
  std::optional<OutputFormat> format;  // not yet compiled
  bool base64 = false;                 // embeddings
  std::string query;                   // to rank documents by
  Ranking ranking;
};

// Reads one field into the draft; null is as good as no field, but for max_tokens, which has no
// limit then. Errors as read_generation().
Problem read_field(Endpoint endpoint, std::string_view name, const Json& value, Draft& draft);

}  // namespace dovetail::serve
