#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "grammar/grammar.h"
#include "grammar/matcher.h"
#include "grammar/token_masks.h"
#include "grammar/vocabulary.h"
#include "support/random_choices.h"

namespace dovetail::grammar::test {

// One token for every byte (token id = byte), 256 for the end, and then these.
inline std::shared_ptr<const Vocabulary> byte_vocabulary(
    std::span<const ControlToken> control_tokens = {}) {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  tokens.emplace_back("</s>");
  for (const ControlToken& token : control_tokens) tokens.push_back(control_token(token.spelling));
  const std::vector<TokenId> ends = {256};
  return std::make_shared<const Vocabulary>(Vocabulary::create(tokens, ends).value());
}

inline Matcher matcher_of(const Grammar& grammar) {
  return Matcher(TokenMasks::create(grammar, byte_vocabulary(grammar.control_tokens())).value());
}

inline bool accepts(const Matcher& start, std::string_view text) {
  Matcher matcher = start;
  return matcher.accept_bytes(text) && matcher.can_end();
}

inline bool has(const std::vector<std::uint64_t>& mask, TokenId token) {
  const auto id = static_cast<std::size_t>(token);
  return ((mask[id / 64] >> (id % 64)) & 1U) != 0;
}

inline std::vector<std::uint64_t> mask_of(const Matcher& matcher) {
  // Whatever was there before must not matter.
  std::vector<std::uint64_t> mask(matcher.masks().vocabulary().words(), 0xA5A5A5A5A5A5A5A5U);
  matcher.allowed(mask);
  return mask;
}

using dovetail::test::Random;

// Whether the mask has the tokens that can be accepted, and no others.
inline bool mask_is_what_trying_says(const Matcher& matcher) {
  const Vocabulary& vocabulary = matcher.masks().vocabulary();
  const auto mask = mask_of(matcher);
  for (std::size_t id = 0; id < vocabulary.words() * 64; ++id) {
    const auto token = static_cast<TokenId>(id);
    bool may = false;
    if (vocabulary.is_end(token)) {
      may = matcher.can_end();
    } else if (!vocabulary.bytes(token).empty()) {
      Matcher copy = matcher;
      may = copy.accept_bytes(vocabulary.bytes(token));
    }
    if (has(mask, token) != may) return false;
  }
  return true;
}

}  // namespace dovetail::grammar::test
