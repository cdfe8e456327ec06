#include "grammar/gbnf.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "grammar/json_validator.h"
#include "grammar/support.h"

namespace dovetail::grammar {
namespace {

using test::Random;
using testing::HasSubstr;

struct GbnfCase {
  std::string grammar;
  std::vector<std::string> good;
  std::vector<std::string> bad;
};

void check_gbnf(const std::vector<GbnfCase>& cases) {
  for (const GbnfCase& c : cases) {
    const auto grammar = Grammar::from_gbnf(c.grammar);
    ASSERT_TRUE(grammar) << c.grammar << ": " << grammar.error().message;
    const Matcher matcher = test::matcher_of(*grammar);
    for (const std::string& text : c.good) {
      EXPECT_TRUE(test::accepts(matcher, text)) << c.grammar << " on " << text;
    }
    for (const std::string& text : c.bad) {
      EXPECT_FALSE(test::accepts(matcher, text)) << c.grammar << " on " << text;
    }
  }
}

TEST(Gbnf, Pieces) {
  check_gbnf({
      {R"g(root ::= "yes" | "no")g", {"yes", "no"}, {"", "yesno"}},
      {"# a comment\nroot ::= a b # another\n\na ::= [0-9]+\nb ::= (\n \"x\" |\n \"y\"\n)?\n",
       {"1", "12x", "0y"},
       {"x", "1xy"}},
      {"root ::= \"a\"\n  | \"b\" |\n  \"c\"\n", {"a", "b", "c"}, {"ab"}},
      {R"g(root ::= "ab"{2} [^a-c\n] .)g",
       {"ababdx", "abab\xc3\xa9\n"},
       {"ababab", "abx1", "ababd"}},
      {R"g(root ::= "a"{1,2}"b"{2,} ("c" "d")*)g", {"abb", "aabbbcdcd"}, {"ab", "aaabb", "abbc"}},
      {R"g(root ::= "\x41\u00e9\U0001F600\n\"\\" [\]\-\\a-])g",
       {"A\xc3\xa9\xf0\x9f\x98\x80\n\"\\]", "A\xc3\xa9\xf0\x9f\x98\x80\n\"\\-"},
       {"A\xc3\xa9\xf0\x9f\x98\x80\n\"\\b"}},
      {R"g(root ::= "")g", {""}, {"a"}},
      {"root ::= a-1 a_2\na-1::=\"x\"\r\na_2 ::= | \"y\"\r\n", {"x", "xy"}, {"y"}},
  });
}

TEST(Gbnf, RulesThatReferToThemselves) {
  check_gbnf({
      // Loops, which may follow each other.
      {R"g(root ::= ws "a" ws ws
ws ::= ([ \t\n] ws)?)g",
       {"a", "  a \n ", "a"},
       {"", "a b"}},
      {R"g(root ::= "x" root | "y")g", {"y", "xxy"}, {"x", "yy"}},
      // Nesting.
      {R"g(root ::= "(" root ")" | "[" root "]" | "")g",
       {"", "()", "([()])"},
       {"(", "([)]", "()()"}},
      {R"g(root ::= term (("+" | "-") term)*
term ::= factor ([*/] factor)*
factor ::= [0-9]+ | "(" root ")")g",
       {"1", "1+2*3", "(1-(2))/3"},
       {"", "1+", "(1", "1)", "()"}},
      {R"g(root ::= item
item ::= "<" item* ">")g",
       {"<>", "<<><<>>>"},
       {"", "<", "<>>", "<><>"}},
      // Which may be empty.
      {R"g(root ::= "a" nest "z"
nest ::= ("(" nest ")")?)g",
       {"az", "a(())z"},
       {"a(z", "a()()z"}},
  });
}

// White space behind every token, so that what nests ends in it.
TEST(Gbnf, Json) {
  const auto grammar = Grammar::from_gbnf(R"g(# JSON objects
root ::= map
any ::= map | list | text | count | ("null" | "true" | "false") gap
map ::= "{" gap (text ":" gap any ("," gap text ":" gap any)*)? "}" gap
list ::= "[" gap (any ("," gap any)*)? "]" gap
text ::= "\"" ([^\x00-\x1f"\\] | "\\" ([nrtbf/"\\] | "u" [0-9a-f]{4}))* "\"" gap
count ::= "-"? [0-9]+ ("." [0-9]+)? (("e" | "E") [+-]? [0-9]+)? gap
gap ::= " "? | "\n" " "{0,20}
)g");
  ASSERT_TRUE(grammar) << grammar.error().message;
  const Matcher matcher = test::matcher_of(*grammar);
  const Json document = Json::parse(
      R"({"a":[1,[],{},[[true,null]]],"b":{"c":{"d":["x \n\u0001y",-1.5e3]}},"e":[{"f":1}]})");
  for (const int indent : {-1, 1, 2, 4}) {
    EXPECT_TRUE(test::accepts(matcher, document.dump(indent))) << indent;
  }
  for (const char* bad : {"", "[]", "{\"a\"}", "{\"a\":1,}", "{\"a\":1}}"}) {
    EXPECT_FALSE(test::accepts(matcher, bad)) << bad;
  }
}

TEST(Gbnf, RefusalsNameTheLine) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "grammar: there is no rule \"root\""},
      {"a ::= \"x\"", "grammar: there is no rule \"root\""},
      {"root ::= \"a\"\n  b\n", "grammar, line 2: "},
      {"root ::= \"a\" b\n", "grammar, line 1: there is no rule \"b\""},
      {"root ::= \"a\"\nroot ::= \"b\"", "grammar, line 2: the rule \"root\" is defined twice"},
      {"root = \"a\"", "grammar, line 1: \"::=\" is missing behind \"root\""},
      {"\nroot ::= \"a", "grammar, line 2: a literal without its closing quote"},
      {"root ::= [a", "grammar, line 1: '[' without ']'"},
      {"root ::= []", "grammar, line 1: an empty class"},
      {"root ::= [z-a]", "grammar, line 1: a range whose ends"},
      {"root ::= (\"a\"", "grammar, line 1: '(' without ')'"},
      {"root ::= \"a\")", "grammar, line 1: a rule must end with its line"},
      {"root ::= * \"a\"", "grammar, line 1: there is nothing to repeat"},
      {"root ::= \"a\"{2,1}", "grammar, line 1: a count must be"},
      {"root ::= \"a\"{x}", "grammar, line 1: a count must be"},
      {"root ::= \"a\"{9999999}", "grammar, line 1: a count beyond"},
      {"root ::= \"\\q\"", "grammar, line 1: the escape \\q is not supported"},
      {"root ::= \"\\xg0\"", "grammar, line 1: a hexadecimal digit is missing"},
      {"root ::= \"\\ud800\"", "grammar, line 1: an escape that is no character"},
      {"root ::= \"\xff\"", "grammar, line 1: not UTF-8"},
      {"root ::= <think>", "grammar, line 1: '<' is not supported here"},
      {"root ::= a\na ::= b \"x\"\nb ::= a?", "\"a\" refers to itself before"},
      {"root ::= root \"x\" | \"y\"", "grammar, line 1: \"root\" refers to itself before"},
      {"root ::= \"x\" root", "grammar: no text is one of \"root\""},
      // Palindromes, and ends of what nests that only what follows tells apart.
      {"root ::= \"a\" root \"a\" | \"b\" root \"b\" | \"a\"",
       "rules that nest: \"root\" (line 1)"},
      {"root ::= n \"x\"?\nn ::= \"<\" (n \"x\")? \">\" \"x\"?",
       "where a nested value ends depends on what follows it; rules that nest: \"n\" (line 2)"},
      {"root ::= a{1000000}\na ::= \"x\"{1000000}", "needs more than"},
      {"root ::= " + std::string(100, '(') + "\"a\"" + std::string(100, ')'),
       "grammar, line 1: groups nest too deeply"},
  };
  for (const auto& [text, message] : cases) {
    const auto grammar = Grammar::from_gbnf(text);
    ASSERT_FALSE(grammar) << text;
    EXPECT_THAT(grammar.error().message, HasSubstr(message)) << text;
  }
}

TEST(Gbnf, BoundsWhatItCosts) {
  std::string doubling = "root ::= r0 r0\n";
  std::string chain = "root ::= c0\n";
  for (int i = 0; i < 60; ++i) doubling += fmt::format("r{} ::= r{} r{}\n", i, i + 1, i + 1);
  for (int i = 0; i < 500; ++i) chain += fmt::format("c{} ::= ((((c{}))))\n", i, i + 1);
  std::string many = "root ::= \"a\"\n";
  for (int i = 0; i < 600; ++i) many += fmt::format("m{} ::= \"a\"\n", i);
  for (const std::string& text : {doubling + "r60 ::= \"\"\n", doubling + "r60 ::= \"a\"\n",
                                  chain + "c500 ::= \"a\"\n", many}) {
    const auto grammar = Grammar::from_gbnf(text);
    ASSERT_FALSE(grammar) << text.substr(0, 60);
    EXPECT_THAT(grammar.error().message,
                testing::AnyOf(HasSubstr("needs more than"), HasSubstr("nest deeper"),
                               HasSubstr("at most")));
  }
}

// The same language in two notations; `rules` gets further rules.
std::pair<std::string, std::string> random_pair(Random& random, int depth, std::string& rules) {
  static int count = 0;
  if (depth > 3 || random.one_in(4)) {
    return random.of<std::pair<std::string, std::string>>(
        {{"\"a\"", "a"}, {"\"ab\"", "ab"}, {"[ab]", "[ab]"}, {"[^a]", "[^a]"}, {"[0-9]", "\\d"}});
  }
  const auto first = random_pair(random, depth + 1, rules);
  const auto second = random_pair(random, depth + 1, rules);
  switch (random.below(5)) {
    case 0:
      return {first.first + " " + second.first, first.second + second.second};
    case 1:
      return {fmt::format("({} | {})", first.first, second.first),
              fmt::format("({}|{})", first.second, second.second)};
    case 2: {
      const auto times = random.of<std::string>({"*", "+", "?", "{2}", "{1,2}", "{0,3}"});
      return {fmt::format("({}){}", first.first, times),
              fmt::format("({}){}", first.second, times)};
    }
    case 3: {
      const std::string name = fmt::format("r{}", ++count);
      rules += fmt::format("{} ::= {}\n", name, first.first);
      return {name + " " + second.first, first.second + second.second};
    }
    default: {
      // A loop. What it repeats begins with a character.
      const std::string name = fmt::format("r{}", ++count);
      rules += fmt::format("{} ::= (\"a\" {} {})? | {}\n", name, first.first, name, second.first);
      return {name, fmt::format("(a{})*(({})?)", first.second, second.second)};
    }
  }
}

RC_GTEST_PROP(Gbnf, IsAsTheSameExpression, ()) {
  Random random(*rc::gen::arbitrary<std::uint32_t>());
  std::string rules;
  const auto [gbnf, pattern] = random_pair(random, 0, rules);
  const std::string text = "root ::= " + gbnf + "\n" + rules;
  const auto grammar = Grammar::from_gbnf(text);
  if (!grammar) RC_FAIL(text + ": " + grammar.error().message);
  const std::regex elsewhere = test::regex_for_long_texts(pattern);
  const Matcher start = test::matcher_of(*grammar);
  for (int round = 0; round < 40; ++round) {
    std::string input;
    for (std::size_t i = random.below(8); i > 0; --i) input += random.of<char>({'a', 'b', '0'});
    if (test::accepts(start, input) != std::regex_match(input, elsewhere)) {
      RC_FAIL(text + " on " + input);
    }
  }
}

}  // namespace
}  // namespace dovetail::grammar
