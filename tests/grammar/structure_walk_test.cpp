// Random structures against a recognizer that shares nothing with grammars: the same texts, and
// masks that say what trying every token says.
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "grammar/json_validator.h"
#include "grammar/support.h"
#include "support/sanitized.h"

namespace dovetail::grammar {
namespace {

using test::Random;
using Ends = std::set<std::size_t>;

bool is_utf8(const std::string& text) {
  try {
    return !Json(text).dump().empty();
  } catch (const Json::exception&) {
    return false;
  }
}

bool holds_none(const std::string& text, const Json& marks) {
  for (const Json& mark : marks) {
    if (text.find(mark["literal"].get<std::string>()) != std::string::npos) return false;
  }
  return true;
}

// The schemas of random structures, and their instances' texts as an expression.
struct Value {
  Json schema;
  std::regex texts;
};

const std::vector<Value>& values() {
  static const std::vector<Value> out = [] {
    std::vector<Value> list;
    // A tilde is a line break with its indent or nothing, with that of what is around where it is
    // not behind the bracket that opens; behind commas such or a space, and behind colons a space.
    const auto add = [&](const char* schema, const char* texts) {
      std::string expression;
      int depth = 0;
      char before = 0;
      const auto gap = [](int levels) {
        return fmt::format("(?:\\n(?: {{0,{}}}|\\t{{0,{}}}))?", 4 * levels, levels);
      };
      for (const char c : std::string(texts)) {
        const bool escaped = before == '\\';
        if (escaped && (c == '[' || c == '{')) ++depth;
        if (escaped && (c == ']' || c == '}')) --depth;
        expression += c == '~'   ? gap(before == '[' || before == '{' ? depth : depth - 1)
                      : c == ',' ? "(?:, |," + gap(depth) + ")"
                      : c == ':' ? ": ?"
                                 : std::string(1, c);
        before = c;
      }
      list.push_back({Json::parse(schema), std::regex(expression)});
    };
    add(R"({"type":"integer","minimum":0,"maximum":99})", "[0-9]|[1-9][0-9]");
    add(R"({"type":"boolean"})", "true|false");
    add(R"({"enum":["a<b",null,[1,2]]})", R"("a<b"|null|\[~1,2~\])");
    add(R"({"type":"array","items":{"type":"null"},"maxItems":3})",
        R"(\[~(null(,null)?(,null)?~)?\])");
    add(R"({"type":"array","items":{"$ref":"#"},"maxItems":2})",
        R"(\[~((\[~(\[~\](,\[~\])?~)?\])(,(\[~(\[~\](,\[~\])?~)?\]))?~)?\])");
    add(R"({"type":"object","properties":{"a":{"type":"boolean"}}})",
        R"(\{~("a":(true|false)~)?\})");
    return list;
  }();
  return out;
}

// How deep brackets nest.
int nesting(const std::string& text) {
  int most = 0;
  int depth = 0;
  for (const char c : text) {
    if (c == '[') most = std::max(most, ++depth);
    if (c == ']') depth = std::max(0, depth - 1);
  }
  return most;
}

// Where texts of `part` that begin at `from` can end.
Ends ends_of(const Json& part, const std::string& text, std::size_t from);

Ends ends_where(const std::string& text, std::size_t from, const auto& good) {
  Ends out;
  for (std::size_t to = from; to <= text.size(); ++to) {
    if (good(text.substr(from, to - from))) out.insert(to);
  }
  return out;
}

Ends ends_after(const Json& part, const std::string& text, const Ends& from) {
  Ends out;
  for (const std::size_t at : from) out.merge(ends_of(part, text, at));
  return out;
}

Ends ends_of(const Json& part, const std::string& text, std::size_t from) {
  const auto exactly = [&](const std::string& wanted) {
    return text.compare(from, wanted.size(), wanted) == 0 ? Ends{from + wanted.size()} : Ends();
  };
  if (part.contains("literal")) return exactly(part["literal"]);
  if (part.contains("token")) return exactly("\xff" + part["token"].get<std::string>() + "\xfe");
  if (part.contains("free")) {
    return ends_where(text, from, [&](const std::string& piece) {
      return is_utf8(piece) && holds_none(piece, part["free"]);
    });
  }
  if (part.contains("raw")) {
    return ends_where(text, from, [&](const std::string& piece) {
      return is_utf8(piece) && test::is_instance(part["raw"], part["raw"], piece) &&
             holds_none(piece, part.value("without", Json::array()));
    });
  }
  if (part.contains("regex")) {
    const std::regex regex(part["regex"].get<std::string>());
    return ends_where(text, from,
                      [&](const std::string& piece) { return std::regex_match(piece, regex); });
  }
  if (part.contains("schema")) {
    for (const Value& value : values()) {
      if (value.schema != part["schema"]) continue;
      const bool python = part.value("spelling", "json") == "python";
      return ends_where(text, from, [&](std::string piece) {
        if (python) {
          // None of the schemas has these words in strings.
          static const std::vector<std::pair<std::string, std::string>> kWords = {
              {"True", "true"}, {"False", "false"}, {"None", "null"}};
          for (const auto& [written, word] : kWords) {
            if (piece.find(word) != std::string::npos) return false;
          }
          for (const auto& [written, word] : kWords) {
            for (std::size_t at = piece.find(written); at != std::string::npos;
                 at = piece.find(written)) {
              piece.replace(at, written.size(), word);
            }
          }
        }
        return std::regex_match(piece, value.texts);
      });
    }
  }
  Ends out;
  if (part.contains("sequence")) {
    out = {from};
    for (const Json& next : part["sequence"]) out = ends_after(next, text, out);
  } else if (part.contains("choice")) {
    for (const Json& one : part["choice"]) out.merge(ends_of(one, text, from));
  } else if (part.contains("optional")) {
    out = ends_of(part["optional"], text, from);
    out.insert(from);
  } else {
    const std::size_t min = part.value("min", std::size_t{0});
    const std::size_t max = part.value("max", min + text.size() + 1);
    Ends at = {from};
    for (std::size_t i = 0; i <= max && !at.empty(); ++i) {
      if (i >= min) out.insert(at.begin(), at.end());
      at = ends_after(part["repeat"], text, at);
    }
  }
  return out;
}

Json random_marks(Random& random) {
  Json out = Json::array();
  for (std::size_t i = random.below(3); i > 0; --i) {
    out.push_back({{"literal", random.of<std::string>({"<t>", "b", "ab", "\xc3\xa9<", "<"})}});
  }
  return out;
}

Json random_part(Random& random, int depth) {
  const auto parts = [&](std::size_t count) {
    Json out = Json::array();
    for (; count > 0; --count) out.push_back(random_part(random, depth + 1));
    return out;
  };
  switch (random.below(depth > 2 ? 7 : 12)) {
    case 0:
    case 1:
      return {
          {"literal", random.of<std::string>({"", "a", "b", "<t>", "ab", "\xc3\xa9", "[", "1"})}};
    case 2:
      return {{"token", random.of<std::string>({"<c>", "<e>", "<cc>"})}};
    case 3:
      return {{"free", random_marks(random)}};
    case 4: {
      Json out = {{"schema", random.of(values()).schema}};
      if (random.one_in(3)) out["spelling"] = "python";
      return out;
    }
    case 5: {
      Json out = {{"raw", random.of<Json>({{{"type", "string"}},
                                           {{"type", "string"}, {"maxLength", 2}},
                                           {{"enum", {"ab", "<t>b", "\xc3\xa9"}}},
                                           {{"type", "string"}, {"pattern", "^a*$"}}})}};
      if (random.one_in(2)) out["without"] = random_marks(random);
      return out;
    }
    case 6:
      return {{"regex", random.of<std::string>({"a*", "(ab|b)?", "[ab<]{2}", "1|10|\\[\\]"})}};
    case 7:
    case 8:
      return {{"sequence", parts(random.below(4))}};
    case 9:
      return {{"choice", parts(1 + random.below(3))}};
    case 10:
      return {{"optional", random_part(random, depth + 1)}};
    default: {
      Json out = {{"repeat", random_part(random, depth + 1)}};
      if (random.one_in(2)) out["min"] = random.below(3);
      if (random.one_in(2)) out["max"] = 2 + random.below(2);
      return out;
    }
  }
}

// A free text with its mark behind it, as answers have them, among random parts.
Json random_structure(Random& random) {
  if (random.one_in(3)) return random_part(random, 0);
  const Json mark = {{"literal", random.of<std::string>({"<t>", "ab", "\xc3\xa9<"})}};
  const Json begin = random.one_in(2) ? Json({{"token", "<c>"}}) : mark;
  const Json call = {{"sequence", {begin, random_part(random, 1), {{"literal", "\n"}}}}};
  return {{"sequence", {{{"free", {mark}}}, {{"repeat", call}}, random_part(random, 2)}}};
}

constexpr TokenId kEndToken = 256;

const std::vector<std::string>& pieces() {
  static const std::vector<std::string> out = {control_token("<c>"),
                                               control_token("<e>"),
                                               control_token("<cc>"),
                                               "<t>",
                                               "<t",
                                               "ab",
                                               "bb",
                                               "a<",
                                               "\xc3\xa9<",
                                               "\xc3",
                                               "\xa9"
                                               "b",
                                               "[[",
                                               "]]",
                                               "]]]",
                                               "\n",
                                               "\n  ",
                                               " ",
                                               "[\n",
                                               ",\n\t\"a",
                                               "\n]",
                                               "[]",
                                               ", ",
                                               "true",
                                               "True",
                                               "False",
                                               "None",
                                               "null",
                                               "null]",
                                               "\"a",
                                               "{\"a\":",
                                               "}\n",
                                               "]\n<t>",
                                               "1\n",
                                               "10",
                                               "\xa9<t>",
                                               "\"a<b\"",
                                               "[1,2]",
                                               "[null, null]",
                                               "[None]",
                                               "{\"a\": false}",
                                               "\n"};
  return out;
}

std::shared_ptr<const Vocabulary> structure_vocabulary() {
  static const auto vocabulary = [] {
    std::vector<std::string> tokens;
    for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
    tokens.emplace_back("</s>");
    tokens.insert(tokens.end(), pieces().begin(), pieces().end());
    // Bytes of control tokens in pieces, which no text may be made of.
    for (const char* piece : {"\xff<", "a\xff", "\xff<c", "<c>\xfe", "c>",
                              ">\xfe"
                              "a"}) {
      tokens.emplace_back(piece);
    }
    const std::vector<TokenId> ends = {kEndToken};
    return std::make_shared<const Vocabulary>(Vocabulary::create(tokens, ends).value());
  }();
  return vocabulary;
}

// Takes random allowed tokens to a place where the text may end; nothing if it did not find one.
std::optional<std::string> walk_structure(Matcher matcher, Random& random, std::size_t steps) {
  const Vocabulary& vocabulary = matcher.masks().vocabulary();
  std::string text;
  for (std::size_t step = 0; step < 60; ++step) {
    if (random.one_in(4)) RC_ASSERT(test::mask_is_what_trying_says(matcher));
    if (matcher.must_end() || (step >= steps && matcher.can_end())) return text;
    const auto mask = test::mask_of(matcher);
    std::vector<TokenId> allowed;
    for (std::size_t id = 0; id < vocabulary.size(); ++id) {
      const auto token = static_cast<TokenId>(id);
      if (!test::has(mask, token) || vocabulary.is_end(token)) continue;
      // Control tokens come whole and alone.
      const std::string_view bytes = vocabulary.bytes(token);
      if (bytes.find_first_of("\xff\xfe") != std::string_view::npos) {
        RC_ASSERT(token > kEndToken && token <= kEndToken + 3);
      }
      // Other characters than those of the structures lead nowhere new.
      if (token < 0x80 || token > kEndToken) allowed.push_back(token);
    }
    if (allowed.empty()) return std::nullopt;
    std::vector<TokenId> long_ones;
    for (const TokenId token : allowed) {
      if (token > kEndToken || vocabulary.bytes(token).find_first_of("ab<>[]{}\",1\n") == 0) {
        long_ones.push_back(token);
      }
    }
    const TokenId token = random.of(long_ones.empty() || random.one_in(8) ? allowed : long_ones);
    RC_ASSERT(matcher.accept(token));
    text += vocabulary.bytes(token);
  }
  return std::nullopt;
}

RC_GTEST_PROP(StructureWalk, GivesTheTextsThatARecognizerTakes, ()) {
  Random random(*rc::gen::arbitrary<std::uint32_t>());
  if (dovetail::test::kSanitized && !random.one_in(5)) return;
  const Json structure = random_structure(random);
  const auto grammar = Grammar::from_structure(structure);
  if (!grammar) {
    // Only where it is asked for what cannot be told apart, or for no text.
    const std::string& message = grammar.error().message;
    if (message.find("alternatives begin alike") == std::string::npos &&
        message.find("where a nested value ends") == std::string::npos &&
        message.find("no string satisfies") == std::string::npos &&
        message.find("needs more than") == std::string::npos) {
      RC_FAIL(structure.dump() + ": " + message);
    }
    RC_DISCARD("no grammar");
  }
  const Matcher start(TokenMasks::create(*grammar, structure_vocabulary()).value());
  const auto expect_alike = [&](const std::string& text) {
    // The recognizer's expression knows arrays of arrays to this depth.
    if (nesting(text) > 3) return;
    const bool good = ends_of(structure, text, 0).contains(text.size());
    if (test::accepts(start, text) != good) {
      RC_FAIL(structure.dump() + (good ? " does not take " : " takes ") +
              Json(text).dump(-1, ' ', true, Json::error_handler_t::replace));
    }
  };
  for (int round = 0; round < dovetail::test::rounds(3); ++round) {
    auto text = walk_structure(start, random, random.below(12));
    if (!text) continue;
    if (text->size() > 120) continue;  // the recognizer is slow
    expect_alike(*text);
    // Texts nearby.
    const std::size_t at = random.below(text->size() + 1);
    if (random.one_in(2)) text->erase(at, 1 + random.below(3));
    if (random.one_in(2)) text->insert(std::min(at, text->size()), random.of(pieces()));
    expect_alike(*text);
  }
  for (int round = 0; round < dovetail::test::rounds(5); ++round) {
    std::string text;
    for (std::size_t i = random.below(6); i > 0; --i) text += random.of(pieces());
    expect_alike(text);
  }
}

}  // namespace
}  // namespace dovetail::grammar
