#include "text/gguf_splits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "text/byte_alphabet.h"
#include "text/golden_tokenizers.h"
#include "text/utf8.h"

namespace dovetail::text {
namespace {

using testing::golden_splits;
using testing::golden_strings;

std::vector<std::size_t> piece_sizes(const GgufSplits& splits, std::string_view text) {
  std::vector<std::size_t> sizes;
  for (const Piece& piece : splits.pre_tokenizer.split(text, true)) {
    sizes.push_back(splits.byte_level ? alphabet_to_bytes(piece.text).size() : piece.text.size());
  }
  return sizes;
}

// What tools/golden/make_splits.py found, for each name.
TEST(GgufSplitTable, CutsAsAnotherMatcherDoes) {
  const auto strings = golden_strings();
  std::set<std::string, std::less<>> names;
  const auto golden = golden_splits();
  for (const auto& [listed, rows] : golden.items()) {
    ASSERT_EQ(rows.size(), strings.size());
    std::istringstream words(listed);
    for (std::string name; words >> name;) {
      names.insert(name);
      const auto splits = gguf_splits(name);
      ASSERT_TRUE(splits) << splits.error().message;
      for (std::size_t i = 0; i < strings.size(); ++i) {
        const std::string text = repair_utf8(strings[i]);
        EXPECT_EQ(piece_sizes(*splits, text), rows[i].get<std::vector<std::size_t>>())
            << name << ", string " << i << ": " << text;
      }
    }
  }
  const auto known = gguf_split_names();
  EXPECT_EQ(names, (std::set<std::string, std::less<>>(known.begin(), known.end())));
  EXPECT_EQ(names.size(), known.size());
}

// Digits in threes from the end: what a row groups, and in what texts.
TEST(GgufSplitTable, GroupsDigitsFromTheEnd) {
  struct Row {
    const char* name;
    const char* text;
    std::vector<std::size_t> sizes;
  };
  const Row rows[] = {
      {"afmoe", "1234567", {1, 3, 3}},
      {"afmoe", "123456", {3, 3}},
      {"afmoe", "x12345y", {1, 2, 3, 1}},
      {"superbpe", "1234567 a b", {1, 3, 3, 4}},
      {"tiny_aya", "1234567", {1, 3, 3}},
      {"tiny_aya", "1234567x", {3, 3, 1, 1}},
      {"tiny_aya", "a   1234x", {1, 2, 1, 3, 1, 1}},
      {"tiny_aya", "1234 12345", {1, 3, 1, 2, 3}},
  };
  for (const Row& row : rows) {
    const auto splits = gguf_splits(row.name);
    ASSERT_TRUE(splits);
    EXPECT_EQ(piece_sizes(*splits, row.text), row.sizes) << row.name << ": " << row.text;
  }
}

// Quadratic behaviour would hang here, or reach the limit of steps and leave one large piece.
TEST(GgufSplitTable, TakesLongRunsInItsStride) {
  constexpr std::size_t kBytes = 40'000;
  std::vector<std::string> texts;
  for (const std::string_view unit : {"a", "A", " ", "\n", "1", ".", "aB", "1x", "1 ",
                                      "\xE8\x80\x81", "\u0301", "a b ", "\r\n "}) {
    std::string text;
    while (text.size() < kBytes) text += unit;
    texts.push_back(text + "x");
  }
  const auto golden = golden_splits();
  for (const auto& [listed, rows] : golden.items()) {  // whose names split alike
    const std::string name = listed.substr(0, listed.find(' '));
    const auto splits = gguf_splits(name);
    ASSERT_TRUE(splits);
    for (const std::string& text : texts) {
      std::size_t total = 0;
      for (const std::size_t size : piece_sizes(*splits, text)) total += size;
      EXPECT_EQ(total, text.size()) << name;
    }
  }
  // A number is cut to its end, however long.
  const auto splits = gguf_splits("tiny_aya");
  for (const std::size_t size : piece_sizes(*splits, std::string(300'000, '7'))) {
    ASSERT_EQ(size, 3U);
  }
}

TEST(GgufSplitTable, RefusesOtherNamesWithAllValidOnes) {
  const auto splits = gguf_splits("qwen9");
  ASSERT_FALSE(splits);
  EXPECT_EQ(splits.error().kind, ErrorKind::kUnsupported);
  EXPECT_NE(splits.error().message.find("tokenizer.ggml.pre: 'qwen9'; valid: default, "),
            std::string::npos);
  for (const std::string_view name : gguf_split_names()) {
    EXPECT_NE(splits.error().message.find(name), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace dovetail::text
