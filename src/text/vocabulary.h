#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/tokenizer.h"

namespace dovetail::text {

struct StringHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>()(text);
  }
};

template <class T>
using StringMap = std::unordered_map<std::string, T, StringHash, std::equal_to<>>;

// The spellings of tokens by id and back. Ids may have gaps; a gap has an empty spelling.
class Vocabulary {
 public:
  // Gives `text` to `id`. Where two ids share a spelling, the last one put is found.
  void put(std::string_view text, TokenId id);

  std::optional<TokenId> find(std::string_view text) const;
  // Empty for gaps and ids out of range.
  std::string_view text(TokenId id) const;
  bool has(TokenId id) const;
  // One more than the largest id.
  std::size_t size() const { return texts_.size(); }
  std::size_t longest() const { return longest_; }  // bytes

 private:
  std::vector<std::string> texts_;
  std::vector<bool> present_;
  StringMap<TokenId> ids_;
  std::size_t longest_ = 0;
};

// The token that stands for a byte in vocabularies with byte fallback: <0x0A>.
std::string byte_token(std::uint8_t byte);

}  // namespace dovetail::text
