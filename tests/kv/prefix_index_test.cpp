#include "kv/prefix_index.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <array>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace dovetail::kv {
namespace {

using Tokens = std::vector<std::int32_t>;

BlockHash salted(std::string_view salt) { return root_hash(std::as_bytes(std::span(salt))); }

TEST(BlockHash, StandsForEveryTokenBeforeIt) {
  const BlockHash root = salted("");
  const BlockHash first = chain_hash(root, Tokens{1, 2, 3, 4});
  EXPECT_EQ(first, chain_hash(root, Tokens{1, 2, 3, 4}));
  EXPECT_NE(first, chain_hash(root, Tokens{1, 2, 4, 3}));
  EXPECT_NE(first, chain_hash(root, Tokens{1, 2, 3, 5}));
  EXPECT_NE(first, chain_hash(salted("tenant"), Tokens{1, 2, 3, 4}));
  // The same second block after another first one.
  EXPECT_NE(chain_hash(first, Tokens{5, 6, 7, 8}),
            chain_hash(chain_hash(root, Tokens{1, 2, 3, 5}), Tokens{5, 6, 7, 8}));
}

TEST(BlockHash, DependsOnTheWholeSalt) {
  EXPECT_EQ(salted("a"), salted("a"));
  EXPECT_NE(salted("a"), salted("b"));
  EXPECT_NE(salted("a"), salted(""));
  EXPECT_NE(salted("a"), salted(std::string_view("a\0", 2)));
}

TEST(BlockHash, DependsOnEveryTokenOfLongBlocks) {
  for (const std::size_t length : {1U, 63U, 64U, 65U, 130U}) {
    Tokens tokens(length, 7);
    std::set<std::pair<std::uint64_t, std::uint64_t>> hashes;
    const auto note = [&] {
      const BlockHash hash = chain_hash({1, 2}, tokens);
      hashes.emplace(hash.low, hash.high);
    };
    note();
    for (std::int32_t& token : tokens) {
      ++token;
      note();
      --token;
    }
    EXPECT_EQ(hashes.size(), length + 1);
  }
}

TEST(PrefixIndex, FindsWhatWasInserted) {
  PrefixIndex index(4, 3);
  const BlockHash root = salted("");
  const Tokens tokens{7, 8, 9};
  const BlockHash hash = chain_hash(root, tokens);
  EXPECT_FALSE(index.find(root, hash, tokens));
  EXPECT_TRUE(index.insert(2, root, hash, tokens));
  EXPECT_EQ(index.find(root, hash, tokens), BlockId{2});
  EXPECT_TRUE(index.contains(2));
  EXPECT_FALSE(index.contains(1));
  EXPECT_EQ(index.size(), 1U);
}

// Two contents, one hash: the tokens decide, and both can be found.
TEST(PrefixIndex, BelievesTokensNotHashes) {
  PrefixIndex index(4, 3);
  const BlockHash root = salted("");
  const BlockHash forged{42, 43};
  const Tokens one{1, 2, 3}, other{1, 2, 4};
  ASSERT_TRUE(index.insert(0, root, forged, one));
  EXPECT_FALSE(index.find(root, forged, other)) << "a hit for its hash alone";
  EXPECT_TRUE(index.insert(1, root, forged, other)) << "a duplicate for its hash alone";
  EXPECT_EQ(index.find(root, forged, one), BlockId{0});
  EXPECT_EQ(index.find(root, forged, other), BlockId{1});
}

// Equal tokens and an equal hash, after different prefixes: another sequence's cache.
TEST(PrefixIndex, ComparesThePrefixToo) {
  PrefixIndex index(4, 3);
  const BlockHash forged{42, 43};
  const Tokens tokens{1, 2, 3};
  ASSERT_TRUE(index.insert(0, salted("a"), forged, tokens));
  EXPECT_FALSE(index.find(salted("b"), forged, tokens));
  EXPECT_TRUE(index.insert(1, salted("b"), forged, tokens));
  EXPECT_EQ(index.find(salted("a"), forged, tokens), BlockId{0});
  EXPECT_EQ(index.find(salted("b"), forged, tokens), BlockId{1});
}

// A part of the hash decides where to look; the rest must be compared as well.
TEST(PrefixIndex, ComparesBothHalvesOfTheHash) {
  PrefixIndex index(4, 3);
  const BlockHash root = salted("");
  const Tokens tokens{1, 2, 3};
  ASSERT_TRUE(index.insert(0, root, {42, 43}, tokens));
  EXPECT_FALSE(index.find(root, {42, 44}, tokens));
  EXPECT_FALSE(index.find(root, {42 + 8, 43}, tokens)) << "the same place of eight";
  EXPECT_FALSE(index.find(root, {42 + (std::uint64_t{1} << 32), 43}, tokens)) << "the same tag";
}

TEST(PrefixIndex, KeepsTheFirstOfTwoEqualBlocks) {
  PrefixIndex index(4, 3);
  const BlockHash root = salted("");
  const Tokens tokens{1, 2, 3};
  const BlockHash hash = chain_hash(root, tokens);
  ASSERT_TRUE(index.insert(3, root, hash, tokens));
  EXPECT_FALSE(index.insert(1, root, hash, tokens));
  EXPECT_FALSE(index.contains(1));
  EXPECT_EQ(index.size(), 1U);
  EXPECT_EQ(index.find(root, hash, tokens), BlockId{3});
  index.erase(3);
  EXPECT_FALSE(index.find(root, hash, tokens));
  EXPECT_TRUE(index.insert(1, root, hash, tokens)) << "after the first is gone";
  EXPECT_EQ(index.find(root, hash, tokens), BlockId{1});
}

// All want the same place: erasing the first, a middle one or the last leaves the others.
TEST(PrefixIndex, ErasesOutOfAChain) {
  for (BlockId erased = 0; erased < 4; ++erased) {
    PrefixIndex index(4, 1);
    const BlockHash root = salted("");
    for (BlockId block = 0; block < 4; ++block) {
      ASSERT_TRUE(
          index.insert(block, root, {8, block}, std::array{static_cast<std::int32_t>(block)}));
    }
    index.erase(erased);
    EXPECT_EQ(index.size(), 3U);
    for (BlockId block = 0; block < 4; ++block) {
      const auto found = index.find(root, {8, block}, std::array{static_cast<std::int32_t>(block)});
      EXPECT_EQ(found.has_value(), block != erased) << block << " after erasing " << erased;
      EXPECT_EQ(index.contains(block), block != erased);
    }
  }
}

// Few tokens, few forged hashes, few prefixes: collisions of every kind, against a plain map.
TEST(PrefixIndex, FindsLikeAMap) {
  EXPECT_TRUE(rc::check([] {
    using Key = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, Tokens>;
    constexpr std::uint32_t kBlocks = 5;
    PrefixIndex index(kBlocks, 2);
    std::map<Key, BlockId> books;
    const auto steps = *rc::gen::container<std::vector<std::array<std::uint32_t, 6>>>(
        rc::gen::container<std::array<std::uint32_t, 6>>(rc::gen::inRange<std::uint32_t>(0, 60)));
    for (const auto& [verb, choice, before, low, first, second] : steps) {
      const BlockId block = choice % kBlocks;
      const Key key{before % 2,
                    11 + low % 9,  // around the end of a table of 16
                    low % 2,
                    {static_cast<std::int32_t>(first % 2), static_cast<std::int32_t>(second % 2)}};
      const auto& [root, bucket, high, tokens] = key;
      if (verb % 3 == 0 && index.contains(block)) {
        index.erase(block);
        std::erase_if(books, [&](const auto& entry) { return entry.second == block; });
      } else if (verb % 3 != 0 && !index.contains(block)) {
        const bool is_new = !books.contains(key);
        RC_ASSERT(index.insert(block, {root, 0}, {bucket, high}, tokens) == is_new);
        if (is_new) books[key] = block;
      }
      RC_ASSERT(index.size() == books.size());
      const auto found = index.find({root, 0}, {bucket, high}, tokens);
      const auto book = books.find(key);
      RC_ASSERT(found.has_value() == (book != books.end()));
      if (found) RC_ASSERT(*found == book->second);
    }
    for (const auto& [key, block] : books) {
      const auto& [root, bucket, high, tokens] = key;
      RC_ASSERT(index.find({root, 0}, {bucket, high}, tokens) == block);
    }
  }));
}

}  // namespace
}  // namespace dovetail::kv
