#include "grammar/regex.h"

#include <array>

#include "grammar/determinize.h"

namespace dovetail::grammar {
namespace {

struct ShortEscape {
  char32_t value;
  char letter;
};
constexpr std::array<ShortEscape, 7> kShortEscapes = {
    {{'"', '"'}, {'\\', '\\'}, {'\b', 'b'}, {'\f', 'f'}, {'\n', 'n'}, {'\r', 'r'}, {'\t', 't'}}};
constexpr std::string_view kHex = "0123456789abcdef";

class Emitter {
 public:
  Emitter(Nfa& nfa, const Regex& regex, Spelling spelling)
      : nfa_(nfa), regex_(regex), spelling_(spelling) {}

  Nfa::State set(Nfa::State from, const CodePointSet& set) {
    return spelling_ == Spelling::kPlain ? nfa_.code_point(from, set)
                                         : add_json_character(nfa_, from, set);
  }

  Nfa::State node(Nfa::State from, std::uint32_t index) {
    const Regex::Node& node = regex_.nodes[index];
    switch (node.kind) {
      case Regex::Kind::kSet:
        return set(from, node.set);
      case Regex::Kind::kSequence:
        for (const std::uint32_t child : node.children) from = this->node(from, child);
        return from;
      case Regex::Kind::kUnion: {
        const Nfa::State to = nfa_.add_state();
        for (const std::uint32_t child : node.children) {
          nfa_.nothing(this->node(from, child), to);
        }
        return to;
      }
      case Regex::Kind::kRepeat:
        return repeat(from, node);
    }
    return from;
  }

  Nfa::State loop(Nfa::State from, const auto& body) {
    const Nfa::State again = nfa_.add_state();
    const Nfa::State to = nfa_.add_state();
    nfa_.nothing(from, again);
    nfa_.nothing(body(again), again);
    nfa_.nothing(again, to);
    return to;
  }

 private:
  // Every copy takes a state of its own, so that the bound on states ends each loop.
  Nfa::State copy_of(Nfa::State from, std::uint32_t child) {
    const Nfa::State own = nfa_.add_state();
    nfa_.nothing(from, own);
    return node(own, child);
  }

  Nfa::State repeat(Nfa::State from, const Regex::Node& node) {
    const std::uint32_t child = node.children[0];
    for (std::uint32_t i = 0; i < node.min && !nfa_.full(); ++i) from = copy_of(from, child);
    if (node.max == Regex::kUnbounded) {
      return loop(from, [&](Nfa::State at) { return this->node(at, child); });
    }
    const Nfa::State to = nfa_.add_state();
    nfa_.nothing(from, to);
    for (std::uint32_t i = node.min; i < node.max && !nfa_.full(); ++i) {
      from = copy_of(from, child);
      nfa_.nothing(from, to);
    }
    return to;
  }

  Nfa& nfa_;
  const Regex& regex_;
  Spelling spelling_;
};

}  // namespace

Nfa::State add_regex(Nfa& nfa, Nfa::State from, const Regex& regex, Spelling spelling, Span span) {
  Emitter emitter(nfa, regex, spelling);
  const auto anything = [&](Nfa::State at) {
    return emitter.loop(at, [&](Nfa::State s) { return emitter.set(s, CodePointSet::any()); });
  };
  const Nfa::State to = nfa.add_state();
  for (const Regex::Alternative& alternative : regex.alternatives) {
    const bool part = span == Span::kPart;
    Nfa::State at = part && !alternative.from_start ? anything(from) : from;
    at = emitter.node(at, alternative.node);
    if (part && !alternative.to_end) at = anything(at);
    nfa.nothing(at, to);
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
