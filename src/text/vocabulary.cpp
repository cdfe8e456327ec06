#include "text/vocabulary.h"

#include <algorithm>
#include <cassert>

namespace dovetail::text {

void Vocabulary::put(std::string_view text, TokenId id) {
  assert(id >= 0);
  const auto index = static_cast<std::size_t>(id);
  if (index >= texts_.size()) {
    texts_.resize(index + 1);
    present_.resize(index + 1);
  }
  texts_[index] = text;
  present_[index] = true;
  ids_.insert_or_assign(std::string(text), id);
  longest_ = std::max(longest_, text.size());
}

std::optional<TokenId> Vocabulary::find(std::string_view text) const {
  const auto found = ids_.find(text);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

std::string_view Vocabulary::text(TokenId id) const {
  if (!has(id)) return {};
  return texts_[static_cast<std::size_t>(id)];
}

bool Vocabulary::has(TokenId id) const {
  return id >= 0 && static_cast<std::size_t>(id) < texts_.size() &&
         present_[static_cast<std::size_t>(id)];
}

std::string byte_token(std::uint8_t byte) { return fmt::format("<0x{:02X}>", byte); }

}  // namespace dovetail::text
