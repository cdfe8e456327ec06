// How the messages of a chat become a prompt.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/api_request_fixture.h"
#include "serve/request_fields.h"
#include "serve/text_routes.h"

namespace dovetail::serve {
namespace {

using ::testing::HasSubstr;

TEST_F(ApiRequest, ChatIsRenderedByTheTemplate) {
  const auto result = chat(R"({"messages":[{"role":"system","content":"S"},
      {"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
      {"role":"assistant","content":"c","refusal":null,"tool_calls":null}],
      "chat_template_kwargs":{"enable_thinking":true}})");
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_EQ(prompt_text(result->requests[0]), "[system]S[user]ab[assistant]c[think][assistant]");
  EXPECT_EQ(result->requests[0].max_tokens,
            4096 - static_cast<std::int32_t>(result->requests[0].prompt.size()));
}

TEST_F(ApiRequest, PartsOfAnAnswerAreItsTextAndItsReasoning) {
  struct Row {
    const char* parts;
    const char* content;
    const char* reasoning;  // empty: none
  };
  const Row rows[] = {
      {R"([{"type":"refusal","refusal":"no"}])", "no", ""},
      {R"([{"type":"text","text":"a"},{"type":"refusal","refusal":"b"}])", "ab", ""},
      {R"([{"type":"thinking","thinking":"t","signature":"s"},{"type":"text","text":"a"}])", "a",
       "t"},
      {R"([{"type":"thinking","text":"t"},{"type":"text","text":"a"}])", "a", "t"},
      {R"([{"type":"reasoning","text":"t"},{"type":"reasoning","reasoning":"u"}])", "", "tu"},
      {R"([{"type":"thinking","closed":true,
            "thinking":[{"type":"text","text":"t"},{"type":"text","text":"u"}]}])",
       "", "tu"},
  };
  const auto body = [](const char* role, const char* parts, const char* more = "") {
    return fmt::format(R"([{{"role":"{}","content":{}{}}}])", role, parts, more);
  };
  for (const Row& row : rows) {
    UnknownFields unknown;
    const auto read = read_messages(Json::parse(body("assistant", row.parts)), unknown);
    ASSERT_TRUE(read) << row.parts << read.error().message;
    EXPECT_EQ((*read)[0]["content"], row.content) << row.parts;
    EXPECT_EQ((*read)[0].value("reasoning_content", ""), row.reasoning) << row.parts;
    EXPECT_EQ(unknown.text(), "") << row.parts;
    // What stands beside the content is the reasoning.
    const auto both = read_messages(
        Json::parse(body("assistant", row.parts, R"(,"reasoning_content":"r")")), unknown);
    EXPECT_EQ((*both)[0]["reasoning_content"], "r") << row.parts;
    const auto refused = read_messages(Json::parse(body("user", row.parts)), unknown);
    ASSERT_FALSE(refused) << row.parts;
    EXPECT_THAT(refused.error().param, HasSubstr("].type")) << row.parts;
  }
  const std::pair<const char*, const char*> wrong[] = {
      {R"([{"type":"refusal","text":"a"}])", "messages[0].content[0].refusal"},
      {R"([{"type":"refusal","refusal":[]}])", "messages[0].content[0].refusal"},
      {R"([{"type":"thinking"}])", "messages[0].content[0].thinking"},
      {R"([{"type":"thinking","thinking":[{"type":"thinking","thinking":"a"}]}])",
       "messages[0].content[0].thinking[0].type"},
      {R"([{"type":"image_url"}])", "messages[0].content[0].type"},
  };
  for (const auto& [parts, param] : wrong) {
    UnknownFields unknown;
    const auto read = read_messages(Json::parse(body("assistant", parts)), unknown);
    ASSERT_FALSE(read) << parts;
    EXPECT_EQ(read.error().param, param) << parts;
  }
}

TEST_F(ApiRequest, WhatMessagesSayIsEncodedAsText) {
  text::MarkedText given;
  backend_.encode_chat = [&](const text::MarkedText& text) {
    given = text;
    return std::vector<TokenId>{1};
  };
  const std::vector<text::ByteSpan> said = {{6, 7}};
  ASSERT_TRUE(chat("{" HELLO "}"));
  EXPECT_EQ(given.untrusted.size(), 1U);
  const RequestContext context{backend_, "fake", 8};
  for (const auto& [more, untrusted] : {std::pair{"", said},
                                        {R"(,"parse_special":false)", said},
                                        {R"(,"parse_special":true)", {}}}) {
    const std::string body =
        fmt::format(R"({{"messages":[{{"role":"user","content":"x"}}]{}}})", more);
    ASSERT_TRUE(chat(body)) << body;
    EXPECT_EQ(given.text, "[user]x[assistant]");
    EXPECT_EQ(given.untrusted, untrusted) << body;
    ASSERT_TRUE(tokenize(body, context)) << body;
    EXPECT_EQ(given.untrusted, untrusted) << body;
  }
  // What an answer continues is cut out of the text with its marks.
  ASSERT_TRUE(
      chat(R"({"messages":[{"role":"user","content":"x"}],"continue_final_message":true})"));
  EXPECT_EQ(given.text, "[user]x");
  EXPECT_EQ(given.untrusted, said);
  EXPECT_EQ(chat("{" HELLO R"(,"parse_special":1})").error().param, "parse_special");
}

TEST_F(ApiRequest, AnAnswerMayContinueTheLastMessage) {
  const auto continued = [&](std::string_view content, std::string_view more = "") {
    const auto result = chat(fmt::format(
        R"({{"messages":[{{"role":"user","content":"hi"}},{{"role":"assistant","content":"{}"}}],)"
        R"("continue_final_message":true{}}})",
        content, more));
    return result ? prompt_text(result->requests[0]) : result.error().message;
  };
  EXPECT_EQ(continued("a b "), "[user]hi[assistant]a b ");
  EXPECT_EQ(continued(""), "[user]hi[assistant]");
  EXPECT_EQ(continued("x", R"(,"add_generation_prompt":false)"), "[user]hi[assistant]x");
  // Whatever the template writes behind the message, and whatever the message says.
  EXPECT_EQ(continued("x", R"(,"chat_template_kwargs":{"enable_thinking":true})"),
            "[user]hi[assistant]x");
  EXPECT_EQ(continued("(the answer goes on here)"), "[user]hi[assistant](the answer goes on here)");
  const auto plain = backend_.render_chat;
  backend_.render_chat =
      [&](const nlohmann::ordered_json& variables,
          std::span<const text::MarkedText> contents) -> Result<text::MarkedText> {
    auto text = plain(variables, contents);
    text->append(text::MarkedText(*text));
    return text;
  };
  EXPECT_THAT(continued("x"), HasSubstr("does not write the last message once as it is"));
  backend_.render_chat = [](const nlohmann::ordered_json&,
                            std::span<const text::MarkedText>) -> Result<text::MarkedText> {
    return text::MarkedText::trusted("no");
  };
  EXPECT_THAT(continued("x"), HasSubstr("does not write the last message once as it is"));
}

// Many templates leave out what a role that they do not know says.
TEST_F(ApiRequest, ARoleThatTheTemplateLeavesOutIsRefused) {
  constexpr const char* kBody = R"({"messages":[{"role":"user","content":"a"},)"
                                R"({"role":"narrator","content":"b"},)"
                                R"({"role":"user","content":"c"}]})";
  const auto shown = chat(kBody);
  ASSERT_TRUE(shown) << shown.error().message;
  EXPECT_EQ(prompt_text(shown->requests[0]), "[user]a[narrator]b[user]c[assistant]");

  backend_.render_chat = [plain = backend_.render_chat](
                             nlohmann::ordered_json variables,
                             std::span<const text::MarkedText>) -> Result<text::MarkedText> {
    nlohmann::ordered_json kept = nlohmann::ordered_json::array();
    for (const auto& message : variables["messages"])
      if (message["role"] != "narrator") kept.push_back(message);
    variables["messages"] = kept;
    return plain(variables, {});
  };
  const auto lost = chat(kBody);
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().param, "messages[1].role");
  EXPECT_THAT(lost.error().message,
              HasSubstr("the model's chat template leaves out what \"narrator\" says; expected one "
                        "of system, developer, user, assistant, tool"));
  EXPECT_TRUE(chat("{" HELLO "}"));
}

TEST_F(ApiRequest, DocumentsNeedAPlaceInTheTemplate) {
  const std::string body = "{" HELLO R"(,"documents":[{"title":"t","text":"x"}]})";
  const auto refused = chat(body);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().param, "documents");
  EXPECT_THAT(refused.error().message, HasSubstr("has no place for documents"));
  EXPECT_TRUE(chat("{" HELLO R"(,"documents":[]})"));
  EXPECT_EQ(chat("{" HELLO R"(,"documents":["x"]})").error().param, "documents[0]");

  backend_.template_names = {"documents", "messages"};
  nlohmann::ordered_json given;
  backend_.render_chat = [&given, plain = backend_.render_chat](
                             const nlohmann::ordered_json& variables,
                             std::span<const text::MarkedText> contents) {
    given = variables["documents"];
    return plain(variables, contents);
  };
  ASSERT_TRUE(chat(body));
  EXPECT_EQ(given.dump(), R"([{"title":"t","text":"x"}])");
  ASSERT_TRUE(chat("{" HELLO "}"));
  EXPECT_TRUE(given.is_null());
}

// An assistant's message as clients send it back.
TEST_F(ApiRequest, AnAnswerThatComesBackIsAMessage) {
  const auto result = chat(R"({"messages":[{"role":"user","content":"a"},)"
                           R"({"role":"assistant","content":null,"refusal":null,"annotations":[],)"
                           R"("audio":null,"function_call":null,"tool_calls":[],"id":"m1"},)"
                           R"({"role":"assistant","content":"b","refusal":""},)"
                           R"({"role":"user","content":"c"}]})");
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_EQ(result->ignored.text(), "");
}

// As clients of llama.cpp's server have them, and as its own routes read them.
TEST_F(ApiRequest, SamplersActAsLlamaCppNamesThem) {
  const auto asked = [&](const std::string& more) {
    return chat("{" HELLO R"(,"top_k":7,"temperature":0.5,"frequency_penalty":1,)" + more + "}");
  };
  const auto some = asked(R"("samplers":["penalties","temperature","top_p"])");
  ASSERT_TRUE(some) << some.error().message;
  const SamplingParams& params = some->requests.front().sampling;
  EXPECT_EQ(params.top_k, 0);
  EXPECT_EQ(params.temperature, 0.5F);
  EXPECT_EQ(params.frequency_penalty, 1.0F);
  EXPECT_EQ(some->ignored.text(), "");
  const auto others = asked(R"("samplers":["top_k","mine"],"repeat_last_n":64)");
  ASSERT_TRUE(others) << others.error().message;
  EXPECT_EQ(others->requests.front().sampling.frequency_penalty, 0.0F);
  EXPECT_EQ(others->ignored.text(), "samplers (mine)");
  const auto window = asked(R"("repeat_last_n":64)");
  ASSERT_TRUE(window) << window.error().message;
  EXPECT_EQ(window->ignored.text(), "repeat_last_n");
  const auto wrong = asked(R"("samplers":3)");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().param, "samplers");
}

TEST_F(ApiRequest, WhatAFormatSaysBesideIsIgnoredByName) {
  const auto result = chat("{" HELLO R"(,"response_format":{"type":"json_schema","x":1,
      "json_schema":{"name":"n","schema":{},"examples":[]}}})");
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_NE(result->requests.front().grammar, nullptr);
  EXPECT_EQ(result->ignored.text(), "response_format.x, response_format.json_schema.examples");
}

}  // namespace
}  // namespace dovetail::serve
