#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace dovetail::grammar {

using TokenId = std::int32_t;

// What a control token puts into a text where it is marked: the byte FF, its spelling, the byte FE.
std::string control_token(std::string_view spelling);
// Whether bytes hold FF or FE.
bool holds_control_bytes(std::string_view bytes);

// What every token of a model puts into the text, as a trie in flat arrays. Immutable.
class Vocabulary {
 public:
  // `tokens[id]` are the bytes of token `id`: control_token() of those that a structure may ask
  // for, none for tokens that are never allowed. Those of `ends` stand for the end of the text,
  // whatever bytes they have. Errors: an id in `ends` that is no token; more than 2^31 bytes in
  // all.
  static Result<Vocabulary> create(const std::vector<std::string>& tokens,
                                   std::span<const TokenId> ends);

  std::size_t size() const { return offsets_.size() - 1; }
  // Words of a mask with one bit per token.
  std::size_t words() const { return (size() + 63) / 64; }
  // Empty for end tokens, tokens without bytes and ids out of range.
  std::string_view bytes(TokenId token) const;
  std::span<const TokenId> ends() const { return ends_; }
  bool is_end(TokenId token) const;
  // Whether some token is exactly these bytes, or this byte.
  bool has(std::string_view bytes) const;
  bool has_byte(std::uint8_t byte) const { return single_[byte]; }
  std::size_t longest() const { return longest_; }  // bytes

  // The trie without its root, in preorder: children follow their parent, `past` is the first node
  // outside of a node's subtree, and the tokens that end in the nodes from a to b are
  // sorted()[first_token(a) .. first_token(b + 1)).
  struct Node {
    std::uint32_t past = 0;
    std::uint32_t first_token = 0;
    std::uint16_t depth = 0;  // 1 for a token's first byte
    std::uint8_t byte = 0;
  };
  std::span<const Node> nodes() const { return std::span(nodes_).first(nodes_.size() - 1); }
  // Valid for node = nodes().size() as well.
  std::uint32_t first_token(std::size_t node) const { return nodes_[node].first_token; }
  std::span<const TokenId> sorted() const { return sorted_; }

 private:
  Vocabulary() = default;

  std::string text_;
  std::vector<std::uint32_t> offsets_;
  std::vector<TokenId> ends_;
  std::vector<TokenId> sorted_;
  std::vector<Node> nodes_;  // one more, past the end
  std::vector<bool> single_ = std::vector<bool>(256, false);
  std::size_t longest_ = 0;
};

}  // namespace dovetail::grammar
