#include "grammar/regex.h"

#include <array>
#include <utility>

#include "grammar/determinize.h"
#include "grammar/mutation.h"

namespace dovetail::grammar {
namespace {

struct ShortEscape {
  char32_t value;
  char letter;
};
constexpr std::array<ShortEscape, 7> kShortEscapes = {
    {{'"', '"'}, {'\\', '\\'}, {'\b', 'b'}, {'\f', 'f'}, {'\n', 'n'}, {'\r', 'r'}, {'\t', 't'}}};
constexpr std::string_view kHex = "0123456789abcdef";

constexpr Nfa::State kAbsent = Nfa::kNoEdge;

// Where a text stands in an expression: states by what the character before was (a word's or not)
// and what the next must be, for \b and \B. Without these, only the first is used.
enum class Next : std::uint8_t { kAny, kWord, kOther };
using Position = std::array<Nfa::State, 6>;
constexpr std::size_t index_of(bool word_before, Next next) {
  return (word_before ? 3 : 0) + static_cast<std::size_t>(next);
}
constexpr bool word_before(std::size_t index) { return index >= 3; }
constexpr Next next_of(std::size_t index) { return static_cast<Next>(index % 3); }

class Emitter {
 public:
  Emitter(Nfa& nfa, const Regex& regex, Spelling spelling)
      : nfa_(nfa), regex_(regex), spelling_(spelling) {}

  static Position begin(Nfa::State from) {
    Position out = nowhere();
    out[index_of(false, Next::kAny)] = from;
    return out;
  }

  // Joins the places where the text may end to a state.
  void end(const Position& from, Nfa::State to) {
    for (std::size_t i = 0; i < from.size(); ++i) {
      if (from[i] != kAbsent && next_of(i) != Next::kWord) nfa_.nothing(from[i], to);
    }
  }

  Position set(const Position& from, const CodePointSet& set) {
    Position to = nowhere();
    if (!regex_.boundaries) {
      to[0] = character(from[0], set);
      return to;
    }
    const std::array<std::pair<Next, CodePointSet>, 2> halves = {
        {{Next::kOther, set.without(CodePointSet::word())},
         {Next::kWord, set.without(CodePointSet::word().negated())}}};
    for (const auto& [half, characters] : halves) {
      if (characters.empty()) continue;
      Nfa::State& target = to[index_of(half == Next::kWord, Next::kAny)];
      target = nfa_.add_state();
      for (std::size_t i = 0; i < from.size(); ++i) {
        if (from[i] == kAbsent || (next_of(i) != Next::kAny && next_of(i) != half)) continue;
        nfa_.nothing(character(from[i], characters), target);
      }
    }
    return to;
  }

  Position node(Position from, std::uint32_t index) {
    if (from == nowhere()) return from;
    const Regex::Node& node = regex_.nodes[index];
    switch (node.kind) {
      case Regex::Kind::kSet:
        return set(from, node.set);
      case Regex::Kind::kBoundary:
        return boundary(from, node.inside);
      case Regex::Kind::kSequence:
        for (const std::uint32_t child : node.children) from = this->node(from, child);
        return from;
      case Regex::Kind::kUnion: {
        Position to = nowhere();
        for (const std::uint32_t child : node.children) join(this->node(from, child), to);
        return to;
      }
      case Regex::Kind::kRepeat:
        return repeat(from, node);
    }
    return from;
  }

  Position loop(const Position& from, const auto& body) {
    Position again = nowhere();
    for (std::size_t i = 0; i < (regex_.boundaries ? again.size() : 1); ++i) {
      again[i] = nfa_.add_state();
    }
    join(from, again);
    join(body(again), again);
    return copy_of(again);
  }

 private:
  static Position nowhere() {
    Position out;
    out.fill(kAbsent);
    return out;
  }

  bool goes_on(const Position& at) const { return !nfa_.full() && at != nowhere(); }

  Nfa::State character(Nfa::State from, const CodePointSet& set) {
    return spelling_ == Spelling::kPlain ? nfa_.code_point(from, set)
                                         : add_json_character(nfa_, from, set);
  }

  void join(const Position& from, Position& to) {
    for (std::size_t i = 0; i < from.size(); ++i) {
      if (from[i] == kAbsent) continue;
      if (to[i] == kAbsent) to[i] = nfa_.add_state();
      nfa_.nothing(from[i], to[i]);
    }
  }

  // Every copy takes states of its own, so that the bound on states ends each loop.
  Position copy_of(const Position& from) {
    Position own = nowhere();
    join(from, own);
    return own;
  }

  Position boundary(const Position& from, bool inside) {
    if (mutated(Mutant::kBoundariesLeft)) return from;
    Position to = nowhere();
    for (std::size_t i = 0; i < from.size(); ++i) {
      const Next wanted = word_before(i) == inside ? Next::kWord : Next::kOther;
      if (from[i] == kAbsent || (next_of(i) != Next::kAny && next_of(i) != wanted)) continue;
      Nfa::State& target = to[index_of(word_before(i), wanted)];
      if (target == kAbsent) target = nfa_.add_state();
      nfa_.nothing(from[i], target);
    }
    return to;
  }

  Position repeat(Position from, const Regex::Node& node) {
    const std::uint32_t child = node.children[0];
    for (std::uint32_t i = 0; i < node.min && goes_on(from); ++i) {
      from = this->node(copy_of(from), child);
    }
    if (node.max == Regex::kUnbounded) {
      return loop(from, [&](const Position& at) { return this->node(at, child); });
    }
    Position to = copy_of(from);
    for (std::uint32_t i = node.min; i < node.max && goes_on(from); ++i) {
      from = this->node(copy_of(from), child);
      join(from, to);
    }
    return to;
  }

  Nfa& nfa_;
  const Regex& regex_;
  Spelling spelling_;
};

std::uint64_t count_in(const Regex& regex, std::uint32_t index) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 40U;  // beyond all bounds
  const Regex::Node& node = regex.nodes[index];
  std::uint64_t out = 1;
  for (const std::uint32_t child : node.children) out = std::max(out, count_in(regex, child));
  if (node.kind != Regex::Kind::kRepeat) return out;
  const std::uint64_t times = node.max == Regex::kUnbounded ? node.min : node.max;
  return std::min(kMost, out * std::max<std::uint64_t>(times, 1));
}

}  // namespace

std::uint64_t largest_count(const Regex& regex) {
  std::uint64_t out = 1;
  for (const Regex::Alternative& alternative : regex.alternatives) {
    out = std::max(out, count_in(regex, alternative.node));
  }
  return out;
}

Nfa::State add_regex(Nfa& nfa, Nfa::State from, const Regex& regex, Spelling spelling, Span span) {
  Emitter emitter(nfa, regex, spelling);
  const auto anything = [&](const Position& at) {
    return emitter.loop(at, [&](const Position& p) { return emitter.set(p, CodePointSet::any()); });
  };
  const Nfa::State to = nfa.add_state();
  for (const Regex::Alternative& alternative : regex.alternatives) {
    const bool part = span == Span::kPart;
    Position at = Emitter::begin(from);
    if (part && !alternative.from_start) at = anything(at);
    at = emitter.node(at, alternative.node);
    if (part && !alternative.to_end) at = anything(at);
    emitter.end(at, to);
  }
  return to;
}

Result<Automaton> compile_pattern(std::string_view pattern, Span span, Spelling spelling,
                                  std::string_view where, Work& work) {
  const auto regex = parse_regex(pattern);
  if (!regex) return fail(regex.error().kind, "{}: {}", where, regex.error().message);
  const std::string_view quote = spelling == Spelling::kJson ? "\"" : "";
  Nfa nfa(kMaxNfaStates, work.stop());
  const Nfa::State start = nfa.add_state();
  const Nfa::State text = nfa.literal(start, quote);
  const Nfa::State end = nfa.literal(add_regex(nfa, text, *regex, spelling, span), quote);
  const std::array<Rule, 1> rules = {{{start, end, std::string(where)}}};
  return determinize(nfa, rules, 0, where, work);
}

Nfa::State add_json_character(Nfa& nfa, Nfa::State from, const CodePointSet& set) {
  const CodePointSet escaped = {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};
  const Nfa::State to = nfa.add_state();
  nfa.nothing(nfa.code_point(from, set.without(escaped)), to);
  for (char32_t value = 0; value < 0x80; ++value) {
    if (!escaped.contains(value) || !set.contains(value)) continue;
    const std::string spelled = write_json_string(std::string(1, static_cast<char>(value)));
    nfa.nothing(nfa.literal(from, std::string_view(spelled).substr(1, spelled.size() - 2)), to);
  }
  return to;
}

std::string write_json_string(std::string_view utf8) {
  std::string out = "\"";
  for (const char c : utf8) {
    const auto byte = static_cast<std::uint8_t>(c);
    bool done = false;
    for (const ShortEscape& escape : kShortEscapes) {
      if (byte != escape.value) continue;
      out += '\\';
      out += escape.letter;
      done = true;
    }
    if (done) continue;
    if (byte < 0x20) {
      out += "\\u00";
      out += kHex[byte >> 4U];
      out += kHex[byte & 15U];
    } else {
      out += c;
    }
  }
  return out + "\"";
}

}  // namespace dovetail::grammar
