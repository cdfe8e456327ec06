#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace dovetail::text {

// SentencePiece's compiled character map: a double-array trie (Darts-clone) from byte strings to
// the texts that take their place. Copies share the data.
class Charsmap {
 public:
  // `base64`: uint32 bytes of the trie, the trie's uint32 units, the NUL-terminated replacements.
  static Result<Charsmap> parse(std::string_view base64, std::string_view where);

  // Replaces grapheme by grapheme where a short one has an entry, else character by character.
  std::string apply(std::string_view text) const;

 private:
  struct Data {
    std::vector<std::uint32_t> units;
    std::string replacements;
  };

  std::optional<std::string_view> find(std::string_view text) const;

  std::shared_ptr<const Data> data_;
};

}  // namespace dovetail::text
