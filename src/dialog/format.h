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
#include "text/marked_text.h"

namespace dovetail::dialog {

// How the arguments of a call are written.
enum class ArgumentStyle : std::uint8_t {
  kJson,      // one JSON object
  kTagged,    // a key and a value each between tags; strings stand as they are
  kPythonic,  // name=value, values as Python spells them
  kElements,  // an element each, its name in both tags; nested values as elements, too
  kBare,      // name:value, names without quotes at every depth, strings between tokens
};

// How the id of a call is made.
enum class IdRule : std::uint8_t {
  kRandom,     // "call_" and 24 letters or digits
  kNine,       // nine letters or digits, as Mistral's templates ask for them
  kNameIndex,  // "functions.NAME:INDEX", which stands in the text (Kimi)
};

// A way to write calls of functions, as some family of models was trained on. A row of
// call_formats(). Texts may hold control tokens by their spelling, "{id}" where an id stands,
// "{index}" or "{number}" where the number of the call does, from 0 or from 1, and "{type}" where
// that of a value does. White space at the ends of the texts is what the template writes: detect()
// takes it from there.
struct CallFormat {
  std::string name;  // "hermes", "mistral", ...
  // Around all calls of an answer, and between two of them; may be empty.
  std::string section_open = {}, section_close = {}, between = {};
  // A call: open, NAME, middle, ARGUMENTS, close.
  std::string open = {}, middle = {}, close = {};
  ArgumentStyle style = ArgumentStyle::kJson;
  // kElements: an element: key_open, KEY, key_close, VALUE, value_close, KEY, key_close.
  // kTagged: a parameter: key_open, KEY, key_close, VALUE, value_close. Where it is not empty,
  // other_close stands for key_close ahead of values that are no strings.
  std::string key_open = {}, key_close = {}, other_close = {}, value_close = {};
  std::string quote = {};  // kBare: the control token around strings
  IdRule ids = IdRule::kRandom;
  bool parallel = true;   // whether several calls can follow each other
  bool channels = false;  // whether an answer is a row of messages with channels (harmony)
};

// The rows, in the order in which they are tried.
std::span<const CallFormat> call_formats();

// What opens and closes the reasoning ahead of an answer.
struct ReasoningFormat {
  std::string open, close;
};
std::span<const ReasoningFormat> reasoning_formats();

// What stands around the content of an answer, and behind the whole of it. The parser leaves these
// out wherever they stand.
struct ContentFormat {
  std::string open, close;
  std::string end = {};
};
std::span<const ContentFormat> content_formats();

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

  const CallFormat& calls() const { return calls_; }
  // Null: the model does not reason ahead of its answers.
  const ReasoningFormat* reasoning() const { return reasoning_; }
  // Null: nothing is around the content.
  const ContentFormat* content() const { return content_; }
  // Whether the template itself writes tools and calls; else prepare() does.
  bool native() const { return writes_tools_ && writes_calls_; }
  // "tools: hermes; reasoning: <think>", for the log and /v1/models.
  std::string description() const;

  // Sets what the template reads of a chat with tools: `messages` are those of OpenAI's API,
  // checked (tool_calls with arguments as JSON text; roles tool); `tools` as OpenAI's API has them.
  // Where the template knows no tools, they and the calls become text of the messages, and
  // variables["tools"] is null. The contents of all messages, of which nothing is trusted but what
  // the format writes around calls, results and tools; of messages without a text nothing.
  std::vector<text::MarkedText> prepare(Json& variables, const Json& tools) const;

  // Calls of a message as prepare() gets them, as the template writes them, as far as it writes
  // them as the format does. What comes from outside is not trusted.
  text::MarkedText written(const Json& calls) const;

  // Whether a prompt ends within the reasoning.
  bool opens_reasoning(std::string_view prompt) const;

  // A text of the format with its control tokens marked: the byte FF, the spelling, the byte FE.
  std::string marked(std::string_view text) const;
  std::span<const std::string> control_tokens() const { return control_tokens_; }

 private:
  void find_calls(const TemplateFacts& facts);
  bool find_rendered_calls(const TemplateFacts& facts);
  void find_texts_around(const TemplateFacts& facts);
  bool is_control(std::string_view spelling) const;
  text::MarkedText explanation(const Json& tools) const;

  CallFormat calls_;
  const ReasoningFormat* reasoning_ = nullptr;
  const ContentFormat* content_ = nullptr;
  std::string tools_variable_ = "tools";  // where the template looks for the tools
  bool writes_tools_ = false;             // the template lists the tools
  bool writes_calls_ = false;             // the template writes calls
  bool writes_results_ = false;           // the template writes messages of the role tool
  bool takes_system_ = false;             // the template writes messages of the role system
  bool arguments_as_text_ = false;        // what the template takes: an object, or its text
  bool content_as_null_ = false;  // what a call's message without content holds: null, or ""
  std::vector<std::string> control_tokens_;  // longest first
};

}  // namespace dovetail::dialog
