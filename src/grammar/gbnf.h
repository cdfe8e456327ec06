#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "grammar/automaton.h"
#include "grammar/code_points.h"
#include "grammar/regex.h"
#include "grammar/work.h"

namespace dovetail::grammar {

// A parsed grammar in llama.cpp's notation: rules of literals, classes of characters, `.`, groups,
// alternatives, repetitions and references.
struct Gbnf {
  enum class Kind : std::uint8_t { kSet, kSequence, kUnion, kRepeat, kRule };
  struct Node {
    Kind kind = Kind::kSequence;
    CodePointSet set;
    std::vector<std::uint32_t> children;  // indices of nodes
    std::uint32_t rule = 0;
    std::uint32_t min = 0;
    std::uint32_t max = 0;  // Regex::kUnbounded: no bound
  };
  struct Rule {
    std::string name;
    std::uint32_t line = 0;
    std::optional<std::uint32_t> body;  // a node; set in what parse_gbnf() gives
  };
  std::vector<Node> nodes;
  std::vector<Rule> rules;
  std::uint32_t root = 0;
};

// Errors name the line.
Result<Gbnf> parse_gbnf(std::string_view text);

// The texts of the rule "root". An error that names the rule where one refers to itself before it
// has read a character, and where no automaton that sees one byte at a time can tell alternatives,
// or the ends of rules that nest, apart.
Result<Automaton> compile_gbnf(std::string_view text, StopFlag stop = nullptr);

}  // namespace dovetail::grammar
