#include "pipeline/report/preview.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <sstream>

namespace dovetail::pipeline {
namespace {

std::vector<PreviewCell> some_cells() {
  return {{"topic", CellState::kValue, "animals", ""},
          {"question", CellState::kValue,
           "How many legs do three spiders\nand a dog have together?", ""},
          {"verdict",
           CellState::kValue,
           {{"correct", {{"score", 4}, {"reasoning", "It counts well, but forgets the dog."}}},
            {"clear", {{"score", "good"}, {"reasoning", nullptr}}}},
           ""},
          {"facts", CellState::kValue, {{"legs", 28}, {"who", {"spider", "dog"}}}, ""},
          {"answer", CellState::kFailed, nullptr, "answer: no number"},
          {"note", CellState::kSkipped, nullptr, ""},
          {"score", CellState::kValue, 0.5, ""}};
}

TEST(Preview, Wide) {
  EXPECT_EQ(preview(3, some_cells(), {44, false, true}),
            "record 3 ───────────────────────────────────\n"
            "topic     animals\n"
            "question  How many legs do three spiders\n"
            "          and a dog have together?\n"
            "verdict   correct  4\n"
            "            It counts well, but forgets the\n"
            "            dog.\n"
            "          clear    good\n"
            "facts     {\n"
            "            \"legs\": 28,\n"
            "            \"who\": [\n"
            "              \"spider\",\n"
            "              \"dog\"\n"
            "            ]\n"
            "          }\n"
            "answer    failed: answer: no number\n"
            "note      skipped\n"
            "score     0.5\n");
}

TEST(Preview, NarrowPutsValuesBelow) {
  EXPECT_EQ(preview(3, {some_cells()[0], some_cells()[1]}, {24, false, false}),
            "record 3 ---------------\n"
            "topic\n"
            "  animals\n"
            "question\n"
            "  How many legs do three\n"
            "  spiders\n"
            "  and a dog have\n"
            "  together?\n");
}

TEST(Preview, LongValuesEnd) {
  EXPECT_EQ(preview(0, {{"a", CellState::kValue, "1\n2\n3\n4\n5", ""}}, {40, false, false}, 2),
            "record 0 -------------------------------\n"
            "a  1\n"
            "   2\n"
            "   (3 more lines)\n");
}

TEST(Preview, EmptyAndNull) {
  EXPECT_EQ(preview(0, {{"a", CellState::kValue, "", ""}, {"b", CellState::kValue, nullptr, ""}},
                    {40, false, false}),
            "record 0 -------------------------------\n"
            "a\n"
            "b  null\n");
}

TEST(Preview, ColoursOnlyWhereAsked) {
  EXPECT_EQ(preview(1, {{"a", CellState::kSkipped, nullptr, ""}}, {12, true, false}),
            "\x1b[1mrecord 1 \x1b[0m\x1b[2m---\x1b[0m\n"
            "\x1b[1ma\x1b[0m\n"
            "  \x1b[2mskipped\x1b[0m\n");
}

TEST(Preview, ValuesCannotMoveTheCursor) {
  const std::string shown = preview(
      1, {{"a", CellState::kValue, "x\x1b[2Jy", ""}, {"b", CellState::kFailed, nullptr, "\x1b]0;"}},
      {60, false, true});
  EXPECT_EQ(shown.find('\x1b'), std::string::npos);
}

RC_GTEST_PROP(Preview, LinesFit, (const std::string& text, const std::string& name)) {
  const auto width = *rc::gen::inRange<std::size_t>(16, 120);
  std::istringstream lines(
      preview(1,
              {{name, CellState::kValue, text, ""},
               {"v", CellState::kValue, {{name, {{"score", text}, {"reasoning", text}}}}, ""}},
              {width, false, true}));
  for (std::string line; std::getline(lines, line);) RC_ASSERT(display_width(line) <= width);
}

TEST(IsVerdict, LooksAtTheShape) {
  EXPECT_TRUE(is_verdict(Json::parse(R"({"a":{"score":1,"reasoning":"x"}})")));
  EXPECT_FALSE(is_verdict(Json::parse(R"({"a":{"score":1},"b":2})")));
  EXPECT_FALSE(is_verdict(Json::object()));
  EXPECT_FALSE(is_verdict(Json("score")));
}

}  // namespace
}  // namespace dovetail::pipeline
