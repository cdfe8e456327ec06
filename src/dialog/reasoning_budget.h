#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dialog/format.h"

namespace dovetail::dialog {

using TokenId = std::int32_t;

// What bounds the reasoning of an answer to messages.
struct ReasoningBound {
  std::int32_t tokens = -1;  // at most; -1: any number
  // What the model is taken to have thought last where they are spent, so that its answer does not
  // begin in the middle of a thought. Plain text: control tokens that it spells are none. Not
  // written where there is to be no reasoning at all.
  std::string message = {};
};

// How many tokens of an answer may be reasoning, and which tokens close it when they are spent.
// Immutable.
struct ReasoningBudget {
  std::uint32_t tokens = 0;
  // What begins and ends reasoning, with control tokens marked (DialogFormat::marked()).
  std::string open, close;
  bool opened = false;  // the prompt ends within the reasoning
  // Reasoning is the messages of one channel: every control token ends such a message, others may
  // follow, and their tokens add up.
  bool channels = false;
  std::vector<TokenId> closing;  // at least one
  // With channels: where a message has begun, the token that makes it reasoning.
  std::optional<TokenId> again;
};

// The tokens of a text; with `special`, what spells a control token is that.
using EncodeText = std::function<std::vector<TokenId>(std::string_view text, bool special)>;

// The budget of an answer to `prompt`; null: there is no bound, or the model does not reason.
std::shared_ptr<const ReasoningBudget> reasoning_budget(const DialogFormat& format,
                                                        std::string_view prompt,
                                                        const ReasoningBound& bound,
                                                        const EncodeText& encode);

// What templates read of it: whether the model reasons (not set: as the template has it), and for
// how many tokens at most (-1: any number).
Json reasoning_variables(std::optional<bool> reasons, std::int32_t tokens);

// Counts one answer's tokens of reasoning, and says what must come next when they are spent. A
// function of the answer's tokens alone, which are taken one by one; a budget that is not spent
// says nothing. Cheap to copy; one thread at a time.
class ReasoningMeter {
 public:
  explicit ReasoningMeter(std::shared_ptr<const ReasoningBudget> budget);

  // The token that comes next, where the reasoning must close; nothing: any.
  std::optional<TokenId> forced() const;
  // A token that may not come next: it would begin reasoning after the budget was spent.
  std::optional<TokenId> forbidden() const;

  // The answer's next token, and the text that it adds: whole characters, which may come with a
  // later token; control tokens marked.
  void accept(TokenId token, std::string_view text);

 private:
  enum class Place : std::uint8_t {
    kStart,    // reasoning may begin, behind white space
    kWithin,   // reasoning
    kOutside,  // channels: anything but reasoning
    kBehind,   // no reasoning can follow
  };

  bool spent() const { return used_ >= budget_->tokens; }
  void read(char byte);
  void enter(Place place);

  std::shared_ptr<const ReasoningBudget> budget_;
  Place place_;
  std::string tail_;             // of the text since the place was entered: what may become a mark
  std::uint32_t used_ = 0;       // tokens of reasoning
  std::uint32_t held_ = 0;       // last tokens whose text has not come
  std::size_t closed_with_ = 0;  // tokens of `closing` that have come
};

}  // namespace dovetail::dialog
