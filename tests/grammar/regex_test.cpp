#include "grammar/regex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "grammar/support.h"

namespace dovetail::grammar {
namespace {

using testing::HasSubstr;

struct Case {
  std::string pattern;
  std::vector<std::string> good;
  std::vector<std::string> bad;
};

TEST(Regex, AcceptsWholeTexts) {
  const std::vector<Case> cases = {
      {"", {""}, {"a"}},
      {"abc", {"abc"}, {"", "ab", "abcd", "xabc"}},
      {"^abc$", {"abc"}, {"ab", "abcd"}},
      {"^a|b$|c", {"a", "b", "c"}, {"", "ab"}},
      {"a|bc|", {"a", "bc", ""}, {"b", "abc"}},
      {"(a|b)*c", {"c", "abac"}, {"ab", "cc"}},
      {"(?:ab)+?", {"ab", "abab"}, {"", "aba"}},
      {"(?<name>x)y", {"xy"}, {"x"}},
      {"a{2}", {"aa"}, {"a", "aaa"}},
      {"a{2,}", {"aa", "aaaaa"}, {"a"}},
      {"a{1,3}b", {"ab", "aab", "aaab"}, {"b", "aaaab"}},
      {"(a?){3}", {"", "a", "aaa"}, {"aaaa"}},
      {"(a*)*", {"", "aaa"}, {"b"}},
      {"x{0}", {""}, {"x"}},
      {"{\"a\": ?\\d}", {"{\"a\":1}", "{\"a\": 1}"}, {"{\"a\":}"}},
      {"a{,b}", {"a{,b}"}, {"a", "ab"}},
      {"\\d\\D", {"1a", "1é"}, {"11", "a1"}},
      {"\\w+\\W", {"a_9Z-", "abé"}, {"-", "aé9", "ab é"}},
      {"\\s\\S", {" x", "\tx", "\xc2\xa0y"}, {"xx", "  "}},
      {"[a-cx]", {"a", "b", "c", "x"}, {"d", "", "ab"}},
      {"[^a-c\\n]", {"d", "é", "\xf0\x9f\x98\x80"}, {"a", "\n", "\xc3", "\xff"}},
      {"[\\]\\-a-]", {"]", "-", "a"}, {"b", "\\"}},
      {"[\\w-.]", {"a", "-", "."}, {",", "/"}},
      {"[\\b]", {"\b"}, {"b"}},
      {".", {"a", "é", "€", "\xf0\x9f\x98\x80", "\t"}, {"\n", "\r", "", "\xe2\x80\xa8", "\x80"}},
      {"\\x41\\u00e9\\t\\/\\.", {"A\xc3\xa9\t/."}, {"A\xe9\t/."}},
      {"\\ud83d\\ude00", {"\xf0\x9f\x98\x80"}, {""}},
      {"[\xc3\xa0-\xc3\xbf]", {"\xc3\xa9"}, {"\xc3", "e", "\xc4\x80"}},
      {"é+", {"é", "éé"}, {"\xc3\xa9\xa9"}},
      {"\\0", {std::string(1, '\0')}, {"0"}},
      {"\\ba\\b", {"a"}, {"", "aa"}},
      {"a\\b.*", {"a", "a b", "aé"}, {"ab", "a_"}},
      {"\\w\\B\\w|-\\B-", {"ab", "--"}, {"a", "a-"}},
      {"(?:\\w|-)\\b(\\w|-)*", {"a", "a-b", "-a", "a-"}, {"ab", "--", "-"}},
      {"(\\b[a-]+\\b)?(\\b.)?", {"", "a", "a-a", "a-", "aa-"}, {"-a", "-", "a--", "aab"}},
      {"(\\b|\\B)a(\\b)(\\b)", {"a"}, {"ab"}},
      {"(?:a\\b){0,3}", {"", "a"}, {"aa"}},
      {"\\B", {""}, {"a"}},
      {"a\\b\\B|c", {"c"}, {"a"}},
  };
  for (const Case& c : cases) {
    const auto grammar = Grammar::from_regex(c.pattern);
    ASSERT_TRUE(grammar) << c.pattern << ": " << grammar.error().message;
    const Matcher matcher = test::matcher_of(*grammar);
    for (const std::string& text : c.good)
      EXPECT_TRUE(test::accepts(matcher, text)) << c.pattern << " on " << text;
    for (const std::string& text : c.bad)
      EXPECT_FALSE(test::accepts(matcher, text)) << c.pattern << " on " << text;
  }
}

TEST(Regex, RefusesWithTheOffset) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"a(?=b)", "offset 1: look-around"},
      {"a(?!b)", "offset 1: look-around"},
      {"(?<=a)b", "offset 0: look-around"},
      {"(?<!a)b", "offset 0: look-around"},
      {"(?i)a", "offset 0: flags"},
      {"(?>a)", "offset 0: flags"},
      {"(a)\\1", "offset 3: back-references"},
      {"(?<n>a)\\k<n>", "offset 7: \\k"},
      {"a\\b*", "offset 3: a quantifier with nothing"},
      {"[\\B]", "offset 1: \\B"},
      {"\\p{L}", "offset 0: \\p"},
      {"x\\P{L}", "offset 1: \\P"},
      {"\\cA", "offset 0: \\c"},
      {"\\A", "offset 0: \\A"},
      {"\\xg0", "offset 0: \\x"},
      {"\\u{1}", "offset 0: \\u"},
      {"\\u12", "offset 0: \\u"},
      {"\\ud800", "offset 0: half of a surrogate pair"},
      {"\\01", "offset 0: \\0"},
      {"a^b", "offset 1: '^'"},
      {"a$b", "offset 1: '$'"},
      {"(^a)", "offset 1: '^'"},
      {"(a$)", "offset 2: '$'"},
      {"*a", "offset 0: a quantifier with nothing"},
      {"a|{2}", "offset 2: a quantifier with nothing"},
      {"a**", "offset 2: a quantifier after"},
      {"a*+", "offset 2: a quantifier after"},
      {"a{2}{3}", "offset 4: a quantifier after"},
      {"a{3,2}", "offset 1: a count"},
      {"a{,3}", "offset 1: a count without"},
      {"a{1,99999999999}", "offset 1: a count beyond"},
      {"(a", "offset 0: '(' without ')'"},
      {"a)", "offset 1: ')' without '('"},
      {"[a", "offset 0: '[' without ']'"},
      {"[]", "offset 0: an empty class"},
      {"[^]", "offset 0: an empty class"},
      {"[z-a]", "offset 2: a range"},
      {"[[:alpha:]]", "offset 1: POSIX"},
      {"a\\", "offset 1: a backslash"},
      {"a\xff", "offset 1: not UTF-8"},
      {"\xed\xa0\x80", "offset 0: not UTF-8"},
      {"\xc3", "offset 0: not UTF-8"},
      {std::string(200, '(') + std::string(200, ')'), "offset 100: groups nest"},
  };
  for (const auto& [pattern, message] : cases) {
    const auto grammar = Grammar::from_regex(pattern);
    ASSERT_FALSE(grammar) << pattern;
    EXPECT_THAT(grammar.error().message, HasSubstr(message)) << pattern;
  }
}

TEST(Regex, BoundsWhatItCosts) {
  for (const std::string pattern :
       {"(a{1000}){1000}", "((a{100}){100}){100}", "((?:){1000000}){1000000}", "(a|b)*a(a|b){40}",
        "(\\w{1,900}x){900}", "((?:\\b){1000000}){1000000}"}) {
    const auto grammar = Grammar::from_regex(pattern);
    ASSERT_FALSE(grammar) << pattern;
    EXPECT_THAT(grammar.error().message, HasSubstr("needs more than")) << pattern;
  }
  EXPECT_FALSE(Grammar::from_regex(std::string(1 << 17, 'a')));
}

TEST(Regex, ContradictionsCostNothing) {
  const auto grammar = Grammar::from_regex(
      "b|a\\b\\B(?:(?:(?:c{1000000}){1000000}|d{0,1000000}){1000000}){1000000}");
  ASSERT_TRUE(grammar) << grammar.error().message;
  EXPECT_TRUE(test::accepts(test::matcher_of(*grammar), "b"));
  EXPECT_FALSE(test::accepts(test::matcher_of(*grammar), "a"));
}

TEST(Regex, NoTextMatches) {
  const auto grammar = Grammar::from_regex("a[^\\s\\S]");
  ASSERT_FALSE(grammar);
  EXPECT_THAT(grammar.error().message, HasSubstr("no text matches"));
}

}  // namespace
}  // namespace dovetail::grammar
