#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "dialog/tool.h"

namespace dovetail::dialog {

// How the arguments of a call are written.
enum class ArgumentStyle : std::uint8_t {
  kJson,      // one JSON object
  kTagged,    // a key and a value each between tags; strings stand as they are
  kPythonic,  // name=value, values as Python spells them
};

// How the id of a call is made.
enum class IdRule : std::uint8_t {
  kRandom,     // "call_" and 24 letters or digits
  kNine,       // nine letters or digits, as Mistral's templates ask for them
  kNameIndex,  // "functions.NAME:INDEX", which stands in the text (Kimi)
};

// A way to write calls of functions, as some family of models was trained on. A row of
// call_formats(). Texts may hold control tokens by their spelling.
struct CallFormat {
  std::string_view name;  // "hermes", "mistral", ...
  // Around all calls of an answer, and between two of them; may be empty.
  std::string_view section_open, section_close, between;
  // A call: open, NAME, middle, ARGUMENTS, close.
  std::string_view open, middle, close;
  ArgumentStyle style = ArgumentStyle::kJson;
  // kTagged: a parameter: key_open, KEY, key_close, VALUE, value_close.
  std::string_view key_open, key_close, value_close;
  IdRule ids = IdRule::kRandom;
  bool parallel = true;  // whether several calls can follow each other
};

// The rows, in the order in which they are tried.
std::span<const CallFormat> call_formats();

// What opens and closes the reasoning ahead of an answer.
struct ReasoningFormat {
  std::string_view open, close;
};
std::span<const ReasoningFormat> reasoning_formats();

// What is known of a model's template and vocabulary.
struct TemplateFacts {
  std::string_view source;  // the template's text
  // Renders the template (as text::ChatTemplate::render_chat()).
  std::function<Result<std::string>(const Json& variables)> render;
  std::vector<std::string> control_tokens;  // their spellings
};

// How one model's dialogs are written; found once, at load. Immutable.
class DialogFormat {
 public:
  // The call format is the first row whose text of a synthetic call is what the template renders of
  // it, and which reads it back. Where none is, it is the plain one: a JSON call under the grammar,
  // explained by a system message. Never fails: what the template cannot do is noted in
  // description().
  static DialogFormat detect(const TemplateFacts& facts);

  const CallFormat& calls() const { return *calls_; }
  // Null: the model does not reason ahead of its answers.
  const ReasoningFormat* reasoning() const { return reasoning_; }
  // Whether the template itself writes tools and calls; else prepare() does.
  bool native() const { return native_; }
  // "tools: hermes; reasoning: <think>", for the log and /v1/models.
  std::string description() const;

  // Sets what the template reads of a chat with tools: `messages` are those of OpenAI's API,
  // checked (tool_calls with arguments as JSON text; roles tool); `tools` as OpenAI's API has them.
  // Where the template knows no tools, they and the calls become text of the messages, and
  // variables["tools"] is null.
  void prepare(Json& variables, const Json& tools) const;

  // Whether a prompt ends within the reasoning.
  bool opens_reasoning(std::string_view prompt) const;

  // A text of the format with its control tokens marked: the byte FF, the spelling, the byte FE.
  std::string marked(std::string_view text) const;
  std::span<const std::string> control_tokens() const { return control_tokens_; }

 private:
  const CallFormat* calls_ = nullptr;
  const ReasoningFormat* reasoning_ = nullptr;
  bool native_ = false;
  bool arguments_as_text_ = false;
  std::vector<std::string> control_tokens_;
};

}  // namespace dovetail::dialog
