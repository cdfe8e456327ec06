#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/token_masks.h"
#include "grammar/vocabulary.h"

namespace dovetail::grammar {

// How far one sequence's text is within a grammar. Cheap to copy; one thread at a time, while the
// masks behind it are shared. Whatever has been accepted can be continued to a text of the grammar
// by allowed tokens.
class Matcher {
 public:
  explicit Matcher(std::shared_ptr<const TokenMasks> masks);

  // Sets the bits of the tokens that may come next and clears all others; end tokens are allowed
  // exactly where the text may end. mask: vocabulary().words() long.
  void allowed(std::span<std::uint64_t> mask) const;
  bool is_allowed(TokenId token) const;

  // False, and nothing changes, if the token is not allowed. After an end token, only end tokens
  // are.
  bool accept(TokenId token);
  // The same for bytes, none of which need be a token; after them, a token may begin.
  bool accept_bytes(std::string_view bytes);

  bool can_end() const;
  // Whether the text may end and nothing else can follow.
  bool must_end() const;
  // Whether an end token was accepted.
  bool ended() const { return ended_; }
  // Whether nothing can come next, not even the end. Never, by construction.
  bool is_dead() const;

  const TokenMasks& masks() const { return *masks_; }

 private:
  std::shared_ptr<const TokenMasks> masks_;
  std::uint32_t state_;
  bool ended_ = false;
  std::vector<std::uint32_t> stack_;  // return states, the lowest first
};

}  // namespace dovetail::grammar
