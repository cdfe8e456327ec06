#include "engine/sequence.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "engine/draft_proposer.h"
#include "engine/mutation.h"

namespace dovetail::engine {
namespace {

bool uses_counts(const SamplingParams& params) {
  return params.repetition_penalty != 1.0F || params.presence_penalty != 0.0F ||
         params.frequency_penalty != 0.0F;
}

}  // namespace

Sequence::Sequence(std::shared_ptr<const SharedRequest> shared, std::int32_t choice,
                   const std::optional<text::Tokenizer>& tokenizer)
    : shared_(std::move(shared)),
      choice_(choice),
      tokens_(shared_->request.prompt),
      stops_(shared_->request.stop) {
  if (const auto& grammar = shared_->request.grammar) {
    grammar_.emplace(grammar);
    allowed_.resize(grammar->vocabulary().words());
  }
  if (tokenizer) decoder_.emplace(*tokenizer, true, text::TextPosition::kContinuation);
  if (uses_counts(shared_->request.sampling)) {
    for (const TokenId id : tokens_) ++counts_.prompt[id];
  }
}

void Sequence::guess(std::uint32_t most) {
  guesses_.clear();
  if (most > 0) propose(tokens_, most, guesses_);
}

std::optional<OutputToken> Sequence::choose(std::span<const float> logits, std::uint32_t draw) {
  const Request& request = shared_->request;
  SamplingContext context;
  context.params = &request.sampling;
  context.seed = shared_->seed;
  context.choice = static_cast<std::uint32_t>(choice_);
  context.position = draw;
  context.counts = &counts_;
  if (generated() < static_cast<std::uint32_t>(request.min_tokens))
    context.forbidden = shared_->ends;
  if (grammar_) {
    allow_next();
    context.allowed = allowed_;
  }
  std::optional<TokenId> id = sample(logits, context);
  if (!id && grammar_ && !context.forbidden.empty()) {
    // The grammar leaves nothing else.
    context.forbidden = {};
    id = sample(logits, context);
  }
  if (!id) return std::nullopt;
  if (request.logprobs < 0) return OutputToken{*id, 0.0F, {}};
  return describe(logits, *id, request.logprobs);
}

void Sequence::allow_next() {
  grammar_->allowed(allowed_);
  if (!shared_->request.ignore_eos) return;
  for (const TokenId end : shared_->request.grammar->vocabulary().ends()) {
    const auto id = static_cast<std::size_t>(end);
    allowed_[id / 64] &= ~(std::uint64_t{1} << (id % 64));
  }
}

Sequence::News Sequence::advance(std::span<const float> logits, std::size_t vocab) {
  News news;
  const std::size_t rows = logits.size() / vocab;
  for (std::size_t row = 0; row < rows; ++row) {
    if (news.ended && !mutated(Mutant::kReadPastTheEnd)) break;
    if (row > 0 && tokens_.back() != guesses_[row - 1] && !mutated(Mutant::kBelieveGuesses)) break;
    const std::uint32_t draw =
        generated() - (mutated(Mutant::kOneDrawPerStep) ? news.new_tokens : 0);
    const std::optional<OutputToken> token = choose(logits.subspan(row * vocab, vocab), draw);
    if (token) {
      ++news.new_tokens;
      news.ended = accept(*token, news.event);
    } else {
      news.event.finish = FinishReason::kError;
      news.event.error = {ErrorKind::kInternal, "the model's logits are not numbers"};
      news.ended = true;
    }
  }
  OutputEvent described = event();
  news.event.request = described.request;
  news.event.choice = described.choice;
  news.event.usage = described.usage;
  return news;
}

bool Sequence::accept(const OutputToken& token, OutputEvent& news) {
  const Request& request = shared_->request;
  const TokenId id = token.id;
  tokens_.push_back(id);
  if (uses_counts(request.sampling)) ++counts_.output[id];
  if (grammar_) {
    [[maybe_unused]] const bool allowed = grammar_->accept(id);
    assert(allowed);
  }

  if (std::binary_search(shared_->ends.begin(), shared_->ends.end(), id)) {
    news.finish = FinishReason::kStop;
  } else {
    news.tokens.push_back(token);
    const std::string text = decoder_ ? decoder_->push(id) : std::string();
    if (generated() <= static_cast<std::uint32_t>(request.min_tokens)) {
      news.text += text;
    } else {
      StopMatcher::Found found = stops_.push(text);
      news.text += found.text;
      if (found.stopped) {
        news.finish = FinishReason::kStop;
        news.stop_string = *std::move(found.stopped);
      }
    }
    if (!news.finish && grammar_ && grammar_->must_end()) news.finish = FinishReason::kStop;
    if (!news.finish && generated() == static_cast<std::uint32_t>(request.max_tokens))
      news.finish = FinishReason::kLength;
  }
  // Text that was held back is certain now, but bytes of a character that will never be complete
  // may complete a stop string.
  if (news.finish && news.stop_string.empty()) {
    StopMatcher::Found rest = stops_.push(decoder_ ? decoder_->finish() : std::string());
    news.text += rest.text;
    if (rest.stopped) {
      news.finish = FinishReason::kStop;
      news.stop_string = *std::move(rest.stopped);
    } else {
      news.text += stops_.finish();
    }
  }
  return news.finish.has_value();
}

void Sequence::end_early(FinishReason reason, const Error& error) {
  OutputEvent news = event();
  news.finish = reason;
  news.error = error;
  shared_->sink(std::move(news));
}

OutputEvent Sequence::event() const {
  OutputEvent news;
  news.request = shared_->id;
  news.choice = choice_;
  news.usage.prompt_tokens = static_cast<std::uint32_t>(shared_->request.prompt.size());
  news.usage.cached_tokens = cached_tokens_;
  news.usage.completion_tokens = generated();
  return news;
}

}  // namespace dovetail::engine
