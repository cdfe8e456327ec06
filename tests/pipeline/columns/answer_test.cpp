#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "grammar/support.h"
#include "pipeline/columns/one_column.h"
#include "pipeline/run/column_work.h"

namespace dovetail::pipeline {
namespace {

struct Case {
  std::string answer;
  std::string value, error;  // one of them, the value as JSON
  bool cut = false;
};

void expect_answers(const std::string& fields, const std::vector<Case>& cases) {
  const ColumnDescription column = one_column(fields);
  for (const Case& one : cases) {
    const auto value = read_answer(column, {.text = one.answer, .cut = one.cut, .usage = {}});
    EXPECT_EQ(value ? value->dump() : "", one.value) << one.answer;
    EXPECT_EQ(value ? "" : value.error().message, one.error) << one.answer;
  }
}

TEST(ReadAnswer, TextIsAsItIs) {
  expect_answers("type: llm-text, model: m, prompt: x", {{" a \n", R"("a")", ""}});
  expect_answers("type: llm-text, model: m, prompt: x, strip: false",
                 {{" a \n", R"(" a \n")", ""}});
}

TEST(ReadAnswer, CodeStandsInAFence) {
  expect_answers(
      "type: llm-code, model: m, prompt: x, language: python",
      {{"Here:\n```python\nx = 1\n```\nDone.", R"("x = 1\n")", ""},
       {"```py\na\n```\n```py\nb\n```", R"("b\n")", ""},
       {"```\na\n```", R"("a\n")", ""},
       {"```python\nx = 1", R"("x = 1\n")", ""},
       {"```python\nx = 1", "",
        "answer with code blocks in 'python', one of them cut off; valid: a code block in python",
        true},
       {"x = 1", "", "answer 'x = 1': no fenced code block; valid: a code block in python"},
       {"```rust\nx\n```", "",
        "answer with code blocks in 'rust'; valid: a code block in python"}});
  expect_answers("type: llm-code, model: m, prompt: x, language: sql, fence: first",
                 {{"```sql\na\n```\n```sql\nb\n```", R"("a\n")", ""}});
}

TEST(ReadAnswer, StructuredIsAnInstanceOfTheSchema) {
  expect_answers(
      "type: llm-structured, model: m, prompt: x, schema: {type: object, required: [n], "
      "properties: {n: {type: integer, minimum: 1}}}",
      {{R"({"n": 3})", R"({"n":3})", ""},
       {"Sure!\n```json\n{'n': 3,}\n```", R"({"n":3})", ""},
       {R"({"n": 3)", R"({"n":3})", ""},
       {R"({"n": 0})", "", "the answer does not fit the schema: /n: 0 is less than 1"},
       {"{}", "", "the answer does not fit the schema: the property \"n\" is missing"}});
  // A list that was cut is not the list.
  const ColumnDescription list = one_column(
      "type: llm-structured, model: m, prompt: x, schema: {type: array, items: {type: integer}}");
  EXPECT_TRUE(read_answer(list, {.text = "[1, 2", .usage = {}}));
  EXPECT_FALSE(read_answer(list, {.text = "[1, 2", .cut = true, .usage = {}}));
  EXPECT_TRUE(read_answer(list, {.text = "[1, 2]", .cut = true, .usage = {}}));
}

TEST(ReadAnswer, VerdictsFitTheRubrics) {
  const std::string judge =
      "type: llm-judge, model: m, prompt: x, rubrics: [{name: right, options: {1: bad, 5: good}}, "
      "{name: style, options: [low, high]}]";
  expect_answers(
      judge,
      {{R"({"style":{"score":"low","reasoning":"s"},"right":{"score":"5","reasoning":"r","x":1}})",
        R"({"right":{"reasoning":"r","score":5},"style":{"reasoning":"s","score":"low"}})", ""},
       {R"({"right":{"score":5,"reasoning":"r"}})", "",
        "the verdict does not fit the rubrics: the property \"style\" is missing"},
       {R"({"right":{"score":4,"reasoning":"r"},"style":{"score":"low","reasoning":"s"}})", "",
        "the verdict does not fit the rubrics: /right/score: 4 is none of 1, 5"},
       {R"({"right":{"score":5},"style":{"score":"low","reasoning":"s"}})", "",
        "the verdict does not fit the rubrics: /right: the property \"reasoning\" is missing"},
       {R"({"right":5,"style":{"score":"low","reasoning":"s"}})", "",
        "the verdict does not fit the rubrics: /right: 5 is no object"}});
  expect_answers(
      "type: llm-judge, model: m, prompt: x, answer: option, rubrics: [{name: r, options: [0, 1]}]",
      {{" 1\n", R"({"r":{"score":1}})", ""}, {"yes", "", "the answer \"yes\" is none of 0, 1"}});
}

// What a model in this process is let write is exactly what is read as an option.
TEST(ReadAnswer, TakesWhatThePatternLetsThrough) {
  using grammar::test::accepts;
  EXPECT_TRUE(rc::check([] {
    const auto letter = rc::gen::element<std::string>("1", "0", "a", ".", "*", "|", "\\", "(", "[",
                                                      "]", "{", "^", "$", "?", "é", " ", "\n", "-");
    const auto text = [&](std::size_t most) {
      const auto letters = *rc::gen::resize(static_cast<int>(most),
                                            rc::gen::container<std::vector<std::string>>(letter));
      return fmt::format("{}", fmt::join(letters, ""));
    };
    std::set<std::string> distinct;
    while (distinct.size() < 3) {
      const std::string option = fmt::format("x{}x", text(4));
      distinct.insert({option, option + "0"});  // each is the beginning of another
    }
    const std::vector<std::string> options(distinct.begin(), distinct.end());
    const ColumnDescription column = one_column(
        "type: llm-judge, model: m, prompt: x, answer: option, rubrics: [{name: r, "
        "options: " +
        Json(options).dump() + "}]");
    const AnswerPattern pattern = answer_pattern(column);
    const auto grammar = grammar::Grammar::from_regex(pattern.regex);
    RC_ASSERT(grammar.has_value());
    const grammar::Matcher start = grammar::test::matcher_of(*grammar);
    std::size_t longest = 0;
    for (const std::string& option : options) {
      for (const std::string before : {"", " ", "\n", " \n"}) {
        RC_ASSERT(accepts(start, before + option));
        longest = std::max(longest, before.size() + option.size());
        const auto verdict = read_answer(column, {.text = before + option, .usage = {}});
        RC_ASSERT(verdict.has_value());
        RC_ASSERT((*verdict)["r"]["score"] == Json(option));
      }
      RC_ASSERT(!accepts(start, "   " + option));
      RC_ASSERT(!accepts(start, option + " "));
      RC_ASSERT(!accepts(start, option.substr(0, 1)));
    }
    RC_ASSERT(pattern.bytes == longest);
    const std::string other = fmt::format("x{}x", text(4));
    RC_ASSERT(accepts(start, other) == distinct.contains(other));
  }));
}

}  // namespace
}  // namespace dovetail::pipeline
