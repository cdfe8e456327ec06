#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "serve/api_request.h"
#include "serve/request_fields.h"

namespace dovetail::serve {

// What concerns the prompts of /v1/completions: echo, suffix, and a completion of no tokens.

// Checks what concerns several of these fields, and asks for the log-probabilities that `echo` and
// `logprobs` need together.
Problem settle_completion(Draft& draft);

// The tokens of the draft's prompt with this index, which is given away; with a suffix those for
// what stands between the two. Appends the text that the choices begin with to `echo`, where that
// is asked for.
std::vector<TokenId> completion_prompt(Draft& draft, std::size_t index,
                                       std::vector<std::string>& echo);

// What a request says of its prompts comes at once, streamed or not: it has at most so many
// entries.
Problem check_prompt_entries(const Generation& generation, std::uint64_t most);

}  // namespace dovetail::serve
