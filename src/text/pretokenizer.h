#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/pattern.h"

namespace dovetail::text {

// What becomes of the parts that a pattern matches.
enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

enum class CharacterKind { kWhiteSpace, kNumber, kPunctuation };

enum class PrependScheme { kAlways, kFirst, kNever };

struct SplitStep {
  std::variant<Pattern, CharacterKind> at;
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;  // what lies between the matches counts as matched
};

struct ByteLevelStep {  // bytes to their stand-ins
  bool add_prefix_space = false;
  std::vector<Pattern> split;  // none or one: GPT-2's expression
};

struct MetaspaceStep {
  std::string replacement = "\xE2\x96\x81";  // one character
  PrependScheme prepend = PrependScheme::kAlways;
  bool split = true;
};

using PreTokenizerStep = std::variant<SplitStep, ByteLevelStep, MetaspaceStep>;

struct Piece {
  std::string text;
  bool at_start = false;  // of the whole input
};

// How a tokenizer cuts normalized text into the pieces that its model encodes one by one.
struct PreTokenizer {
  std::vector<PreTokenizerStep> steps;

  // `text` is valid UTF-8; so are the pieces, none of which is empty.
  std::vector<Piece> split(std::string_view text, bool at_start) const;
};

// What SentencePiece writes for a space: U+2581.
inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

// GPT-2's expression, which ByteLevel splits by.
inline constexpr std::string_view kGpt2Expression =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

}  // namespace dovetail::text
