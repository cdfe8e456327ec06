#include "engine/sequence.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

#include "engine/draft_proposer.h"
#include "engine/mutation.h"

namespace dovetail::engine {
namespace {

bool uses_counts(const SamplingParams& params) {
  return params.repetition_penalty != 1.0F || params.presence_penalty != 0.0F ||
         params.frequency_penalty != 0.0F;
}

// Nothing where it has no length.
std::vector<float> scaled_to_one(std::span<const float> row) {
  double squares = 0.0;
  for (const float value : row) squares += double{value} * double{value};
  const double length = std::sqrt(squares);
  std::vector<float> out;
  if (!(length > 0.0) || !std::isfinite(length)) return out;
  for (const float value : row) out.push_back(static_cast<float>(value / length));
  return out;
}

}  // namespace

StopMatcher::Found StopMatcher::push(std::string_view piece) {
  if (stops_.empty()) return {std::string(piece), std::nullopt};
  std::size_t end = held_.size();
  held_ += piece;
  for (; end <= held_.size(); ++end) {
    const std::string_view seen = std::string_view(held_).substr(0, end);
    const std::string* longest = nullptr;
    for (const std::string& stop : stops_) {
      if (seen.ends_with(stop) && (longest == nullptr || stop.size() > longest->size()))
        longest = &stop;
    }
    if (longest != nullptr) {
      Found found{held_.substr(0, end - longest->size()), *longest};
      held_.clear();
      return found;
    }
  }
  // Text that ends with the beginning of a stop string is held.
  std::size_t keep = 0;
  for (const std::string& stop : stops_) {
    for (std::size_t size = std::min(stop.size() - 1, held_.size()); size > keep; --size) {
      if (std::string_view(held_).ends_with(std::string_view(stop).substr(0, size))) keep = size;
    }
  }
  Found found{held_.substr(0, held_.size() - keep), std::nullopt};
  held_.erase(0, held_.size() - keep);
  return found;
}

std::string StopMatcher::finish() { return std::exchange(held_, {}); }

Sequence::Sequence(std::shared_ptr<const SharedRequest> shared, std::int32_t choice,
                   const std::optional<text::Tokenizer>& tokenizer, load::Pooling pooling)
    : shared_(std::move(shared)),
      choice_(choice),
      pooling_(pooling),
      tokens_(shared_->request.prompt),
      tokenizer_(tokenizer),
      stops_(shared_->request.stop) {
  if (const auto& grammar = shared_->request.grammar) {
    grammar_.emplace(grammar);
    allowed_.resize(grammar->vocabulary().words());
  }
  if (tokenizer_) decoder_.emplace(*tokenizer_, true, text::TextPosition::kContinuation);
  if (shared_->request.reasoning) reasoning_.emplace(shared_->request.reasoning);
  if (uses_counts(shared_->request.sampling)) {
    for (const TokenId id : tokens_) ++counts_.prompt[id];
  }
  if (scores()) prompt_logprobs_.resize(tokens_.size() - 1);
}

void Sequence::propose_drafts(std::uint32_t max_drafts) {
  drafts_.clear();
  if (max_drafts > 0) propose(tokens_, max_drafts, drafts_);
}

std::optional<OutputToken> Sequence::sample_token(std::span<const float> logits,
                                                  std::uint32_t position, std::size_t row) {
  const Request& request = shared_->request;
  SamplingContext context;
  context.params = &request.sampling;
  context.seed = shared_->seed;
  context.choice = static_cast<std::uint32_t>(choice_);
  context.position = position;
  context.counts = &counts_;
  if (allow_next(logits.size(), row)) context.allowed = allowed_;
  context.forbidden = forbidden_;
  std::optional<TokenId> id = sample(logits, context);
  if (!id && grammar_ && !context.forbidden.empty()) {
    // The grammar allows end tokens alone.
    context.forbidden = {};
    id = sample(logits, context);
  }
  if (!id) return std::nullopt;
  if (request.logprobs < 0) return OutputToken{*id, 0.0F, {}};
  return describe(logits, *id, request.logprobs);
}

bool Sequence::allow_next(std::size_t vocab, std::size_t row) {
  forbidden_.clear();
  const bool bounded = reasoning_ && (row == 0 || !mutated(Mutant::kBudgetOfSteps));
  // Where the grammar does not let the reasoning close yet, it goes on.
  const std::optional<TokenId> closing = bounded ? reasoning_->forced() : std::nullopt;
  if (closing && (!grammar_ || grammar_->is_allowed(*closing))) {
    allowed_.assign((vocab + 63) / 64, 0);
    const auto id = static_cast<std::size_t>(*closing);
    allowed_[id / 64] |= std::uint64_t{1} << (id % 64);
    return true;
  }
  if (generated() < static_cast<std::uint32_t>(shared_->request.min_tokens))
    forbidden_ = shared_->ends;
  if (const auto again = reasoning_ ? reasoning_->forbidden() : std::nullopt)
    forbidden_.push_back(*again);
  if (!grammar_) return false;
  grammar_->allowed(allowed_);
  if (!shared_->request.ignore_eos) return true;
  for (const TokenId end : shared_->request.grammar->vocabulary().ends()) {
    const auto id = static_cast<std::size_t>(end);
    allowed_[id / 64] &= ~(std::uint64_t{1} << (id % 64));
  }
  return true;
}

Sequence::Appended Sequence::append_tokens(std::span<const float> logits, std::size_t vocab) {
  Appended appended;
  const std::size_t rows = logits.size() / vocab;
  appended.ended = !deliver_prompt(appended);
  for (std::size_t row = 0; row < rows; ++row) {
    if (appended.ended && (row == 0 || !mutated(Mutant::kReadPastTheEnd))) break;
    if (row > 0 && tokens_.back() != drafts_[row - 1] && !mutated(Mutant::kAcceptAllDrafts)) break;
    const std::uint32_t position =
        generated() - (mutated(Mutant::kOneRandomPerStep) ? appended.new_tokens : 0);
    const std::optional<OutputToken> token =
        sample_token(logits.subspan(row * vocab, vocab), position, row);
    if (token) {
      ++appended.new_tokens;
      appended.ended = accept(*token, appended.event);
    } else {
      appended.event.finish = FinishReason::kError;
      appended.event.error = {ErrorKind::kInternal, "the model's logits are not numbers"};
      appended.ended = true;
    }
  }
  OutputEvent described = event();
  appended.event.request = described.request;
  appended.event.choice = described.choice;
  appended.event.usage = described.usage;
  return appended;
}

void Sequence::append_text(const std::string& text, OutputEvent& event) {
  if (generated() <= static_cast<std::uint32_t>(shared_->request.min_tokens)) {
    event.text += text;
    return;
  }
  StopMatcher::Found found = stops_.push(text);
  event.text += found.text;
  if (found.stopped) {
    event.finish = FinishReason::kStop;
    event.stop_string = *std::move(found.stopped);
  }
}

void Sequence::append_text_of(TokenId id, OutputEvent& event) {
  if (!decoder_) return;
  const bool marks = shared_->request.mark_control_tokens;
  const bool is_control = (marks || reasoning_) && tokenizer_->is_special(id);
  const std::string marked =
      is_control ? grammar::control_token(tokenizer_->token_text(id)) : std::string();
  if (!marks || !is_control) {
    const std::string text = decoder_->push(id);
    if (reasoning_) reasoning_->accept(id, is_control ? marked : text);
    append_text(text, event);
    return;
  }
  // What was held ends here.
  const std::string held = decoder_->finish();
  if (reasoning_) reasoning_->accept(id, held + marked);
  append_text(held, event);
  decoder_.emplace(*tokenizer_, true, text::TextPosition::kContinuation);
  if (event.finish) return;
  event.text += stops_.finish() + marked;
}

bool Sequence::accept(const OutputToken& token, OutputEvent& event) {
  const Request& request = shared_->request;
  const TokenId id = token.id;
  tokens_.push_back(id);
  if (uses_counts(request.sampling)) ++counts_.output[id];
  if (grammar_) {
    [[maybe_unused]] const bool allowed = grammar_->accept(id);
    assert(allowed);
  }

  if (std::binary_search(shared_->ends.begin(), shared_->ends.end(), id)) {
    event.finish = FinishReason::kStop;
  } else {
    event.tokens.push_back(token);
    append_text_of(id, event);
    if (!event.finish && grammar_ && grammar_->must_end()) event.finish = FinishReason::kStop;
    if (!event.finish && generated() == static_cast<std::uint32_t>(request.max_tokens))
      event.finish = FinishReason::kLength;
  }
  // Held text is final at the end; bytes of an incomplete character may still complete a stop
  // string.
  if (event.finish && event.stop_string.empty()) {
    const bool cut = event.finish == FinishReason::kLength;
    std::string held;
    if (decoder_) held = cut ? decoder_->cut() : decoder_->finish();
    StopMatcher::Found rest = stops_.push(held);
    event.text += rest.text;
    if (rest.stopped) {
      event.finish = FinishReason::kStop;
      event.stop_string = *std::move(rest.stopped);
    } else {
      event.text += stops_.finish();
    }
  }
  return event.finish.has_value();
}

model::Range Sequence::hidden_rows(std::uint32_t first, std::uint32_t tokens, bool last) const {
  if (pools()) return pooled_rows(first, tokens, last);
  if (!scores()) return {};
  // The last row of a prompt says nothing of a token of it.
  const auto rows = static_cast<std::uint32_t>(shared_->request.prompt.size()) - 1;
  const std::uint32_t end = std::min(first + tokens, rows);
  if (scored_ >= end) return {};
  assert(first <= scored_);
  return {scored_ - first, end - first};
}

void Sequence::score(std::uint32_t position, std::span<const float> logits) {
  prompt_logprobs_[position] =
      describe(logits, tokens_[position + 1], shared_->request.prompt_logprobs);
}

bool Sequence::deliver_prompt(Appended& appended) {
  const bool numbers =
      std::none_of(prompt_logprobs_.begin(), prompt_logprobs_.end(),
                   [](const OutputToken& token) { return std::isnan(token.logprob); });
  if (numbers) {
    appended.event.prompt_logprobs = std::move(prompt_logprobs_);
  } else {
    appended.event.finish = FinishReason::kError;
    appended.event.error = {ErrorKind::kInternal, "the model's logits are not numbers"};
  }
  prompt_logprobs_.clear();
  return numbers;
}

Sequence::Appended Sequence::finish_prompt() {
  Appended appended;
  appended.event = event();
  appended.event.finish = FinishReason::kLength;
  appended.ended = true;
  appended.new_tokens = 1;
  tokens_.push_back(0);  // stands for the token that a sequence ends with
  deliver_prompt(appended);
  return appended;
}

model::Range Sequence::pooled_rows(std::uint32_t first, std::uint32_t tokens, bool last) const {
  switch (pooling_) {
    case load::Pooling::kMean:
      return {0, tokens};
    case load::Pooling::kFirst:
      return {0, first == 0 ? 1U : 0U};
    case load::Pooling::kNone:
    case load::Pooling::kLast:
      break;
  }
  return {last ? tokens - 1 : tokens, tokens};
}

void Sequence::pool(std::uint32_t first, std::span<const float> rows, std::size_t hidden_size) {
  // After a preemption all rows come again.
  if (first == 0 || pooled_.empty()) {
    pooled_.assign(hidden_size, 0.0F);
    pooled_count_ = 0;
  }
  for (; !rows.empty(); rows = rows.subspan(hidden_size), ++pooled_count_) {
    for (std::size_t i = 0; i < hidden_size; ++i) pooled_[i] += rows[i];
  }
}

Sequence::Appended Sequence::finish_pooled(const model::Backend& backend) {
  Appended appended;
  appended.event = event();
  appended.ended = true;
  appended.new_tokens = 1;
  tokens_.push_back(0);  // stands for the token that a sequence ends with
  for (float& value : pooled_) value /= static_cast<float>(pooled_count_);
  const std::vector<float> row = backend.apply_head(std::move(pooled_));
  appended.event.finish = FinishReason::kStop;
  bool numbers = true;
  if (shared_->request.rank) {
    appended.event.score = backend.score(row);
    numbers = std::isfinite(appended.event.score);
  } else {
    appended.event.embedding = scaled_to_one(row);
    numbers = !appended.event.embedding.empty();
  }
  if (!numbers) {
    appended.event.finish = FinishReason::kError;
    appended.event.error = {ErrorKind::kInternal, "the model's hidden rows are not numbers"};
  }
  return appended;
}

void Sequence::end_early(FinishReason reason, const Error& error) {
  OutputEvent last = event();
  last.finish = reason;
  last.error = error;
  shared_->sink(std::move(last));
}

OutputEvent Sequence::event() const {
  OutputEvent last;
  last.request = shared_->id;
  last.choice = choice_;
  last.usage.prompt_tokens = static_cast<std::uint32_t>(shared_->request.prompt.size());
  last.usage.cached_tokens = cached_tokens_;
  last.usage.completion_tokens = generated();
  last.usage.queue_seconds = queue_seconds_;
  return last;
}

}  // namespace dovetail::engine
