#include "engine/draft_proposer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <numeric>

namespace dovetail::engine {
namespace {

using Tokens = std::vector<TokenId>;

Tokens drafts_of(const Tokens& tokens, std::uint32_t most) {
  Tokens drafts = {-1};  // of an earlier call
  propose(tokens, most, drafts);
  return drafts;
}

TEST(DraftProposer, LooksUpTheEndInWhatCameBefore) {
  struct Case {
    const char* what;
    Tokens tokens;
    std::uint32_t most;
    Tokens drafts;
  };
  const Case cases[] = {
      {"nothing to look at", {}, 3, {}},
      {"one token", {1}, 3, {}},
      {"no repetition", {1, 2, 3, 4, 5}, 3, {}},
      {"one equal token is no repetition", {1, 2, 3, 9, 1}, 3, {}},
      {"two are", {1, 2, 3, 4, 9, 1, 2}, 2, {3, 4}},
      {"at the very beginning", {1, 2, 3, 1, 2}, 1, {3}},
      {"none asked for", {1, 2, 3, 1, 2}, 0, {}},
      {"the longer end wins over the more recent", {7, 1, 2, 3, 8, 1, 2, 4, 7, 1, 2}, 1, {3}},
      {"the most recent of equals", {5, 1, 2, 3, 6, 1, 2, 4, 8, 1, 2}, 1, {4}},
      {"five equal tokens count as four",
       {0, 1, 2, 3, 4, 10, 9, 1, 2, 3, 4, 11, 0, 1, 2, 3, 4},
       1,
       {11}},
      {"a cycle goes on", {1, 2, 3, 1, 2, 3, 1, 2}, 7, {3, 1, 2, 3, 1, 2, 3}},
      {"a cycle of one", {4, 9, 9, 9}, 4, {9, 9, 9, 9}},
      {"two equal tokens alone are a beginning, not a repetition", {4, 9, 9}, 4, {}},
  };
  for (const Case& c : cases) EXPECT_EQ(drafts_of(c.tokens, c.most), c.drafts) << c.what;
}

TEST(DraftProposer, LooksBackSoFarAndNoFurther) {
  Tokens tokens(kLookBack);
  std::iota(tokens.begin(), tokens.end(), 100);
  tokens.end()[-2] = tokens[0];
  tokens.end()[-1] = tokens[1];
  EXPECT_EQ(drafts_of(tokens, 2), (Tokens{102, 103}));
  // One token later the first is out of reach, and with it the pair.
  tokens.insert(tokens.begin() + 2, 7);
  EXPECT_EQ(drafts_of(tokens, 2), Tokens());
}

// What the header says, in the slowest and plainest way.
Tokens drafts_slowly(const Tokens& tokens, std::uint32_t most) {
  for (std::size_t n = kMaxRepeat; n >= kMinRepeat; --n) {
    for (std::size_t back = 1; back + n <= tokens.size(); ++back) {
      const std::size_t begin = tokens.size() - n - back;
      if (!std::equal(tokens.end() - static_cast<std::ptrdiff_t>(n), tokens.end(),
                      tokens.begin() + static_cast<std::ptrdiff_t>(begin)))
        continue;
      Tokens longer = tokens;
      for (std::uint32_t i = 0; i < most; ++i) longer.push_back(longer[begin + n + i]);
      return Tokens(longer.begin() + static_cast<std::ptrdiff_t>(tokens.size()), longer.end());
    }
  }
  return {};
}

RC_GTEST_PROP(DraftProposer, ProposesWhatTheHeaderSays, ()) {
  const auto tokens = *rc::gen::container<Tokens>(rc::gen::inRange(0, 4));
  const auto most = *rc::gen::inRange<std::uint32_t>(0, 9);
  RC_ASSERT(drafts_of(tokens, most) == drafts_slowly(tokens, most));
}

TEST(DraftProposer, KeepsItsMemory) {
  Tokens drafts;
  propose(Tokens{1, 2, 3, 1, 2}, 8, drafts);
  const TokenId* const memory = drafts.data();
  propose(Tokens{1, 2, 3, 4}, 8, drafts);
  propose(Tokens{1, 2, 3, 4, 2, 3}, 8, drafts);
  EXPECT_EQ(drafts.size(), 8U);
  EXPECT_EQ(drafts.data(), memory);
}

}  // namespace
}  // namespace dovetail::engine
