#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>
#include <vector>

#include "engine/sequence.h"

namespace dovetail::engine {
namespace {

struct Matched {
  std::string text, stopped;
  bool operator==(const Matched&) const = default;
};

Matched feed(const std::vector<std::string>& stops, const std::vector<std::string>& pieces) {
  StopMatcher matcher(stops);
  Matched result;
  for (const std::string& piece : pieces) {
    StopMatcher::Found found = matcher.push(piece);
    result.text += found.text;
    if (found.stopped) {
      result.stopped = *found.stopped;
      return result;
    }
  }
  result.text += matcher.finish();
  return result;
}

TEST(StopMatcher, EndsBeforeTheStopString) {
  struct Case {
    std::vector<std::string> stops, pieces;
    Matched expected;
  };
  const Case cases[] = {
      {{}, {"abc", "def"}, {"abcdef", ""}},
      {{"x"}, {"abc", "def"}, {"abcdef", ""}},
      {{"cd"}, {"abc", "def"}, {"ab", "cd"}},
      {{"cd"}, {"abc", "ef"}, {"abcef", ""}},
      {{"abc"}, {"a", "b", "c"}, {"", "abc"}},
      {{"aab"}, {"aaa", "b"}, {"a", "aab"}},
      {{"\n\n"}, {"one\n", "\ntwo"}, {"one", "\n\n"}},
      {{"b", "abc"}, {"xabc"}, {"xa", "b"}},    // the first to be complete
      {{"bc", "abc"}, {"xabc"}, {"x", "abc"}},  // both complete at once: the longer
      {{"END"}, {"the EN", "d EN"}, {"the ENd EN", ""}},
      {{"é"}, {"caf", "é au lait"}, {"caf", "é"}},
  };
  for (const Case& c : cases) EXPECT_EQ(feed(c.stops, c.pieces), c.expected) << c.pieces.front();
}

TEST(StopMatcher, HoldsBackOnlyWhatMayBecomeAStop) {
  StopMatcher matcher({"hello"});
  EXPECT_EQ(matcher.push("say hel").text, "say ");
  EXPECT_EQ(matcher.push("p").text, "help");
  EXPECT_EQ(matcher.push("he").text, "");
  EXPECT_EQ(matcher.finish(), "he");
}

TEST(StopMatcher, DoesNotDependOnHowTheTextIsCut) {
  rc::check([] {
    const auto letters = rc::gen::container<std::string>(rc::gen::elementOf(std::string("ab")));
    const auto stops = *rc::gen::container<std::vector<std::string>>(rc::gen::nonEmpty(letters));
    const auto pieces = *rc::gen::container<std::vector<std::string>>(letters);
    std::string whole;
    for (const std::string& piece : pieces) whole += piece;
    // By definition: the smallest end of any stop string, and the longest stop there.
    Matched expected{whole, ""};
    for (std::size_t end = 0; end <= whole.size() && expected.stopped.empty(); ++end) {
      for (const std::string& stop : stops) {
        if (whole.substr(0, end).ends_with(stop) && stop.size() > expected.stopped.size())
          expected = {whole.substr(0, end - stop.size()), stop};
      }
    }
    RC_ASSERT(feed(stops, pieces).text == expected.text);
    RC_ASSERT(feed(stops, pieces).stopped == expected.stopped);
  });
}

}  // namespace
}  // namespace dovetail::engine
