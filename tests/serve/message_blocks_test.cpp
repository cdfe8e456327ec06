// Blocks of /v1/messages that are text to the model.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "serve/api_request_fixture.h"

namespace dovetail::serve {
namespace {

using testing::HasSubstr;

class MessageBlocks : public ApiRequest {
 protected:
  Outcome<Generation> asked(std::string_view blocks) {
    return read(
        Endpoint::kMessages,
        fmt::format(R"({{"max_tokens":9,"messages":[{{"role":"user","content":[{}]}}]}})", blocks));
  }
};

TEST_F(MessageBlocks, AreTextBetweenTags) {
  const std::pair<const char*, const char*> rows[] = {
      {R"({"type":"document","source":{"type":"text","media_type":"text/plain","data":"At ten."}})",
       "<document>\nAt ten.\n</document>\n"},
      {R"({"type":"document","title":"The \"tides\"","context":"of May",
           "source":{"type":"content","content":[{"type":"text","text":"At ten.\n"},
                                                 {"type":"text","text":"At six."}]}})",
       "<document title=\"The \\\"tides\\\"\" context=\"of May\">\nAt ten.\nAt "
       "six.\n</document>\n"},
      {R"({"type":"document","title":null,"source":{"type":"content","content":"Whole."}})",
       "<document>\nWhole.\n</document>\n"},
      {R"({"type":"search_result","source":"https://a.example","title":"Tides",
           "citations":{"enabled":false},"content":[{"type":"text","text":"At ten."}]})",
       "<search_result title=\"Tides\" source=\"https://a.example\">\nAt ten.\n</search_result>\n"},
      {R"({"type":"tool_reference","tool_name":"tides"})", "tides\n"},
  };
  for (const auto& [block, text] : rows) {
    SCOPED_TRACE(block);
    const auto alone =
        asked(std::string(block) + R"(,{"type":"text","text":"When is high water?"})");
    ASSERT_TRUE(alone) << alone.error().message;
    EXPECT_THAT(prompt_text(alone->requests.front()),
                HasSubstr(std::string(text) + "When is high water?"));
    EXPECT_EQ(alone->ignored.text(), "");
    const auto result =
        asked(fmt::format(R"({{"type":"tool_result","tool_use_id":"t","content":[{}]}})", block));
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_THAT(prompt_text(result->requests.front()), HasSubstr(text));
  }
}

TEST_F(MessageBlocks, CitationsAreNotHeeded) {
  const auto result = asked(R"({"type":"document","citations":{"enabled":true},
      "source":{"type":"text","data":"At ten."}})");
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->ignored.text(), "messages[0].content[0].citations");
}

TEST_F(MessageBlocks, WrongOnesAreNamed) {
  const std::pair<const char*, const char*> rows[] = {
      {R"({"type":"document"})", "messages[0].content[0].source: is missing"},
      {R"({"type":"document","source":"a"})",
       "messages[0].content[0].source: expected an object, got \"a\""},
      {R"({"type":"document","source":{"type":"base64","data":""}})",
       "messages[0].content[0].source.type: \"base64\" is not supported; expected \"text\" or "
       "\"content\""},
      {R"({"type":"document","source":{"type":"text"}})",
       "messages[0].content[0].source.data: is missing"},
      {R"({"type":"document","source":{"type":"content"}})",
       "messages[0].content[0].source.content: is missing"},
      {R"({"type":"document","title":3,"source":{"type":"text","data":""}})",
       "messages[0].content[0].title: expected a string, got 3"},
      {R"({"type":"search_result","title":"a"})", "messages[0].content[0].content: is missing"},
      {R"({"type":"search_result","content":[{"type":"image"}]})",
       "messages[0].content[0].content[0].type: \"image\" is not supported; expected \"text\", "
       "\"document\", \"search_result\", \"tool_reference\""},
      {R"({"type":"tool_reference"})", "messages[0].content[0].tool_name: is missing"},
      {R"({"type":"image"})",
       "\"image\" is not supported; expected \"text\", \"document\", \"search_result\", "
       "\"tool_reference\", of a user \"tool_result\", of an assistant \"tool_use\" or "
       "\"thinking\""},
  };
  for (const auto& [block, message] : rows) {
    const auto result = asked(block);
    ASSERT_FALSE(result) << block;
    EXPECT_THAT(result.error().message, HasSubstr(message)) << block;
  }
}

}  // namespace
}  // namespace dovetail::serve
