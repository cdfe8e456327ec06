#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "grammar/automaton.h"
#include "grammar/code_points.h"
#include "grammar/nfa.h"

namespace dovetail::grammar {

// A parsed regular expression: the part of ECMA-262 that describes regular languages. Groups of
// every kind only group; lazy quantifiers are the greedy ones; \d, \w, \b and \B are ASCII, \s is
// ECMA's, and . is all but \n, \r, U+2028 and U+2029. Everything else is refused with its byte
// offset: look-around, back-references, \p, flags, and ^ and $ but at the ends of a top
// alternative.
struct Regex {
  enum class Kind : std::uint8_t { kSet, kSequence, kUnion, kRepeat, kBoundary };
  static constexpr std::uint32_t kUnbounded = std::numeric_limits<std::uint32_t>::max();
  struct Node {
    Kind kind = Kind::kSequence;
    CodePointSet set;
    std::vector<std::uint32_t> children;  // indices of nodes
    std::uint32_t min = 0;
    std::uint32_t max = 0;  // kUnbounded: no bound
    bool inside = false;    // of kBoundary: \B
  };
  struct Alternative {
    std::uint32_t node = 0;
    bool from_start = false;  // ^
    bool to_end = false;      // $
  };
  std::vector<Node> nodes;
  std::vector<Alternative> alternatives;
  bool boundaries = false;  // whether there is a kBoundary
};

Result<Regex> parse_regex(std::string_view pattern);

// How often its counts repeat one part: the largest product of those within each other. 1 without.
std::uint64_t largest_count(const Regex& regex);

// How the text that a regular expression speaks of is written down: as it is, or inside of a JSON
// string in its canonical spelling (write_json_string()).
enum class Spelling { kPlain, kJson };

// Whether the whole text matches, or some part of it (as "pattern" in JSON Schema has it).
enum class Span { kWhole, kPart };

Nfa::State add_regex(Nfa& nfa, Nfa::State from, const Regex& regex, Spelling spelling, Span span);

// The texts that `pattern` matches as an automaton without calls; in Spelling::kJson, whole JSON
// strings in canonical spelling, quotes included. `where` begins the messages.
Result<Automaton> compile_pattern(std::string_view pattern, Span span, Spelling spelling,
                                  std::string_view where, Work& work);

// One character of a JSON string in canonical spelling: as it is, but for quotes, backslashes and
// control characters, which take their short escape or \u00xx in lower case. So every text has
// exactly one spelling.
Nfa::State add_json_character(Nfa& nfa, Nfa::State from, const CodePointSet& set);
std::string write_json_string(std::string_view utf8);

}  // namespace dovetail::grammar
