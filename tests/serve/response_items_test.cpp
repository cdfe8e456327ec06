// Items of other tools than functions in the input of /v1/responses.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "serve/api_request_fixture.h"

namespace dovetail::serve {
namespace {

TEST_F(ApiRequest, ItemsOfOtherToolsAreCallsOrLeftOut) {
  struct Row {
    const char* call;
    const char* name;
    const char* arguments;
    const char* output;
  };
  const Row rows[] = {
      {R"({"type":"custom_tool_call","call_id":"c","name":"patch","input":"a\"b"})", "patch",
       R"({"input":"a\"b"})",
       R"({"type":"custom_tool_call_output","call_id":"c","output":"done"})"},
      {R"({"type":"local_shell_call","id":"l","call_id":"c","status":"completed",
           "action":{"type":"exec","command":["ls"]}})",
       "local_shell", R"({"type":"exec","command":["ls"]})",
       R"({"type":"local_shell_call_output","id":"c","output":"done"})"},
  };
  for (const Row& row : rows) {
    const auto result = read(Endpoint::kResponses,
                             fmt::format(R"({{"input":[{{"role":"user","content":"hi"}},{},{}]}})",
                                         row.call, row.output));
    ASSERT_TRUE(result) << row.call << result.error().message;
    const Json& messages = result->messages;
    ASSERT_EQ(messages.size(), 3U);
    const Json& call = messages[1]["tool_calls"][0];
    EXPECT_EQ(call["id"], "c");
    EXPECT_EQ(call["function"]["name"], row.name);
    EXPECT_EQ(call["function"]["arguments"], row.arguments);
    EXPECT_EQ(messages[2], (Json{{"role", "tool"}, {"tool_call_id", "c"}, {"content", "done"}}));
    EXPECT_EQ(result->ignored.text(), "");
  }
  for (const char* type : {"web_search_call", "file_search_call", "computer_call",
                           "computer_call_output", "compaction"}) {
    const auto result = read(
        Endpoint::kResponses,
        fmt::format(R"({{"input":[{{"type":"{}"}},{{"role":"user","content":"hi"}}]}})", type));
    ASSERT_TRUE(result) << type << result.error().message;
    EXPECT_EQ(result->messages.size(), 1U) << type;
    EXPECT_EQ(result->ignored.text(), fmt::format("input[0] ({})", type));
  }
  const auto sealed = read(Endpoint::kResponses,
                           R"({"input":[{"type":"reasoning","summary":[],"encrypted_content":"x"},
                               {"role":"user","content":"hi"}]})");
  ASSERT_TRUE(sealed) << sealed.error().message;
  EXPECT_EQ(sealed->ignored.text(), "input[0].encrypted_content");
  const std::pair<const char*, const char*> wrong[] = {
      {R"({"type":"custom_tool_call","call_id":"c","name":"f"})", "input[0].input"},
      {R"({"type":"custom_tool_call","name":"f","input":""})", "input[0].call_id"},
      {R"({"type":"custom_tool_call_output","id":"c","output":""})", "input[0].call_id"},
      {R"({"type":"local_shell_call","call_id":"c","action":"ls"})", "input[0].action"},
      {R"({"type":"local_shell_call","call_id":"c"})", "input[0].action"},
      {R"({"type":"other_call"})", "input[0].type"},
  };
  for (const auto& [item, param] : wrong) {
    const auto result = read(Endpoint::kResponses, fmt::format(R"({{"input":[{}]}})", item));
    ASSERT_FALSE(result) << item;
    EXPECT_EQ(result.error().param, param) << item;
  }
}

TEST_F(ApiRequest, MembersOfReasoningThatAreNotKnownAreNamed) {
  const auto result = read(Endpoint::kResponses, R"({"input":"a","reasoning":{"effort":"low",
      "summary":"auto","generate_summary":null,"zig":1}})");
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->ignored.text(), "reasoning.zig");
  EXPECT_EQ(read(Endpoint::kResponses, R"({"input":"a","reasoning":1})").error().param,
            "reasoning");
}

}  // namespace
}  // namespace dovetail::serve
