#include "laws/checker/fake_model.h"

#include <fmt/core.h>

namespace dovetail::laws {

std::int32_t FakeRequest::token(std::uint32_t position) const {
  constexpr std::int64_t kRange = 100000;
  const std::int64_t owner =
      position < shared ? 20000 + static_cast<std::int64_t>(family) : static_cast<std::int64_t>(id);
  return static_cast<std::int32_t>(owner * kRange + position);
}

namespace {

// What the row leaves behind at its i-th token: of a rejected draft token, a wrong one.
std::int32_t taken(const schedule::Row& row, std::uint32_t i, const FakeRequest& request) {
  const bool wrong = i > request.right && i >= row.tokens - row.drafts;
  return wrong ? -2 : request.token(row.first_position + i);
}

}  // namespace

FakeModel::Cell* FakeModel::at(const schedule::Row& row, std::size_t group,
                               std::uint32_t position) {
  const kv::BlockId block = row.blocks[position / block_size_ * groups_.size() + group];
  if (block == kv::kNoBlock) return nullptr;
  return &cache_[std::size_t{block} * block_size_ + position % block_size_];
}

std::string FakeModel::compute(const schedule::Row& row, std::span<const kv::SavedState> saves,
                               const FakeRequest& request) {
  const std::uint32_t real = row.tokens - row.drafts;
  const std::uint32_t end = row.first_position + real;
  const std::size_t places = row.blocks.size() / groups_.size();
  const auto generated = [&](std::uint32_t position) {
    return tells_generated_ && position >= request.prompt;
  };
  if (places * block_size_ < row.first_position + row.tokens)
    return fmt::format("law 2: the row of {} has {} blocks for {} positions", request.id, places,
                       row.first_position + row.tokens);
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    for (std::uint32_t position = 0; position < row.first_position; ++position) {
      // The row's first token sees most.
      const std::uint32_t window = groups_[group].window;
      if (window > 0 && position + window <= row.first_position) continue;
      const Cell expected{request.token(position), position, group, generated(position)};
      const Cell* found = at(row, group, position);
      if (found == nullptr)
        return fmt::format("law 5: {} sees position {} of group {}, whose block it has released",
                           request.id, position, group);
      if (found->token == expected.token && found->generated != expected.generated)
        return fmt::format("law 5: {} reads position {} as it was {}, and has it {}", request.id,
                           position, found->generated ? "generated" : "of a prompt",
                           found->generated ? "of its prompt" : "generated");
      if (*found != expected)
        return fmt::format(
            "law 5: {} reads token {} of position {} at position {}, where its own is {}",
            request.id, found->token, found->position, position, expected.token);
    }
  }
  if (end > request.tokens)
    return fmt::format("law 5: {} reads {} tokens, {} are known", request.id, end, request.tokens);
  if (row.sampled != (end == request.tokens))
    return fmt::format("law 5: {} has {} tokens and is {}sampled at {}", request.id, request.tokens,
                       row.sampled ? "" : "not ", end);
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    for (std::uint32_t i = 0; i < row.tokens; ++i) {
      const std::uint32_t position = row.first_position + i;
      Cell* cell = at(row, group, position);
      if (cell == nullptr)
        return fmt::format("law 2: {} has no block for position {} of group {}", request.id,
                           position, group);
      *cell = {taken(row, i, request), position, group, generated(position)};
    }
  }
  return has_states_ ? advance(row, saves, request) : "";
}

std::string FakeModel::advance(const schedule::Row& row, std::span<const kv::SavedState> saves,
                               const FakeRequest& request) {
  State& state = states_[row.slot];
  if (row.first_position == 0) state.clear();
  if (row.load != kv::kNoBlock) state = saved_[row.load];
  bool own = state.size() == row.first_position;
  for (std::uint32_t i = 0; own && i < row.first_position; ++i) own = state[i] == request.token(i);
  if (!own)
    return fmt::format("law 5: {} goes on at position {} with a state that is not its own",
                       request.id, row.first_position);
  for (std::uint32_t i = 0; i < row.tokens; ++i) {
    state.push_back(taken(row, i, request));
    while (!saves.empty() && saves.front().positions == state.size()) {
      saved_[saves.front().state] = state;
      saves = saves.subspan(1);
    }
  }
  return saves.empty() ? ""
                       : fmt::format(
                             "law 5: {} saves the state at position {}, which its row "
                             "does not reach",
                             request.id, saves.front().positions);
}

}  // namespace dovetail::laws
