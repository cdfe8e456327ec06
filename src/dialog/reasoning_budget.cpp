#include "dialog/reasoning_budget.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "dialog/free_text.h"
#include "dialog/texts.h"

namespace dovetail::dialog {

namespace {

// A character has at most so many tokens: text that comes later than that is held for another
// reason.
constexpr std::uint32_t kMostHeld = 4;

// The beginning of a text with channels up to the end of its first control token.
std::string_view first_token(std::string_view marked) {
  return marked.substr(0, marked.find(kTokenClose) + 1);
}

}  // namespace

std::shared_ptr<const ReasoningBudget> reasoning_budget(const DialogFormat& format,
                                                        std::string_view prompt,
                                                        const ReasoningBound& bound,
                                                        const EncodeText& encode) {
  const ReasoningFormat* reasoning = format.reasoning();
  if (reasoning == nullptr || bound.tokens < 0) return nullptr;
  auto out = std::make_shared<ReasoningBudget>();
  out->tokens = static_cast<std::uint32_t>(bound.tokens);
  out->open = format.marked(trim_right(reasoning->open));
  out->close = format.marked(reasoning->close);
  out->opened = format.opens_reasoning(prompt);
  out->channels = format.calls().channels;
  std::string closing = reasoning->close;
  if (const std::string_view begin = first_token(out->open); out->channels && !begin.empty()) {
    // On to where the next message says what it is.
    closing += "<|start|>assistant";
    closing += begin.substr(1, begin.size() - 2);
    const std::string_view rest = std::string_view(out->open).substr(begin.size());
    const std::vector<TokenId> again = encode(rest.substr(0, rest.find(kTokenOpen)), true);
    if (!again.empty()) out->again = again.front();
  }
  if (bound.tokens > 0) out->closing = encode(bound.message, false);
  const std::vector<TokenId> close = encode(closing, true);
  out->closing.insert(out->closing.end(), close.begin(), close.end());
  return out;
}

Json reasoning_variables(std::optional<bool> reasons, std::int32_t tokens) {
  Json out = Json::object();
  if (tokens >= 0) out["thinking_budget"] = tokens;
  if (tokens == 0) reasons = false;
  for (const char* name : {"enable_thinking", "thinking"})
    if (reasons) out[name] = *reasons;
  return out;
}

ReasoningMeter::ReasoningMeter(std::shared_ptr<const ReasoningBudget> budget)
    : budget_(std::move(budget)),
      place_(budget_->opened     ? Place::kWithin
             : budget_->channels ? Place::kOutside
                                 : Place::kStart) {}

std::optional<TokenId> ReasoningMeter::forced() const {
  if (closed_with_ > 0) return budget_->closing[closed_with_];
  // Not within a character.
  const bool whole = held_ == 0 || held_ >= kMostHeld;
  if (place_ == Place::kWithin && spent() && whole) return budget_->closing.front();
  return std::nullopt;
}

std::optional<TokenId> ReasoningMeter::forbidden() const {
  const bool begun = place_ == Place::kOutside && tail_ == first_token(budget_->open);
  return begun && spent() ? budget_->again : std::nullopt;
}

void ReasoningMeter::accept(TokenId token, std::string_view text) {
  if (place_ == Place::kBehind && closed_with_ == 0) return;
  const bool closes = forced() == token;
  const bool within = place_ == Place::kWithin;
  for (const char byte : text) read(byte);
  held_ = text.empty() ? held_ + 1 : 0;
  if (closes) {
    if (++closed_with_ < budget_->closing.size()) return;
    // Whatever the tokens spell.
    if (place_ == Place::kWithin) enter(budget_->channels ? Place::kOutside : Place::kBehind);
  } else if (within && place_ == Place::kWithin) {
    ++used_;
  }
  closed_with_ = 0;
}

void ReasoningMeter::enter(Place place) {
  place_ = place;
  tail_.clear();
}

void ReasoningMeter::read(char byte) {
  tail_ += byte;
  switch (place_) {
    case Place::kStart: {
      const std::string_view solid = trim_left(tail_);
      if (tail_.size() - solid.size() > kMaxHeld) return enter(Place::kBehind);
      if (solid == budget_->open) return enter(Place::kWithin);
      if (!budget_->open.starts_with(solid)) enter(Place::kBehind);
      return;
    }
    case Place::kWithin:
      if (budget_->channels) {
        if (tail_.front() != kTokenOpen) tail_.clear();
        if (byte != kTokenClose) return;
        // The token may be the first of another message.
        place_ = Place::kOutside;
        break;
      }
      if (tail_ == budget_->close) return enter(Place::kBehind);
      break;
    case Place::kOutside:
      if (tail_ == budget_->open) return enter(Place::kWithin);
      break;
    case Place::kBehind:
      return tail_.clear();
  }
  // What cannot become the mark is left out.
  const std::string& mark = place_ == Place::kWithin ? budget_->close : budget_->open;
  while (!mark.starts_with(tail_)) tail_.erase(0, 1);
}

}  // namespace dovetail::dialog
