#pragma once

#include <vector>

#include "serve/request_fields.h"

namespace dovetail::serve {

// A chat's prompt and its tokens.
struct TokenizedChat {
  ChatPrompt prompt;
  std::vector<TokenId> tokens;
};

// Renders and tokenises the draft's chat. Where it truncates and the prompt does not fit the
// context, the oldest turns are left out of the draft's messages, and the ignored fields say how
// many messages these are. A turn begins with a message of a user, so that no result loses its
// call. Where the last turn alone is too long, as that of an agent at work, the oldest of its
// answers go, each with the results of its calls. System messages, the last message of a user and
// what follows the last answer's begin stay. What is left makes room for the answer where it can:
// as many tokens as are asked for, at most half of the context, and a quarter without a limit. The
// prompt may still be too long. The template runs once, and then as often as a binary search over
// the cuts takes. Errors as render_chat().
Outcome<TokenizedChat> render_fitting(Draft& draft);

}  // namespace dovetail::serve
