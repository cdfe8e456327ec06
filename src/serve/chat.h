#pragma once

#include <string>

#include "serve/backend.h"
#include "serve/json_input.h"

namespace dovetail::serve {

// A chat as the request gives it, checked: what the template will see.
struct Chat {
  Json messages = Json::array();  // each {"role", "content", ...} with content as one string
  Json template_variables = Json::object();  // chat_template_kwargs
  bool add_generation_prompt = true;
};

// Checks `messages` and joins text parts. Errors name the message and the field in it.
Outcome<Json> read_messages(const Json& value);

// Checks `chat_template_kwargs`: an object that does not redefine what the server itself sets.
Outcome<Json> read_template_variables(const Json& value);

// The prompt's text. 400 where the model has no chat template or the template refuses the messages.
Outcome<std::string> render_chat(const Chat& chat, const Backend& backend);

}  // namespace dovetail::serve
