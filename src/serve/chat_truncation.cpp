#include "serve/chat_truncation.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

namespace dovetail::serve {
namespace {

Outcome<TokenizedChat> tokenized(const Draft& draft) {
  auto prompt = render_chat(draft.chat, draft.context);
  if (!prompt) return tl::unexpected<ApiError>(std::move(prompt.error()));
  std::vector<TokenId> tokens = encode_prompt(*prompt, draft.context.backend);
  return TokenizedChat{*std::move(prompt), std::move(tokens)};
}

bool stays(const Json& message) {
  return message["role"] == "system" || message["role"] == "developer";
}

// The messages, and what may be left out of them.
class Turns {
 public:
  explicit Turns(Json messages);

  // Cuts, by how much each leaves out.
  std::size_t cuts() const { return begins_.size(); }
  Json messages_behind(std::size_t cut) const;

 private:
  Json all_;
  std::size_t last_question_ = 0;    // the last message of a user; it stays
  std::vector<std::size_t> begins_;  // where messages go on that are not left out
};

Turns::Turns(Json messages) : all_(std::move(messages)) {
  for (std::size_t i = 0; i < all_.size(); ++i)
    if (all_[i]["role"] == "user") last_question_ = i;
  bool leaves_out = false;
  for (std::size_t i = 0; i < all_.size(); ++i) {
    if (stays(all_[i]) || i == last_question_) {
      if (leaves_out && i == last_question_) begins_.push_back(i);
      continue;
    }
    // Within the last turn, at what the model said: results stay behind their calls.
    const std::string_view begin = i < last_question_ ? "user" : "assistant";
    if (leaves_out && all_[i]["role"] == begin) begins_.push_back(i);
    leaves_out = true;
  }
}

Json Turns::messages_behind(std::size_t cut) const {
  Json messages = Json::array();
  for (std::size_t i = 0; i < all_.size(); ++i)
    if (i >= begins_[cut] || i == last_question_ || stays(all_[i])) messages.push_back(all_[i]);
  return messages;
}

std::size_t answer_room(const Draft& draft) {
  const std::size_t context = draft.context.backend.model.max_context;
  const auto asked = static_cast<std::size_t>(draft.request.max_tokens);
  return std::max<std::size_t>(1, asked == 0 ? context / 4 : std::min(asked, context / 2));
}

}  // namespace

Outcome<TokenizedChat> render_fitting(Draft& draft) {
  auto whole = tokenized(draft);
  const std::size_t context = draft.context.backend.model.max_context;
  if (!whole || !draft.truncate || whole->tokens.size() < context) return whole;
  const std::size_t count = draft.chat.messages.size();
  const Turns turns(draft.chat.messages);
  if (turns.cuts() == 0) return whole;

  const auto render_behind = [&](std::size_t cut) {
    draft.chat.messages = turns.messages_behind(cut);
    return tokenized(draft);
  };
  const std::size_t room = answer_room(draft);
  // The first cut behind which the prompt leaves room, else the last one.
  std::optional<TokenizedChat> best;
  std::size_t first = 0;
  std::size_t end = turns.cuts() - 1;
  while (first < end) {
    const std::size_t middle = first + (end - first) / 2;
    auto tried = render_behind(middle);
    if (!tried) return tried;
    if (tried->tokens.size() + room <= context) {
      best = *std::move(tried);
      end = middle;
    } else {
      first = middle + 1;
    }
  }
  if (!best) {
    auto last = render_behind(first);
    if (!last) return last;
    best = *std::move(last);
  }
  draft.chat.messages = turns.messages_behind(first);
  const std::size_t left_out = count - draft.chat.messages.size();
  draft.unknown.ignore(fmt::format("messages ({} left out: longer than the context)", left_out));
  return *std::move(best);
}

}  // namespace dovetail::serve
