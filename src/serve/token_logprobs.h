#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dovetail/request.h"

namespace dovetail::serve {

using TokenBytes = std::function<std::string(TokenId)>;

// JSON has no infinity; OpenAI's API shows what has no probability as -9999.
double shown_logprob(float logprob);

// The logprobs of a chat and of a response: an object for each token, with its bytes and the
// alternatives that were asked for.
nlohmann::ordered_json dialog_logprobs(std::span<const OutputToken> tokens,
                                       const TokenBytes& bytes);

// "logprobs" of a completion: parallel arrays. `text_offset` is where the first of the tokens
// begins in the choice's text, in code points, and is moved behind the last one.
nlohmann::ordered_json completion_logprobs(std::span<const OutputToken> tokens,
                                           std::size_t& text_offset, const TokenBytes& bytes);

// The same of a prompt that is echoed as `text`: `scores` are of its tokens from the second on, of
// which at most `top` alternatives are shown; nothing is known of the first. `text_offset` is set
// behind the text.
nlohmann::ordered_json echoed_logprobs(const std::vector<TokenId>& prompt,
                                       const std::vector<OutputToken>& scores, std::int32_t top,
                                       std::string_view text, std::size_t& text_offset,
                                       const TokenBytes& bytes);

// "prompt_logprobs" as vLLM shows them: an object for each of the prompt's tokens, by id: the token
// itself and `top` alternatives at most; null for the first one.
nlohmann::ordered_json prompt_logprobs(const std::vector<OutputToken>& scores, std::int32_t top,
                                       const TokenBytes& bytes);

}  // namespace dovetail::serve
