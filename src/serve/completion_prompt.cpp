#include "serve/completion_prompt.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

namespace dovetail::serve {

Problem settle_completion(Draft& draft) {
  Request& request = draft.request;
  if (request.no_output && draft.format) {
    return problem(bad_field("max_tokens",
                             "0 leaves no text to have the format of {}; expected 1 "
                             "or more",
                             draft.format->field));
  }
  if (!draft.suffix.empty()) {
    if (!draft.context.backend.fill_in_middle) {
      return problem(bad_field("suffix",
                               "the model has no tokens for filling in the middle of a "
                               "text; expected no suffix"));
    }
    if (draft.echo) {
      return problem(bad_field("echo", "true beside suffix; expected one of them"));
    }
  }
  if (draft.echo) request.prompt_logprobs = std::max(request.prompt_logprobs, request.logprobs);
  return std::nullopt;
}

std::vector<TokenId> completion_prompt(Draft& draft, std::size_t index,
                                       std::vector<std::string>& echo) {
  const Backend& backend = draft.context.backend;
  auto& prompt = draft.prompts[index];
  auto* ids = std::get_if<std::vector<TokenId>>(&prompt);
  if (draft.echo) {
    echo.push_back(ids != nullptr ? backend.decode(*ids, false) : std::get<std::string>(prompt));
  }
  const bool fills = !draft.suffix.empty();
  std::vector<TokenId> tokens = ids != nullptr
                                    ? std::move(*ids)
                                    : backend.encode(std::get<std::string>(prompt), !fills, true);
  if (!fills) return tokens;
  std::vector<TokenId> filled =
      backend.fill_in_middle(tokens, backend.encode(draft.suffix, false, true));
  // What the tokenizer begins texts with stands before all of it.
  if (ids == nullptr) {
    const std::vector<TokenId> begin = backend.begin_ids();
    filled.insert(filled.begin(), begin.begin(), begin.end());
  }
  return filled;
}

Problem check_prompt_entries(const Generation& generation, std::uint64_t most) {
  std::uint64_t entries = 0;
  for (const Request& request : generation.requests) {
    if (request.prompt_logprobs < 0) continue;
    const auto choices = static_cast<std::uint64_t>(request.n);
    entries +=
        choices * request.prompt.size() * static_cast<std::uint64_t>(1 + request.prompt_logprobs);
  }
  if (entries <= most) return std::nullopt;
  return problem(bad_field("prompt",
                           "the log-probabilities of its tokens are {} entries of one answer; "
                           "expected at most {}",
                           entries, most));
}

}  // namespace dovetail::serve
