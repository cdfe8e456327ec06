#include "kv/kv_manager.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

namespace dovetail::kv {
namespace {

constexpr std::uint32_t kBlock = 4;

KvOptions options_of(std::vector<CacheGroup> groups, bool prefix_cache = true) {
  KvOptions options;
  options.block_size = kBlock;
  options.blocks = 64;
  options.slots = 4;
  options.prefix_cache = prefix_cache;
  options.groups = std::move(groups);
  return options;
}

KvOptions with_states(std::uint32_t saved, std::uint32_t interval) {
  KvOptions options = options_of({{}});
  options.has_states = true;
  options.saved_states = saved;
  options.state_interval = interval;
  return options;
}

// Tokens 0, 1, ..., the last ones of which are `own`.
std::vector<std::int32_t> tokens_of(std::uint32_t count, std::uint32_t shared, std::int32_t own) {
  std::vector<std::int32_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), 0);
  for (std::uint32_t i = shared; i < count; ++i) tokens[i] = own;
  return tokens;
}

// A sequence as its scheduler would play it.
struct Sequence {
  KvManager& kv;
  std::uint64_t id;
  std::vector<std::int32_t> tokens;
  BlockTable table = {};
  KvManager::Hit hit = {};
  std::vector<std::uint32_t> saved = {};  // positions

  Sequence(KvManager& manager, std::uint64_t number, std::vector<std::int32_t> prompt)
      : kv(manager), id(number), tokens(std::move(prompt)) {
    kv.arrive(table, tokens, {});
  }
  std::uint32_t count() const { return static_cast<std::uint32_t>(tokens.size()); }
  void admit() {
    hit = kv.hit(table, count());
    kv.admit(table, id, static_cast<std::uint32_t>(id), count(), 200);
  }
  void compute(std::uint32_t first, std::uint32_t end) {
    std::vector<SavedState> saves;
    kv.plan_saves(table, id, first, end - first, count(), saves);
    for (const SavedState& save : saves) saved.push_back(save.positions);
    kv.commit(table, id, end, count(), {}, true);
  }
  // Computes the last token, and gets the next one.
  void decode(std::int32_t token) {
    if (kv.capacity(table) < count()) kv.append(table, id);
    std::vector<SavedState> saves;
    kv.plan_saves(table, id, count() - 1, 1, 0, saves);
    for (const SavedState& save : saves) saved.push_back(save.positions);
    kv.commit(table, id, count(), count(), std::vector{token}, false);
    tokens.push_back(token);
  }
  std::string held() const {
    std::string text;
    for (const BlockId block : table.blocks) text += block == kNoBlock ? '.' : 'b';
    return text;
  }
};

TEST(KvManager, HoldsWhatItsGroupsSee) {
  KvManager kv(options_of({{0}, {6}}));
  Sequence one(kv, 0, tokens_of(17, 17, 0));
  one.admit();
  EXPECT_EQ(one.held(), "bbbbbbbbbb");
  one.compute(0, 8);
  // Position 8 sees 3 and later ones.
  EXPECT_EQ(one.held(), "bbbbbbbbbb");
  one.compute(8, 12);
  EXPECT_EQ(one.held(), "b.bbbbbbbb");
  one.compute(12, 17);
  EXPECT_EQ(one.held(), "b.b.b.bbbb");
  one.decode(99);
  EXPECT_EQ(one.held(), "b.b.b.bbbb");
  EXPECT_EQ(kv.pool().used(), 7U);
  kv.release(one.table, one.id);
  EXPECT_EQ(kv.pool().used(), 0U);
}

// The bound of the issue: 1/6 + 5/6 * 544/4096 of the blocks that all groups would take.
TEST(KvManager, ALongSequenceOfWindowsHoldsLittle) {
  for (const bool prefix_cache : {false, true}) {
    KvOptions options = options_of({{0}, {512}, {512}, {512}, {512}, {512}}, prefix_cache);
    options.block_size = 16;
    options.blocks = 6 * 300;
    KvManager kv(options);
    Sequence one(kv, 0, tokens_of(4096, 4096, 0));
    one.admit();
    for (std::uint32_t at = 0; at < 4096; at += 256) one.compute(at, at + 256);
    for (std::int32_t i = 0; i < 64; ++i) {
      EXPECT_LE(kv.pool().used(), 256 + (i + 15) / 16 + 5 * 544 / 16);
      if (kv.capacity(one.table) <= one.count()) kv.append(one.table, one.id);
      kv.commit(one.table, one.id, one.count() + 1, one.count() + 1, {}, false);
      one.tokens.push_back(i);
      if (prefix_cache) break;  // the tokens come with the commits there
    }
  }
}

// Where layers tell generated tokens from a prompt's, a prompt finds no block that has the same
// tokens generated, but the sequence that generated them does, when it comes back.
TEST(KvManager, AHitAsksWhichTokensWereGenerated) {
  for (const bool tells : {false, true}) {
    KvOptions options = options_of({{}});
    options.tells_generated = tells;
    KvManager kv(options);
    Sequence first(kv, 0, tokens_of(10, 10, 0));
    first.admit();
    first.compute(0, 10);
    first.tokens.push_back(10);
    kv.commit(first.table, first.id, 10, 10, std::vector{10}, true);
    for (std::int32_t token = 11; token < 21; ++token) first.decode(token);
    Sequence other(kv, 1, first.tokens);
    EXPECT_EQ(kv.hit(other.table, other.count()).blocks, tells ? 2U : 5U);
    Sequence shorter(kv, 2, tokens_of(9, 9, 0));
    EXPECT_EQ(kv.hit(shorter.table, shorter.count()).blocks, 2U);
    kv.keep_tokens(first.table, first.count());
    kv.release(first.table, first.id);
    EXPECT_EQ(kv.hit(first.table, first.count()).blocks, 5U);
  }
}

TEST(KvManager, AHitSharesAWindowsLastBlocks) {
  KvManager kv(options_of({{0}, {6}}));
  Sequence first(kv, 0, tokens_of(17, 17, 0));
  first.admit();
  first.compute(0, 17);
  Sequence second(kv, 1, tokens_of(30, 17, 7));
  second.admit();
  EXPECT_EQ(second.hit.blocks, 4U);
  // The first one has let go of block 2 of its window.
  EXPECT_EQ(second.hit.revived, 1U);
  EXPECT_EQ(second.held(), "b.b.bbbbbbbbbbbb");
  EXPECT_EQ(second.table.blocks[6], first.table.blocks[6]);
  kv.release(first.table, first.id);
  kv.release(second.table, second.id);
  EXPECT_EQ(kv.pool().used(), 0U);
}

// What lies behind a window is let go first, and then no longer found.
TEST(KvManager, AHitEndsWhereAWindowWasReused) {
  KvOptions options = options_of({{0}, {4}});
  options.blocks = 12;
  KvManager kv(options);
  Sequence first(kv, 0, tokens_of(17, 17, 0));
  first.admit();
  first.compute(0, 17);
  EXPECT_EQ(kv.pool().cached(), 3U);
  kv.release(first.table, first.id);
  // Takes the free blocks and the oldest cached ones: those behind the window.
  Sequence other(kv, 1, tokens_of(12, 0, 9));
  other.admit();
  Sequence again(kv, 2, tokens_of(12, 12, 0));
  EXPECT_EQ(kv.hit(again.table, 12).blocks, 0U);
  Sequence whole(kv, 3, tokens_of(17, 17, 0));
  EXPECT_EQ(kv.hit(whole.table, 17).blocks, 4U);
}

// Tokens whose blocks are gone still lead to what can be found.
TEST(KvManager, KeepsTheTokensBehindAllWindows) {
  KvManager kv(options_of({{4}}));
  Sequence one(kv, 0, tokens_of(9, 9, 0));
  one.admit();
  one.compute(0, 9);
  for (std::int32_t token = 50; token < 62; ++token) one.decode(token);
  kv.keep_tokens(one.table, one.count());
  kv.release(one.table, one.id);
  EXPECT_EQ(one.table.tokens, one.tokens);
  EXPECT_EQ(kv.hit(one.table, one.count()).blocks, 5U);
}

TEST(KvManager, SavesStatesWherePromptsEndAndInBetween) {
  KvManager kv(with_states(8, 3));
  Sequence one(kv, 0, tokens_of(31, 31, 0));
  one.admit();
  one.compute(0, 16);
  EXPECT_EQ(one.saved, std::vector<std::uint32_t>({12}));
  one.compute(16, 31);
  EXPECT_EQ(one.saved, std::vector<std::uint32_t>({12, 24, 28}));
  EXPECT_EQ(kv.states().cached(), 3U);
  for (std::int32_t token = 50; token < 56; ++token) one.decode(token);
  EXPECT_EQ(one.saved, std::vector<std::uint32_t>({12, 24, 28, 36}));
  kv.release(one.table, one.id);
  EXPECT_EQ(kv.states().used(), 0U);

  // The same prompt and answer, and more: from the last state on.
  std::vector<std::int32_t> longer = one.tokens;
  longer.resize(45, 9);
  Sequence two(kv, 1, longer);
  two.admit();
  EXPECT_EQ(two.hit.blocks, 9U);
  EXPECT_EQ(kv.state_to_load(two.table, 36), two.hit.state);
  EXPECT_EQ(kv.state_to_load(two.table, 40), kNoBlock);
  EXPECT_EQ(kv.states().used(), 1U);
  two.compute(36, 45);
  EXPECT_EQ(kv.states().used(), 0U);
}

// A second prompt goes its own way after 22 tokens: the state at the last edge before that is
// saved, which is at no interval, and the third one begins there.
TEST(KvManager, SavesAStateWherePromptsPart) {
  KvManager kv(with_states(8, 100));
  std::vector<std::uint32_t> found;
  for (std::int32_t id = 0; id < 3; ++id) {
    Sequence one(kv, static_cast<std::uint64_t>(id), tokens_of(41, 22, 100 + id));
    one.admit();
    found.push_back(one.hit.blocks);
    one.compute(one.hit.blocks * kBlock, one.count());
    kv.release(one.table, one.id);
  }
  EXPECT_EQ(found, std::vector<std::uint32_t>({0, 0, 5}));
}

TEST(KvManager, TheLeastRecentlyUsedStateGoesFirst) {
  KvManager kv(with_states(2, 100));
  const auto play = [&](std::uint64_t id, std::int32_t own) {
    Sequence one(kv, id, tokens_of(9, 0, own));
    one.admit();
    one.compute(one.hit.blocks * kBlock, 9);
    kv.release(one.table, one.id);
    return one.hit.blocks;
  };
  EXPECT_EQ(play(0, 1), 0U);
  EXPECT_EQ(play(0, 2), 0U);
  EXPECT_EQ(play(0, 1), 2U);
  EXPECT_EQ(play(0, 3), 0U);
  EXPECT_EQ(play(0, 1), 2U);
  EXPECT_EQ(play(0, 2), 0U);
}

// A sequence that ends before its row is committed leaves no state behind.
TEST(KvManager, ForgetsStatesOfRowsThatWereNotCommitted) {
  KvManager kv(with_states(2, 1));
  Sequence one(kv, 0, tokens_of(13, 13, 0));
  one.admit();
  std::vector<SavedState> saves;
  kv.plan_saves(one.table, one.id, 0, 9, 13, saves);
  EXPECT_EQ(saves.size(), 2U);
  // Both are in use: the next row saves none.
  kv.plan_saves(one.table, one.id, 9, 4, 13, saves);
  EXPECT_EQ(saves.size(), 2U);
  kv.release(one.table, one.id);
  EXPECT_EQ(kv.states().free(), 2U);
}

// A decode row of so many draft tokens, the first `right` of which are.
void draft(Sequence& one, std::uint32_t drafts, std::uint32_t right) {
  const std::uint32_t first = one.count() - 1;
  while (one.kv.capacity(one.table) < one.count() + drafts) one.kv.append(one.table, one.id);
  one.kv.save_before_drafts(one.table, one.id, first, drafts);
  std::vector<SavedState> saves;
  one.kv.plan_saves(one.table, one.id, first, 1 + drafts, 0, saves);
  one.saved.clear();
  for (const SavedState& save : saves) one.saved.push_back(save.positions);
  const std::vector<std::int32_t> tokens(right + 1, 7);
  const std::uint32_t known = one.count();
  one.tokens.insert(one.tokens.end(), tokens.begin(), tokens.end());
  one.kv.commit(one.table, one.id, first + 1 + right, known, tokens, false);
}

TEST(KvManager, WrongDraftTokensAreTakenBack) {
  KvManager kv(with_states(8, 1));
  Sequence one(kv, 0, tokens_of(3, 3, 0));
  one.admit();
  one.compute(0, 3);
  one.decode(50);
  EXPECT_EQ(kv.draft_places(), 4U);

  // All are right: nothing is loaded, and the state at the edge can be found.
  draft(one, 3, 3);
  EXPECT_EQ(one.saved, std::vector<std::uint32_t>({4, 4, 5, 6}));
  EXPECT_EQ(kv.state_to_load(one.table, 7), kNoBlock);
  EXPECT_EQ(kv.states().cached(), 1U);
  EXPECT_EQ(kv.states().used(), 0U);

  // One of three is right: the state behind it is the next row's, and that at the edge, which has
  // taken a wrong one, is not to be found.
  draft(one, 3, 1);
  EXPECT_EQ(one.saved, std::vector<std::uint32_t>({8, 8, 9, 10}));
  EXPECT_NE(kv.state_to_load(one.table, 9), kNoBlock);
  EXPECT_EQ(kv.states().cached(), 2U);
  EXPECT_EQ(kv.states().used(), 1U);
  draft(one, 3, 0);
  EXPECT_EQ(one.saved, std::vector<std::uint32_t>({10, 11, 12, 12}));
  EXPECT_NE(kv.state_to_load(one.table, 10), kNoBlock);
  EXPECT_EQ(kv.states().cached(), 2U);
  EXPECT_EQ(kv.states().used(), 1U);
  kv.release(one.table, one.id);
  EXPECT_EQ(kv.states().used(), 0U);
}

// What a sequence drafted when it ended is free again.
TEST(KvManager, DraftsInFlightEndWithTheirSequence) {
  KvManager kv(with_states(2, 100));
  Sequence one(kv, 0, tokens_of(3, 3, 0));
  one.admit();
  one.compute(0, 3);
  kv.save_before_drafts(one.table, one.id, 3, 1);
  EXPECT_EQ(kv.draft_places(), 0U);
  kv.release(one.table, one.id);
  EXPECT_EQ(kv.draft_places(), 1U);
  EXPECT_EQ(kv.states().free(), 2U);
}

}  // namespace
}  // namespace dovetail::kv
