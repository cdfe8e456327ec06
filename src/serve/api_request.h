#pragma once

#include <atomic>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dialog/answer.h"
#include "dovetail/request.h"
#include "serve/backend.h"
#include "serve/json_input.h"
#include "serve/llama_form.h"
#include "serve/output_format.h"
#include "serve/served_names.h"
#include "serve/unknown_fields.h"

namespace dovetail::serve {

enum class Endpoint : std::uint8_t {
  kCompletion,
  kChat,
  kResponses,
  kMessages,
  kOllamaChat,
  kOllamaGenerate,
  kOllamaEmbed,
  kOllamaEmbedding,  // the form before it: one input
  kEmbedding,
  kRerank,
  kCohereRerank,  // as Cohere's second version has it
  kLlamaCompletion,
  kLlamaInfill,
};

// Whether its requests are documents to be ranked.
constexpr bool ranks(Endpoint endpoint) {
  return endpoint == Endpoint::kRerank || endpoint == Endpoint::kCohereRerank;
}

// Whether it is one of llama.cpp's own form.
constexpr bool is_llama(Endpoint endpoint) {
  return endpoint == Endpoint::kLlamaCompletion || endpoint == Endpoint::kLlamaInfill;
}

class DialogStore;
class KeptAnswers;

// What a body is read against.
struct RequestContext {
  const Backend& backend;
  ServedNames served;
  std::uint32_t max_choices = 0;
  std::uint64_t max_answer_entries = std::uint64_t{1} << 20;  // as ServerOptions'
  bool strict_fields = false;
  DialogStore* dialogs = nullptr;                  // of earlier responses; null: none are kept
  KeptAnswers* calls = nullptr;                    // of earlier responses; null: none are kept
  std::int32_t reasoning_budget = -1;              // as ServerOptions'
  std::string_view reasoning_budget_message = {};  // as ServerOptions'
  std::string_view key = {};                       // the name of the one that the request came with
};

// Documents to be ranked, a request for each; how many of the best are asked for, and whether with
// their texts.
struct Ranking {
  std::vector<std::string> documents;
  std::size_t top = 0;
  bool with_texts = true;
};

// A request for generation, checked and tokenised: one engine request per prompt.
struct Generation {
  Endpoint endpoint = Endpoint::kCompletion;
  std::vector<Request> requests;  // at least one; all with the same n
  bool is_dialog = false;         // the prompt is what the chat template made of messages
  bool stream = false;
  bool include_usage = false;
  // Of completions, by prompt: the text that each of its choices begins with; empty: none has one.
  std::vector<std::string> echo;
  // As many alternatives of each of the prompt's tokens are shown, as vLLM does; -1: nothing is.
  std::int32_t prompt_logprobs = -1;
  bool base64 = false;  // of embeddings: little-endian floats, as OpenAI's clients ask for them
  Ranking ranking;
  UnknownFields ignored;  // and keywords of schemas that cannot be kept, where that may be
  // Of a chat: how an answer's text is read, and how the ids of its calls are made. Not set: the
  // text is content.
  std::optional<dialog::AnswerPlan> answer;
  KeptAnswers* calls = nullptr;  // where answers with calls are kept; null: nowhere
  bool show_reasoning = true;    // else it is left out of the response
  dialog::IdRule call_ids = dialog::IdRule::kRandom;
  std::optional<LlamaForm> llama;  // of llama.cpp's routes
  // Of /v1/responses: what the response repeats of the request, and where it is kept with its
  // messages (null: nowhere), for the key of this name.
  Json repeated = Json::object();
  Json messages;
  DialogStore* dialogs = nullptr;
  std::string key;
  // Set: of a new format, still to be compiled by compile_format() before anything is submitted.
  std::optional<OutputFormat> format;
  // What `format` is made of, for the words of an error.
  std::vector<OutputFormat> blamed;
};

// Reads the body of a route that generates, embeds or ranks. A field
// that is of the wrong type or out of range, or that would change the answer and cannot be heeded,
// is a 400 that names it; one that is not known at all is ignored, and named in `ignored`, unless
// fields are strict. Another model than the served one is a 404. null stands for "not given".
// Tokenises and renders, so it may take long: not for the event loop. Any thread. A grammar is only
// looked up, not compiled.
Outcome<Generation> read_generation(Endpoint endpoint, std::string_view body,
                                    const RequestContext& context);
// The same of a body that parse_body() gave.
Outcome<Generation> read_parsed(Endpoint endpoint, const Json& body, const RequestContext& context);

// Compiles `format`, if it is set, for all requests, and resets it. Takes up to a second or two;
// returns within milliseconds once `stop` is set. Errors as compile(). Any thread.
Problem compile_format(Generation& generation, const Backend& backend,
                       const std::atomic<bool>& stop);

}  // namespace dovetail::serve
