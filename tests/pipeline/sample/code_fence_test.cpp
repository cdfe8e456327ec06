#include "pipeline/sample/code_fence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

namespace dovetail::pipeline {
namespace {

using testing::HasSubstr;

std::string shown(std::string_view text) {
  std::string out;
  for (const CodeBlock& block : find_code_blocks(text)) {
    out += fmt::format("[{}|{}{}]", block.language, block.code, block.closed ? "" : "|cut");
  }
  return out;
}

TEST(CodeFence, FollowsCommonMark) {
  const std::pair<const char*, const char*> cases[] = {
      {"```\nx\n```\n", "[|x\n]"},
      {"```python\nx\n```", "[python|x\n]"},
      {"~~~ ruby startline=3 $%@#$\nx\n~~~~~~~\n", "[ruby|x\n]"},
      {"```\nx\n~~~\n```\n", "[|x\n~~~\n]"},
      {"````\nx\n```\ny\n`````  \nz", "[|x\n```\ny\n]"},
      {"``\nx\n``\n", ""},
      {"``` aa ```\nx\n", ""},
      {"~~~ aa ``` ~~~\nx\n~~~\n", "[aa|x\n]"},
      {"```\nx\n``` y\n```\n", "[|x\n``` y\n]"},
      {"```\n", "[||cut]"},
      {"```\n\n  \n```", "[|\n  \n]"},
      {"   ```\n   x\n     y\n z\n  ```\n", "[|x\n  y\nz\n]"},
      {"    ```\n    x\n    ```\n", ""},
      {"```\nx\n    ```\n```", "[|x\n    ```\n]"},
      {"text\n```c++\nint x;\n```\nmore\n```C#\ny\n```", "[c++|int x;\n][c#|y\n]"},
      {"```py\r\nx\r\n```\r\n", "[py|x\n]"},
      {"```{.python .numberLines}\nx\n```", "[python|x\n]"},
      {"```sql:postgres\nx\n```", "[sql|x\n]"},
      {"- item\n  ```js\n  x\n    y\n  ```\n", "[js|x\n  y\n]"},
      {"1. one\n\n   - two\n\n     ```js\n     x\n     ```\nend", "[js|x\n]"},
      {"- ```js\n  x\n  ```\n", "[js|x\n]"},
      {"- item\n\nout\n\n     ```js\n     x\n     ```\n", ""},
      {"```a\nx", "[a|x\n|cut]"},
      {"no fence", ""},
      {"", ""},
      {"* not a list\n*emphasis* ```x```\n", ""},
  };
  for (const auto& [text, blocks] : cases) EXPECT_EQ(shown(text), blocks) << text;
}

TEST(CodeFence, ExtractsByLanguage) {
  const char* answer =
      "First:\n```python\na\n```\nthen\n```js\nb\n```\nplain\n```\nc\n```\nand\n```Python3\nd\n```"
      "\n";
  struct Case {
    const char* language;
    bool last;
    const char* code;
  };
  const Case cases[] = {{"python", true, "d\n"}, {"py", false, "a\n"}, {"javascript", true, "b\n"},
                        {"", true, "d\n"},       {"", false, "a\n"},   {"rust", true, "c\n"},
                        {"JS", true, "b\n"}};
  for (const Case& c : cases) {
    const auto code = extract_code(answer, {.language = c.language, .last = c.last});
    ASSERT_TRUE(code) << c.language;
    EXPECT_EQ(*code, c.code) << c.language << c.last;
  }
}

TEST(CodeFence, WhatIsMissingIsSaid) {
  EXPECT_EQ(extract_code("x = 1", {.language = "python"}).error().message,
            "answer 'x = 1': no fenced code block; valid: a code block in python");
  EXPECT_EQ(extract_code("```js\nb\n```", {.language = "python"}).error().message,
            "answer with code blocks in 'js'; valid: a code block in python");
  EXPECT_EQ(*extract_code("  x = 1\n\n", {.language = "python", .whole_text = true}), "x = 1\n");
  // A fence of another language is no permission to take the prose around it.
  EXPECT_FALSE(extract_code("```js\nb\n```", {.language = "python", .whole_text = true}));
  EXPECT_FALSE(extract_code(" \n", {.language = "", .whole_text = true}));
  EXPECT_EQ(*extract_code("```py\nx", {.language = "python"}), "x\n");
  EXPECT_THAT(extract_code("```py\nx", {.language = "python", .unclosed = false}).error().message,
              HasSubstr("cut off"));
}

TEST(CodeFence, AFencedTextComesBack) {
  EXPECT_TRUE(rc::check([] {
    const std::string letters = "`~ab \t-1.\n";
    auto code = *rc::gen::container<std::string>(rc::gen::elementOf(letters));
    if (!code.empty() && code.back() != '\n') code += '\n';
    const char mark = *rc::gen::element('`', '~');
    // Longer than any run within.
    std::size_t longest = 2;
    std::size_t run = 0;
    for (const char c : code) {
      run = c == mark ? run + 1 : 0;
      longest = std::max(longest, run);
    }
    const std::string fence(longest + 1, mark);
    const auto blocks = find_code_blocks("Sure:\n" + fence + "x\n" + code + fence + "\nDone.");
    RC_ASSERT(blocks.size() == 1U);
    RC_ASSERT(blocks[0].code == code);
    RC_ASSERT(blocks[0].closed);
  }));
}

}  // namespace
}  // namespace dovetail::pipeline
