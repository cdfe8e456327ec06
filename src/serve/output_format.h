#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <string_view>

#include "dovetail/request.h"
#include "serve/api_error.h"
#include "serve/backend.h"
#include "serve/json_input.h"
#include "serve/unknown_fields.h"

namespace dovetail::serve {

// What a request's output must be, as it was asked for.
struct OutputFormat {
  std::string field;  // that asked, for messages: "response_format.json_schema.schema"
  GrammarKind kind = GrammarKind::kJsonObject;
  std::string text;  // as Engine::compile() takes it
  // Of a schema: whether a keyword that cannot be kept is an error; else it is left out.
  bool strict = true;
};

// OpenAI's "response_format": nothing for {"type": "text"}. A schema may also stand as "schema"
// beside {"type": "json_object"}, as llama.cpp has it. What of a schema cannot be kept is left out,
// unless its "strict" says otherwise or, where it says nothing, fields are strict.
Outcome<std::optional<OutputFormat>> read_response_format(std::string_view field, const Json& value,
                                                          UnknownFields& unknown);
// The same with the members of "json_schema" beside "type".
Outcome<std::optional<OutputFormat>> read_flat_format(std::string_view field, const Json& value,
                                                      UnknownFields& unknown);
// vLLM's "guided_json" (a schema, or its text), "guided_regex", and "guided_choice" (texts, one of
// which is the output); and "structured_outputs", an object with one of them or "json_object".
Outcome<std::optional<OutputFormat>> read_guided_json(std::string_view field, const Json& value);
Outcome<std::optional<OutputFormat>> read_guided_regex(std::string_view field, const Json& value);
// A grammar in llama.cpp's notation; none where it is empty.
Outcome<std::optional<OutputFormat>> read_guided_grammar(std::string_view field, const Json& value);
Outcome<std::optional<OutputFormat>> read_guided_choice(std::string_view field, const Json& value);
Outcome<std::optional<OutputFormat>> read_structured_outputs(std::string_view field,
                                                             const Json& value);

// A 400 that blames the field, and in it what cannot be expressed by its JSON pointer. Takes up to
// a second or two; returns within milliseconds once `stop` is set.
Outcome<CompiledGrammar> compile(const OutputFormat& format, const Backend& backend,
                                 const std::atomic<bool>& stop);
// What compile() said of the same format, while that is known; nothing otherwise. Takes
// microseconds.
std::optional<Outcome<CompiledGrammar>> known_outcome(const OutputFormat& format,
                                                      const Backend& backend);

}  // namespace dovetail::serve
