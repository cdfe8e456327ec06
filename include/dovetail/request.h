#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "dovetail/sampling_params.h"

namespace dovetail {

namespace grammar {
class TokenMasks;
}
namespace dialog {
struct ReasoningBudget;
}

using RequestId = std::uint64_t;

// What a text must be: an instance of a JSON schema, a whole match of a regular expression, any
// JSON object, a structure (parts of these kinds, of text and of control tokens put together, in
// JSON), or a text of a grammar in llama.cpp's notation. src/grammar/README.md says what is
// supported and how values are written.
enum class GrammarKind : std::uint8_t { kJsonSchema, kRegex, kJsonObject, kStructure, kGbnf };
// Made by Engine::compile() for that engine's model; immutable, and used by any number of requests.
using CompiledGrammar = std::shared_ptr<const grammar::TokenMasks>;

struct Request {
  std::vector<TokenId> prompt;  // at least one token
  SamplingParams sampling;
  std::int32_t max_tokens = 0;  // per choice; 0: up to the end of the context
  // Nothing is generated: the prompt is computed, for its log-probabilities or for the prefix
  // cache. What concerns outputs does not apply; each choice's one event ends with kLength.
  bool no_output = false;
  std::int32_t min_tokens = 0;  // no end token or stop string before this many tokens; a grammar
                                // that is at its end ends the output all the same
  std::vector<std::string>
      stop;  // non-empty strings; the output ends before the first that appears
  std::vector<TokenId> stop_ids;  // end the output like an end token
  bool ignore_eos = false;        // the model's end tokens are tokens like any other
  std::int32_t logprobs =
      -1;  // -1: none; else each token's log-probability and this many top alternatives (0..20)
  // -1: none; else the log-probability of each of the prompt's tokens but the first, given those
  // before it, and this many top alternatives (0..20). All of the prompt is computed for that, also
  // where its beginning is in the prefix cache.
  std::int32_t prompt_logprobs = -1;
  std::int32_t n = 1;  // independent choices
  // An embedding of the prompt in place of an output: its hidden rows, pooled as the model's makers
  // say (else the last one) and scaled to the length 1. What concerns outputs does not apply; its
  // one event ends with kStop.
  bool embed = false;
  // A score of the prompt in place of an output: how well a document answers a query, which stand
  // behind each other as the model's tokenizer puts them together (Tokenizer::encode_pair()). Of
  // models that rank. The rest is as of `embed`.
  bool rank = false;
  std::uint32_t second = 0;  // the token with which the document begins; 0: they are one text
  // The output is a text of the grammar, unless max_tokens or a stop cuts it, and ends when nothing
  // can follow; end tokens come only where the text may end. Null: any text.
  CompiledGrammar grammar;
  // Write each control token of the output, but for one that ends it, into the events' text: the
  // byte FF, its spelling, the byte FE (which no UTF-8 has). Otherwise they add no text.
  bool mark_control_tokens = false;
  // How many tokens of each choice's output may be reasoning; then come those that close it
  // (src/dialog/reasoning_budget.h). Null: any number.
  std::shared_ptr<const dialog::ReasoningBudget> reasoning;

  std::int32_t priority = 0;  // under the policy `priority`: lower goes first; [-1000, 1000]
  std::string tenant;         // under the policy `fair`: whose share this request takes
  std::string cache_salt;  // prefixes are found only among requests with the same tenant and salt
  // From submit() on; what is unfinished then ends with kError and kTimeout. Unset: none.
  std::optional<std::chrono::milliseconds> timeout;
};

enum class FinishReason : std::uint8_t { kStop, kLength, kCancelled, kError };

struct TokenLogprob {
  TokenId id = 0;
  float logprob = 0.0F;  // natural logarithm, of the unmodified distribution (temperature 1, no
                         // penalties, no grammar)
};

struct OutputToken {
  TokenId id = 0;
  float logprob = 0.0F;           // meaningful where logprobs were asked for
  std::vector<TokenLogprob> top;  // descending; as many as were asked for
  std::uint32_t rank = 0;  // like logprob: 1 is the most probable, the lowest id among equals
};

struct Usage {
  std::uint32_t prompt_tokens = 0;
  std::uint32_t cached_tokens = 0;      // prompt tokens whose cache was found, not computed
  std::uint32_t completion_tokens = 0;  // of this choice, the end token included
  double queue_seconds = 0.0;           // from the request's arrival to the first admission
};

// One step's news of one choice of one request. Of every choice of every accepted request exactly
// one event has `finish` set, and it is the choice's last.
struct OutputEvent {
  RequestId request = 0;
  std::int32_t choice = 0;  // 0..n-1
  std::string text;  // what is new and certain: whole UTF-8 characters, nothing that a stop string
                     // may yet claim; and control tokens if the request marks them, each whole. A
                     // stop string holds no control token: text before one is certain
  std::vector<OutputToken> tokens;  // sampled in this step; their text may come in a later event.
                                    // An end token is counted but not listed
  // With the first event of choice 0, where Request::prompt_logprobs asks for them: the prompt's
  // tokens from the second on.
  std::vector<OutputToken> prompt_logprobs;
  std::vector<float> embedding;  // of a request that embeds, with its end
  float score = 0.0F;            // of a request that ranks, with its end
  std::optional<FinishReason> finish;
  std::string stop_string;  // the one that ended the output, if one did
  Usage usage;              // so far
  Error error;              // with FinishReason::kError
};

// Receives events on the engine's thread, in order; must not block or throw. What it captures lives
// until the last event was delivered.
using EventSink = std::function<void(OutputEvent)>;
// The same for several requests: the index of the one that an event is of.
using GroupSink = std::function<void(std::size_t index, OutputEvent)>;

}  // namespace dovetail
