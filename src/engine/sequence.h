#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dovetail/request.h"
#include "engine/sampler.h"
#include "engine/stop_matcher.h"
#include "text/tokenizer.h"

namespace dovetail::engine {

// What the choices of a request have in common.
struct SharedRequest {
  RequestId id = 0;
  Request request;            // max_tokens is resolved: how many tokens fit
  std::vector<TokenId> ends;  // tokens that end the output, ascending
  std::uint64_t seed = 0;
  EventSink sink;
};

// One choice of a request on its way from prompt to end: its tokens, and the text that they make.
class Sequence {
 public:
  Sequence(std::shared_ptr<const SharedRequest> shared, std::int32_t choice,
           const std::optional<text::Tokenizer>& tokenizer);

  // Prompt and output so far.
  std::span<const TokenId> tokens() const { return tokens_; }
  const SharedRequest& shared() const { return *shared_; }
  std::int32_t choice() const { return choice_; }

  // What sampling made of a row of logits.
  struct Choice {
    std::optional<OutputToken> token;  // nothing: no logit was a number
  };
  // Chooses the next token. Does not change the sequence: several may be sampled at once.
  Choice choose(std::span<const float> logits) const;

  // Takes the token and sends its event. True: the sequence has ended, and has sent its last event.
  bool accept(const Choice& choice);

  // Sends the last event of a sequence that ends before its time.
  void end_early(FinishReason reason, const Error& error);

 private:
  std::uint32_t generated() const {
    return static_cast<std::uint32_t>(tokens_.size() - shared_->request.prompt.size());
  }
  OutputEvent event() const;

  std::shared_ptr<const SharedRequest> shared_;
  std::int32_t choice_ = 0;
  std::vector<TokenId> tokens_;
  TokenCounts counts_;
  std::optional<text::StreamDecoder> decoder_;
  StopMatcher stops_;
};

}  // namespace dovetail::engine
