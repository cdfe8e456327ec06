#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dovetail/request.h"
#include "engine/sampler.h"
#include "engine/stop_matcher.h"
#include "grammar/matcher.h"
#include "text/tokenizer.h"

namespace dovetail::engine {

// What the choices of a request have in common.
struct SharedRequest {
  RequestId id = 0;
  Request request;            // max_tokens is resolved: how many tokens fit
  std::vector<TokenId> ends;  // tokens that end the output, ascending
  std::uint64_t seed = 0;
  EventSink sink;
  // When what is unfinished ends with kTimeout.
  std::optional<std::chrono::steady_clock::time_point> deadline;
};

// One choice of a request on its way from prompt to end: its tokens, and the text that they make.
class Sequence {
 public:
  Sequence(std::shared_ptr<const SharedRequest> shared, std::int32_t choice,
           const std::optional<text::Tokenizer>& tokenizer);

  // Prompt and output so far.
  std::span<const TokenId> tokens() const { return tokens_; }
  const SharedRequest& shared() const { return *shared_; }
  std::shared_ptr<const SharedRequest> share() const { return shared_; }
  std::int32_t choice() const { return choice_; }

  // Guesses for what follows the last token, at most `most`; computed rows may check them.
  void guess(std::uint32_t most);
  std::span<const TokenId> guesses() const { return guesses_; }

  // What came of a sampled row.
  struct News {
    OutputEvent event;             // to be delivered: of all new tokens together
    std::uint32_t new_tokens = 0;  // the last ones of tokens(); none only with an error
    bool ended = false;            // it was the last event
  };
  // Takes the next tokens from rows of `vocab` logits: the first follows the last token, each
  // further one is believed only if the token before it turned out as guessed. What comes out is
  // what row after row would have given. Touches nothing but this sequence.
  News advance(std::span<const float> logits, std::size_t vocab);

  // So many of the prompt's tokens were found in the cache.
  void note_cached(std::uint32_t tokens) { cached_tokens_ = tokens; }

  // Sends the last event of a sequence that ends before its time.
  void end_early(FinishReason reason, const Error& error);

 private:
  std::uint32_t generated() const {
    return static_cast<std::uint32_t>(tokens_.size() - shared_->request.prompt.size());
  }
  // The token that a row of logits gives with the random number `draw` of the sequence's stream;
  // nothing where no logit is a number.
  std::optional<OutputToken> choose(std::span<const float> logits, std::uint32_t draw);
  // What the grammar allows, into allowed_.
  void allow_next();
  // True: the sequence has ended with it.
  bool accept(const OutputToken& token, OutputEvent& news);
  OutputEvent event() const;

  std::shared_ptr<const SharedRequest> shared_;
  std::int32_t choice_ = 0;
  std::uint32_t cached_tokens_ = 0;
  std::vector<TokenId> tokens_;
  std::vector<TokenId> guesses_;
  TokenCounts counts_;
  std::optional<text::StreamDecoder> decoder_;
  StopMatcher stops_;
  // Where the text is in the request's grammar. Moves with tokens_, so that what a preemption costs
  // is the cache alone.
  std::optional<grammar::Matcher> grammar_;
  std::vector<std::uint64_t> allowed_;  // by choose()
};

}  // namespace dovetail::engine
