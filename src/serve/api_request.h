#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dovetail/request.h"
#include "serve/backend.h"
#include "serve/json_input.h"
#include "serve/output_format.h"

namespace dovetail::serve {

enum class Endpoint : std::uint8_t { kCompletion, kChat, kEmbedding, kRerank };

// What a body is read against.
struct RequestContext {
  const Backend& backend;
  std::string_view served_name;
  std::uint32_t max_choices = 0;
  std::uint64_t max_answer_entries = std::uint64_t{1} << 20;  // as ServerOptions'
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
  bool stream = false;
  bool include_usage = false;
  bool base64 = false;  // of embeddings: little-endian floats, as OpenAI's clients ask for them
  Ranking ranking;
  // Set: of a new format, still to be compiled by compile_format() before anything is submitted.
  std::optional<OutputFormat> format;
};

// Reads the body of /v1/completions, /v1/chat/completions, /v1/embeddings or /v1/rerank. A field
// that is unknown, unsupported, of the wrong type or out of range is a 400 that names it; another
// model than the served one is a 404. null stands for "not given". Tokenises and renders, so it may
// take long: not for the event loop. Any thread. A grammar is only looked up, not compiled.
Outcome<Generation> read_generation(Endpoint endpoint, std::string_view body,
                                    const RequestContext& context);

// Compiles `format`, if it is set, for all requests, and resets it. Takes up to a second or two;
// returns within milliseconds once `stop` is set. Errors as compile(). Any thread.
Problem compile_format(Generation& generation, const Backend& backend,
                       const std::atomic<bool>& stop);

// Bodies of /tokenize and /detokenize, answered at once with the response's body.
Outcome<std::string> tokenize(std::string_view body, const RequestContext& context);
Outcome<std::string> detokenize(std::string_view body, const RequestContext& context);

}  // namespace dovetail::serve
