#include "laws/checker/fake_model.h"

#include <fmt/core.h>

namespace dovetail::laws {

std::int32_t FakeRequest::token(std::uint32_t position) const {
  constexpr std::int64_t kRange = 100000;
  const std::int64_t owner =
      position < shared ? 20000 + static_cast<std::int64_t>(family) : static_cast<std::int64_t>(id);
  return static_cast<std::int32_t>(owner * kRange + position);
}

std::string FakeModel::compute(const schedule::Row& row, const FakeRequest& request) {
  const std::uint32_t real = row.tokens - row.drafts;
  const std::uint32_t end = row.first_position + real;
  if (std::size_t{row.blocks.size()} * block_size_ < row.first_position + row.tokens)
    return fmt::format("law 2: the row of {} has {} blocks for {} positions", request.id,
                       row.blocks.size(), row.first_position + row.tokens);
  for (std::uint32_t position = 0; position < row.first_position; ++position) {
    const Cell expected{request.token(position), position};
    const Cell& found = at(row, position);
    if (found != expected)
      return fmt::format(
          "law 5: {} reads token {} of position {} at position {}, where its own is {}", request.id,
          found.token, found.position, position, expected.token);
  }
  if (end > request.tokens)
    return fmt::format("law 5: {} reads {} tokens, {} are known", request.id, end, request.tokens);
  if (row.sampled != (end == request.tokens))
    return fmt::format("law 5: {} has {} tokens and is {}sampled at {}", request.id, request.tokens,
                       row.sampled ? "" : "not ", end);
  for (std::uint32_t i = 0; i < row.tokens; ++i) {
    const std::uint32_t position = row.first_position + i;
    // A rejected draft token leaves a wrong token behind.
    const bool wrong = i > request.right && i >= real;
    at(row, position) = {wrong ? -2 : request.token(position), position};
  }
  return {};
}

}  // namespace dovetail::laws
