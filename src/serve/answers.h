#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "dialog/answer.h"
#include "serve/api_error.h"
#include "serve/api_request.h"
#include "serve/kept_calls.h"

namespace dovetail::serve {

struct ResponseLabel {
  std::string id;     // "chatcmpl-..." or "cmpl-..."
  std::string model;  // the served name
  std::int64_t created = 0;
  // When the request came, for durations in the response.
  std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now();
};

// A part of an answer that a dialect with numbered parts has open.
struct OpenPart {
  dialog::AnswerEvent::Kind kind = dialog::AnswerEvent::Kind::kContent;
  std::string id;
  std::string text;               // where the dialect repeats it at the part's end
  std::size_t call = 0;           // of a call: which one
  Json logprobs = Json::array();  // of its tokens, where the dialect repeats them
};

// What is known of one choice. A streamed one keeps texts only where the dialect does.
struct ChoiceState {
  bool begun = false;           // it had an event
  std::string prompt_logprobs;  // JSON text; empty: none are shown
  std::string text;             // of a dialog: the content
  std::string reasoning;
  std::vector<CallState> calls;
  // The body's "logprobs" as JSON text, which takes a tenth of what values take: the elements of
  // each array inside.
  std::vector<std::pair<std::string, std::string>> logprobs;
  std::size_t text_offset = 0;  // code points of the tokens so far
  std::optional<FinishReason> finish;
  std::string stop_string;
  Usage usage;
  std::uint64_t reasoning_tokens = 0;
  std::optional<std::chrono::steady_clock::time_point> first_token;
  std::vector<float> embedding;
  float score = 0.0F;
  std::optional<dialog::AnswerReader> reader;  // of a dialog's answer
  std::optional<AnswerRecord> record;          // where its calls are kept
  bool reasons = false;                        // its last text was reasoning
  std::vector<OutputToken> untold;  // tokens whose text is yet to come, where that matters
  // Of dialects in which answers end by their lines.
  struct Lines {
    bool any = false;         // a line has ended
    bool ended = false;       // since it was last looked at
    bool begins = false;      // only white space of the line is there, and it is not the first
    std::uint32_t white = 0;  // so much of it
  };
  Lines lines;
  bool cut = false;  // it has ended here; the engine may not know yet
  // Of dialects with numbered parts.
  std::optional<OpenPart> open;
  std::vector<std::string> items;  // JSON texts of the parts that ended
  std::size_t parts = 0;           // that ended
  std::size_t events = 0;          // sent
};

// What one event of the engine says of a choice.
struct News {
  std::vector<dialog::AnswerEvent> events;  // a text that is no dialog's is content
  std::span<const OutputToken> tokens;
  // With a choice's first event: "logprobs" of the prompt that it echoes, and what else was asked
  // of the prompt; null: nothing.
  Json echoed;
  Json of_prompt;
  bool finished = false;
};

// The answer to one Generation.
struct Answers {
  const Generation& generation;
  ResponseLabel label;
  const std::function<std::string(TokenId)>& token_bytes;
  std::vector<ChoiceState> choices;

  const Request& request_of(std::size_t choice) const;
};

// How answers are written for the clients of one API: a row for each endpoint. Of a stream, the
// functions give the text that follows.
struct Dialect {
  std::string_view id_begin;  // of the response's id
  std::string_view stream_type = "text/event-stream";
  std::string (*open)(Answers& answers) = nullptr;
  std::string (*add)(Answers& answers, std::size_t choice, const News& news) = nullptr;
  std::string (*close)(Answers& answers) = nullptr;
  std::string (*fail)(const ApiError& error) = nullptr;
  // The whole answer, in parts that follow each other; what was gathered is handed over.
  std::vector<std::string> (*body)(Answers& answers) = nullptr;
  // What the body has as "logprobs", of these tokens; null: it has none.
  Json (*logprobs)(const Answers& answers, ChoiceState& choice,
                   std::span<const OutputToken> tokens) = nullptr;
  // Texts are gathered, and `add` is called, whether the answer is streamed or not.
  bool keeps = false;
  // Looks at the news before all others do, and may cut their text. True: the choice ends with
  // them, at a limit, whatever more the engine says.
  bool (*ends)(Answers& answers, std::size_t choice, News& news) = nullptr;
};

extern const Dialect kCompletionDialect;
extern const Dialect kChatDialect;
extern const Dialect kMessagesDialect;
extern const Dialect kResponsesDialect;
extern const Dialect kOllamaChatDialect;
extern const Dialect kOllamaGenerateDialect;
extern const Dialect kOllamaEmbedDialect;
extern const Dialect kOllamaEmbeddingDialect;
extern const Dialect kEmbeddingDialect;
extern const Dialect kRerankDialect;
extern const Dialect kCohereRerankDialect;
extern const Dialect kLlamaDialect;

const Dialect& dialect_of(Endpoint endpoint);

// As JSON text; a text that broke the engine's promise of UTF-8 does not break the response.
std::string dump(const Json& json);
// A server-sent event.
std::string sse(const Json& json);
inline constexpr std::string_view kStreamDone = "data: [DONE]\n\n";
// The last event of a stream that failed, as OpenAI's API has it.
std::string failed_stream(const ApiError& error);

// {"id", "object", "created", "model"}.
Json envelope(const Answers& answers, std::string_view object);
// `begin`, and 24 random hexadecimal digits.
std::string random_id(std::string_view begin);

struct TokenCounts {
  std::uint64_t prompt = 0;
  std::uint64_t cached = 0;
  std::uint64_t completion = 0;
  std::uint64_t reasoning = 0;  // of the completion
};
// The choices of one prompt share it, so a prompt counts once; what its first choice found cached
// is what the prompt as such found.
TokenCounts token_counts(const Answers& answers);
// The same as OpenAI's "usage".
Json usage_json(const Answers& answers);

// "stop", "length", or of a chat "tool_calls".
// Whether an answer ends with calls to be made: one that was cut is none.
bool asks_for_calls(const ChoiceState& choice);
std::string_view finish_word(const ChoiceState& choice);

}  // namespace dovetail::serve
