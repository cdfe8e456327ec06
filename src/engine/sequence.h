#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dialog/reasoning_budget.h"
#include "dovetail/request.h"
#include "engine/sampler.h"
#include "grammar/matcher.h"
#include "load/model_config.h"
#include "model/backend.h"
#include "model/share.h"
#include "text/tokenizer.h"

namespace dovetail::engine {

// State shared by the choices of a request.
struct SharedRequest {
  RequestId id = 0;
  Request request;            // max_tokens is resolved: at most the tokens that fit
  std::vector<TokenId> ends;  // tokens that end the output, ascending
  std::uint64_t seed = 0;
  EventSink sink;
  // Unfinished choices end with kTimeout then.
  std::optional<std::chrono::steady_clock::time_point> deadline;
  std::chrono::steady_clock::time_point arrived;
};

// Finds stop strings in text that comes in pieces, and holds text that may become one. The first
// complete stop string wins; among those that end at the same byte, the longest. The result does
// not depend on the cut into pieces.
class StopMatcher {
 public:
  // No string may be empty.
  explicit StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  struct Found {
    std::string text;                    // text before the stop string that was not returned yet
    std::optional<std::string> stopped;  // the stop string; no push() may follow
  };
  Found push(std::string_view piece);

  // The held text, at the end of the output.
  std::string finish();

 private:
  std::vector<std::string> stops_;
  std::string held_;
};

// One choice of a request: its tokens, draft tokens, and text.
class Sequence {
 public:
  Sequence(std::shared_ptr<const SharedRequest> shared, std::int32_t choice,
           const std::optional<text::Tokenizer>& tokenizer,
           load::Pooling pooling = load::Pooling::kNone);

  // Prompt and output tokens so far.
  std::span<const TokenId> tokens() const { return tokens_; }
  const SharedRequest& shared() const { return *shared_; }
  std::shared_ptr<const SharedRequest> share() const { return shared_; }
  std::int32_t choice() const { return choice_; }

  // Proposes at most `max_drafts` draft tokens to follow the last token.
  void propose_drafts(std::uint32_t max_drafts);
  // So many draft tokens, to be written.
  std::span<TokenId> draft_tokens(std::uint32_t count) {
    drafts_.resize(count);
    return drafts_;
  }
  std::span<const TokenId> drafts() const { return drafts_; }

  // Result of append_tokens().
  struct Appended {
    OutputEvent event;             // to be delivered, of all new tokens
    std::uint32_t new_tokens = 0;  // appended to tokens(); 0 only with an error
    bool ended = false;            // it was the last event
  };
  // Samples and appends the next tokens from rows of `vocab` logits. The first row follows the last
  // token; each further row counts only if the token before it equals its draft token. The tokens
  // are those that row after row would have given. Changes this sequence alone.
  Appended append_tokens(std::span<const float> logits, std::size_t vocab);

  // Its hidden rows become one, in place of an output: it embeds, or ranks.
  bool pools() const { return shared_->request.embed || shared_->request.rank; }
  // Logits become tokens.
  bool samples() const { return !pools() && !shared_->request.no_output; }
  // The log-probabilities of its prompt are asked for, and it is the choice that computes them.
  bool scores() const { return shared_->request.prompt_logprobs >= 0 && choice_ == 0; }
  // Which rows of `tokens` ones from `first` on have hidden rows: those that are pooled, or those
  // that are scored and were not yet. `last`: they end its prefill.
  model::Range hidden_rows(std::uint32_t first, std::uint32_t tokens, bool last) const;

  // Of a sequence that scores: what the logits of the prompt's row at `position` say of the token
  // behind it. Several threads may give different positions.
  void score(std::uint32_t position, std::span<const float> logits);
  // All rows before `position` are scored; they stay so after a preemption.
  void scored_up_to(std::uint32_t position) { scored_ = position; }

  // The end of a sequence without an output.
  Appended finish_prompt();
  // Of a sequence that pools: the hidden rows that hidden_rows() asked for, and the end.
  void pool(std::uint32_t first, std::span<const float> rows, std::size_t hidden_size);
  Appended finish_pooled(const model::Backend& backend);

  // Records its first admission: prompt tokens found in the cache, and how long it waited.
  void note_admission(std::uint32_t cached_tokens, double queue_seconds) {
    cached_tokens_ = cached_tokens;
    queue_seconds_ = queue_seconds;
  }

  // Sends the last event of a sequence that is cancelled or fails.
  void end_early(FinishReason reason, const Error& error);

 private:
  std::uint32_t generated() const {
    return static_cast<std::uint32_t>(tokens_.size() - shared_->request.prompt.size());
  }
  // The token that a row of logits gives with the random number `position` of the sequence's
  // stream; nothing where no logit is a number. `row`: which one it is of its step.
  std::optional<OutputToken> sample_token(std::span<const float> logits, std::uint32_t position,
                                          std::size_t row);
  // Writes what may come next to forbidden_ and, if it is true, allowed_, by the grammar and the
  // budget of reasoning.
  bool allow_next(std::size_t vocab, std::size_t row);
  // Appends text to `event`, but for what may become a stop string; one that is found ends it.
  void append_text(const std::string& text, OutputEvent& event);
  // Appends the token's text.
  void append_text_of(TokenId id, OutputEvent& event);
  // Appends a token, and its text to `event`. True: the sequence ends with it.
  bool accept(const OutputToken& token, OutputEvent& event);
  OutputEvent event() const;
  model::Range pooled_rows(std::uint32_t first, std::uint32_t tokens, bool last) const;
  // Moves the prompt's log-probabilities to its first event. False: they are no numbers, and the
  // event is the last.
  bool deliver_prompt(Appended& appended);

  std::shared_ptr<const SharedRequest> shared_;
  std::int32_t choice_ = 0;
  std::uint32_t cached_tokens_ = 0;
  double queue_seconds_ = 0.0;
  load::Pooling pooling_;
  std::vector<float> pooled_;  // the sum of the pooled rows so far
  std::uint32_t pooled_count_ = 0;
  std::vector<OutputToken> prompt_logprobs_;  // until they are delivered
  std::uint32_t scored_ = 0;                  // rows of the prompt
  std::vector<TokenId> tokens_;
  std::vector<TokenId> drafts_;
  TokenCounts counts_;
  std::optional<text::Tokenizer> tokenizer_;
  std::optional<text::StreamDecoder> decoder_;  // of tokenizer_
  StopMatcher stops_;
  // State of the request's grammar after tokens_; a preemption does not lose it.
  std::optional<grammar::Matcher> grammar_;
  // The same of its budget of reasoning.
  std::optional<dialog::ReasoningMeter> reasoning_;
  // By allow_next().
  std::vector<std::uint64_t> allowed_;
  std::vector<TokenId> forbidden_;
};

}  // namespace dovetail::engine
