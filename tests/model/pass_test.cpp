#include "model/cpu/pass.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/kernels.h"

namespace dovetail::model {
namespace {

// A sequence's part of a pass.
struct Stretch {
  std::uint32_t first = 0, count = 0;
  bool decode = false;
};

class PassOf {
 public:
  PassOf(const std::vector<Stretch>& parts, std::uint32_t lanes, const TileRows& worth = {}) {
    std::uint32_t most = 0;
    for (const Stretch& part : parts) most = std::max(most, part.first + part.count);
    tokens_.resize(most);
    blocks_.resize(most / kernels::kBlockSize + 1);
    for (const Stretch& part : parts)
      segments_.push_back(
          {std::span(tokens_).first(part.count), part.first, blocks_, 1, part.decode});
    pass_.lay_out(segments_, lanes, worth);
  }

  std::vector<std::uint32_t> begins() const {
    std::vector<std::uint32_t> begins;
    for (const RowTile& tile : pass_.tiles()) begins.push_back(tile.rows.begin);
    return begins;
  }
  std::vector<std::uint32_t> first_shared() const {
    std::vector<std::uint32_t> first;
    for (const RowTile& tile : pass_.tiles()) first.push_back(tile.first_shared);
    return first;
  }

 private:
  std::vector<std::int32_t> tokens_;
  std::vector<std::uint32_t> blocks_;
  std::vector<Segment> segments_;
  Pass pass_;
};

std::vector<Stretch> decode_rows(std::size_t count) {
  return std::vector<Stretch>(count, {77, 1, true});
}

std::vector<Stretch> together(std::vector<Stretch> parts, const std::vector<Stretch>& more) {
  parts.insert(parts.end(), more.begin(), more.end());
  return parts;
}

TEST(Pass, KnowsWhichTilesShareASequence) {
  struct Case {
    std::string name;
    std::vector<Stretch> parts;
    std::vector<std::uint32_t> begins, first_shared;
  };
  const std::vector<Case> cases = {
      {"one row", {{5, 1}}, {0}, {0}},
      {"a few sequences", {{0, 30}, {16, 20}, {9, 1}}, {0}, {0}},
      {"one sequence", {{0, 768}}, {0, 192, 384, 576}, {0, 0, 0, 0}},
      {"one that is continued", {{32, 768}}, {0, 192, 384, 576}, {0, 0, 0, 0}},
      {"a sequence for each tile", {{0, 192}, {48, 192}, {0, 192}}, {0, 192, 384}, {0, 1, 2}},
      {"two of two tiles each", {{0, 384}, {0, 384}}, {0, 192, 384, 576}, {0, 0, 2, 2}},
      {"the second begins in a tile's middle",
       {{0, 480}, {0, 288}},
       {0, 192, 384, 576},
       {0, 0, 0, 2}},
      {"each tile ends one and begins the next",
       {{0, 288}, {0, 192}, {0, 288}},
       {0, 192, 384, 576},
       {0, 0, 1, 2}},
      {"one within a tile, between others",
       {{0, 192 + 32}, {0, 64}, {0, 288}},
       {0, 192, 384},
       {0, 0, 1}},
      {"the first ends with its tile, and one goes on to the end",
       {{0, 192}, {0, 576}},
       {0, 192, 384, 576},
       {0, 1, 1, 1}},
      {"a border moves to the sequence's end", {{5, 195}, {0, 189}}, {0, 195}, {0, 1}},
      {"a border moves to the next block", {{5, 384}}, {0, 203}, {0, 0}},
      {"chunks of one row, then a prompt",
       together(std::vector<Stretch>(96, {77, 1}), {{0, 672}}),
       {0, 192, 384, 576},
       {0, 0, 0, 0}},
      {"a prompt beside decode rows",
       together({{0, 512}}, decode_rows(31)),
       {0, 256, 512},
       {0, 0, 2}},
      {"a short one beside decode rows", together({{0, 161}}, decode_rows(31)), {0, 161}, {0, 1}},
      {"too little of both", together({{0, 160}}, decode_rows(31)), {0}, {0}},
      {"two prompts beside one decode row",
       together({{0, 192}, {16, 192}}, decode_rows(1)),
       {0, 192, 384},
       {0, 1, 2}},
      {"a prompt beside decode rows of several tiles",
       together({{0, 64}}, decode_rows(384)),
       {0, 64, 256},
       {0, 1, 2}},
      {"a decode row with guesses at a border",
       together({{0, 64}}, together(decode_rows(190), together({{77, 5, true}}, decode_rows(189)))),
       {0, 64, 257},
       {0, 1, 1}},
      {"decode rows", decode_rows(768), {0, 192, 384, 576}, {0, 1, 2, 3}},
      {"as many tiles as there may be",
       together({{0, 768}}, decode_rows(768)),
       {0, 192, 384, 576, 768, 960, 1152, 1344},
       {0, 0, 0, 0, 4, 5, 6, 7}},
      {"no more of them beside many decode rows",
       together({{0, 384}}, decode_rows(8 * 192)),
       {0, 384, 603, 822, 1042, 1261, 1481, 1700},
       {0, 1, 2, 3, 4, 5, 6, 7}},
  };
  for (const Case& example : cases) {
    SCOPED_TRACE(example.name);
    const PassOf pass(example.parts, 2);
    EXPECT_EQ(pass.begins(), example.begins);
    EXPECT_EQ(pass.first_shared(), example.first_shared);
  }
}

// Where weights cost more to read once more.
TEST(Pass, HasTilesOfSoManyRowsAsAreWorthIt) {
  struct Case {
    TileRows worth;
    std::uint32_t prompt = 0;
    std::size_t decodes = 0;
    std::vector<std::uint32_t> begins;
  };
  const TileRows several = {512, 256};
  const TileRows one = {TileRows::kAll, 256};
  const std::vector<Case> cases = {
      {several, 1023, 0, {0}},
      {several, 1024, 0, {0, 512}},
      {several, 254, 1, {0}},
      {several, 255, 1, {0, 255}},
      {several, 1, 254, {0}},
      {several, 1, 255, {0, 1}},
      {several, 1024, 63, {0, 512, 1024}},
      {several, 1024, 1024, {0, 512, 1024, 1536}},
      {one, 4096, 0, {0}},
      {one, 255, 1, {0, 255}},
      {one, 254, 1, {0}},
      {one, 4096, 1000, {0, 4096}},
  };
  for (const Case& example : cases) {
    const PassOf pass(together({{0, example.prompt}}, decode_rows(example.decodes)), 2,
                      example.worth);
    EXPECT_EQ(pass.begins(), example.begins)
        << example.prompt << " beside " << example.decodes << " decode rows";
  }
}

TEST(Pass, IsOneTileForOneLane) {
  const PassOf pass(together({{0, 384}, {0, 384}}, decode_rows(200)), 1);
  EXPECT_EQ(pass.begins(), std::vector<std::uint32_t>{0});
  EXPECT_EQ(pass.first_shared(), std::vector<std::uint32_t>{0});
}

}  // namespace
}  // namespace dovetail::model
