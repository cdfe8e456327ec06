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

// Where the messages may begin: at each turn behind the first one.
std::vector<std::size_t> later_turns(const Json& messages) {
  std::vector<std::size_t> turns;
  bool leaves_out = false;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (leaves_out && messages[i]["role"] == "user") turns.push_back(i);
    leaves_out = leaves_out || !stays(messages[i]);
  }
  return turns;
}

// The messages from `begin` on, behind those that stay.
Json messages_from(const Json& all, std::size_t begin) {
  Json messages = Json::array();
  for (std::size_t i = 0; i < all.size(); ++i)
    if (i >= begin || stays(all[i])) messages.push_back(all[i]);
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
  const Json all = draft.chat.messages;
  const std::vector<std::size_t> turns = later_turns(all);
  if (turns.empty()) return whole;

  const auto render_from = [&](std::size_t turn) {
    draft.chat.messages = messages_from(all, turns[turn]);
    return tokenized(draft);
  };
  const std::size_t room = answer_room(draft);
  // The first turn from which the prompt leaves room, else the last one.
  std::optional<TokenizedChat> best;
  std::size_t first = 0;
  std::size_t end = turns.size() - 1;
  while (first < end) {
    const std::size_t middle = first + (end - first) / 2;
    auto tried = render_from(middle);
    if (!tried) return tried;
    if (tried->tokens.size() + room <= context) {
      best = *std::move(tried);
      end = middle;
    } else {
      first = middle + 1;
    }
  }
  if (!best) {
    auto last = render_from(first);
    if (!last) return last;
    best = *std::move(last);
  }
  draft.chat.messages = messages_from(all, turns[first]);
  const std::size_t left_out = all.size() - draft.chat.messages.size();
  draft.unknown.ignore(fmt::format("messages ({} left out: longer than the context)", left_out));
  return *std::move(best);
}

}  // namespace dovetail::serve
