// Bodies that are refused: what is said of them, and of which field.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "serve/api_request_fixture.h"

namespace dovetail::serve {
namespace {

using ::testing::HasSubstr;

struct Refused {
  const char* body;
  int status;
  const char* param;
  const char* message;  // a part of it
};

void PrintTo(const Refused& refused, std::ostream* out) { *out << refused.body; }

class RefusedCompletion : public ApiRequest, public ::testing::WithParamInterface<Refused> {};
TEST_P(RefusedCompletion, NamesTheField) {
  const auto result = completion(GetParam().body);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().status, GetParam().status);
  EXPECT_EQ(result.error().param, GetParam().param);
  EXPECT_THAT(result.error().message, HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Json, RefusedCompletion,
    ::testing::Values(
        Refused{"", 400, "", "the body is empty"}, Refused{"  \n", 400, "", "the body is empty"},
        Refused{"{", 400, "", "not valid JSON in UTF-8: error at byte 1"},
        Refused{"[1]", 400, "", "the body is array; expected a JSON object"},
        Refused{"7", 400, "", "the body is number"},
        Refused{"{\"prompt\":\"a\"}x", 400, "", "error at byte 15"},
        Refused{"{\"prompt\":\"\xff\"}", 400, "", "error at byte 12"},
        Refused{"{\"prompt\":\"\xc0\xaf\"}", 400, "", "error at byte 12"},
        Refused{"{\"prompt\":\"a\",\"temperature\":1e999}", 400, "", "a number is out of range"},
        Refused{"{\"prompt\":\"a\",\"n\":1,\"n\":2}", 400, "", "\"n\" appears twice"},
        Refused{R"({"prompt":"a","n":1,"\u006e":2})", 400, "", "\"n\" appears twice"},
        Refused{R"({"\u006E":1,"prompt":"a","n":2})", 400, "", "\"n\" appears twice"},
        Refused{R"({"prompt":"a","x":[{"y":{"k":1,"\u006b":2}}]})", 400, "", "\"k\" appears twice"},
        Refused{"{\"prompt\":\"a\",\"n\":NaN}", 400, "", "not valid JSON"}));

INSTANTIATE_TEST_SUITE_P(
    Prompts, RefusedCompletion,
    ::testing::Values(
        Refused{"{}", 400, "prompt", "prompt: is missing"},
        Refused{R"({"prompt":null})", 400, "prompt", "is missing"},
        Refused{R"({"prompt":7})", 400, "prompt", "got 7"},
        Refused{R"({"prompt":[]})", 400, "prompt", "an array of 0 elements"},
        Refused{R"({"prompt":["a",1]})", 400, "prompt[1]", "the same kind as the first, got 1"},
        Refused{R"({"prompt":[[1],"a"]})", 400, "prompt[1]", "the same kind as the first"},
        Refused{R"({"prompt":[1,"a"]})", 400, "prompt[1]", "expected an integer from 0 to 255"},
        Refused{R"({"prompt":[256]})", 400, "prompt[0]", "256 is out of range"},
        Refused{R"({"prompt":[-1]})", 400, "prompt[0]", "-1 is out of range"},
        Refused{R"({"prompt":[1.5]})", 400, "prompt[0]", "expected an integer"},
        Refused{R"({"prompt":[[]]})", 400, "prompt", "is empty; expected at least one token"},
        Refused{R"({"prompt":[{}]})", 400, "prompt[0]", "an object of 0 members"},
        Refused{R"({"prompt":["a","a","a"],"n":3})", 400, "n", "at most 8 choices"},
        Refused{R"({"prompt":["","","","","","","","",""]})", 400, "prompt", "9 prompts are too"},
        Refused{R"({"model":"other","prompt":"a"})", 404, "model",
                "\"other\" is not served here; expected \"fake\""},
        Refused{R"({"model":1,"prompt":"a"})", 400, "model", "expected a string, got 1"}));

INSTANTIATE_TEST_SUITE_P(
    Fields, RefusedCompletion,
    ::testing::Values(
        Refused{R"({"prompt":"a","temperature":-0.1})", 400, "temperature", "-0.1 is out of range"},
        Refused{R"({"prompt":"a","temperature":"hot"})", 400, "temperature", "got \"hot\""},
        Refused{R"({"prompt":"a","top_p":0})", 400, "top_p", "a number above 0 and at most 1"},
        Refused{R"({"prompt":"a","top_p":1e-60})", 400, "top_p", "out of range"},
        Refused{R"({"prompt":"a","top_p":1.1})", 400, "top_p", "1.1 is out of range"},
        Refused{R"({"prompt":"a","min_p":2})", 400, "min_p", "a number from 0 to 1"},
        Refused{R"({"prompt":"a","top_k":-2})", 400, "top_k", "-2 is out of range"},
        Refused{R"({"prompt":"a","top_k":true})", 400, "top_k", "got true"},
        Refused{R"({"prompt":"a","repetition_penalty":0})", 400, "repetition_penalty", "above 0"},
        Refused{R"({"prompt":"a","presence_penalty":-2.5})", 400, "presence_penalty", "-2"},
        Refused{R"({"prompt":"a","frequency_penalty":3})", 400, "frequency_penalty",
                "a number from -2 to 2"},
        Refused{R"({"prompt":"a","n":0})", 400, "n", "an integer from 1 to 128"},
        Refused{R"({"prompt":"a","n":1.5})", 400, "n", "expected an integer"},
        Refused{R"({"prompt":"a","n":1e30})", 400, "n", "expected an integer"},
        Refused{R"({"prompt":"a","max_tokens":-2})", 400, "max_tokens", "-2 is out of range"},
        Refused{R"({"prompt":"a","max_tokens":18446744073709551615})", 400, "max_tokens",
                "18446744073709551615 is out of range"},
        Refused{R"({"prompt":"a","min_tokens":17})", 400, "min_tokens", "more than max_tokens"},
        Refused{R"({"prompt":"a","seed":1.5})", 400, "seed", "an integer of 64 bits, got 1.5"},
        Refused{R"({"prompt":"a","seed":99999999999999999999})", 400, "seed", "64 bits"},
        Refused{R"({"prompt":"a","stop":""})", 400, "stop", "has 0 bytes"},
        Refused{R"({"prompt":"a","stop":["x",""]})", 400, "stop", "has 0 bytes"},
        Refused{R"({"prompt":"a","stop":[1]})", 400, "stop", "got 1"},
        Refused{R"({"prompt":"a","stop_token_ids":[300]})", 400, "stop_token_ids[0]", "300"},
        Refused{R"({"prompt":"a","stop_token_ids":3})", 400, "stop_token_ids", "an array of token"},
        Refused{R"({"prompt":"a","ignore_eos":1})", 400, "ignore_eos", "true or false, got 1"},
        Refused{R"({"prompt":"a","stream":"yes"})", 400, "stream", "true or false"},
        Refused{R"({"prompt":"a","stream":true,"stream_options":{"include_usage":1}})", 400,
                "stream_options.include_usage", "true or false"},
        Refused{R"({"prompt":"a","stream":true,"stream_options":[]})", 400, "stream_options",
                "expected an object"},
        Refused{R"({"prompt":"a","logit_bias":{"x":1}})", 400, "logit_bias", "\"x\" is not a"},
        Refused{R"({"prompt":"a","logit_bias":{"256":1}})", 400, "logit_bias", "\"0\" to \"255\""},
        Refused{R"({"prompt":"a","logit_bias":{"1":101}})", 400, "logit_bias[\"1\"]", "101"},
        Refused{R"({"prompt":"a","logit_bias":[1]})", 400, "logit_bias", "expected an object"},
        Refused{R"({"prompt":"a","logprobs":21})", 400, "logprobs", "from 0 to 20"},
        Refused{R"({"prompt":"a","logprobs":true})", 400, "logprobs", "got true"},
        Refused{R"({"prompt":"a","best_of":2})", 400, "best_of",
                "2 is not supported; expected "
                "null or 1"},
        Refused{R"({"prompt":"a","echo":1})", 400, "echo", "expected"},
        Refused{R"({"prompt":"a","suffix":1})", 400, "suffix", "expected"},
        Refused{R"({"prompt":"a","suffix":"x"})", 400, "suffix",
                "the model has no tokens for filling in the middle of a text"},
        Refused{R"({"prompt":"a","prompt_logprobs":21})", 400, "prompt_logprobs", "21"},
        Refused{R"({"prompt":"a","prompt_logprobs":-1})", 400, "prompt_logprobs", "-1"},
        Refused{R"({"prompt":"a","max_tokens":0,"guided_regex":"a"})", 400, "max_tokens",
                "0 leaves no text to have the format of guided_regex"},
        Refused{R"({"prompt":"a","user":5})", 400, "user", "expected a string"},
        Refused{R"({"prompt":"a","cache_salt":["x"]})", 400, "cache_salt", "expected a string"},
        Refused{R"({"prompt":"a","priority":1001})", 400, "priority",
                "1001 is out of range; expected an integer from -1000 to 1000"},
        Refused{R"({"prompt":"a","priority":"high"})", 400, "priority", "got \"high\""},
        Refused{R"({"prompt":"a","timeout":0})", 400, "timeout",
                "0 is out of range; expected a number above 0"},
        Refused{R"({"prompt":"a","timeout":-1})", 400, "timeout", "-1 is out of range"},
        Refused{R"({"prompt":"a","timeout":1e9})", 400, "timeout", "at most 31536000"},
        Refused{R"({"prompt":"a","timeout":"10s"})", 400, "timeout", "got \"10s\""},
        Refused{R"({"prompt":"a","response_format":"json"})", 400, "response_format",
                "expected an object with a \"type\""},
        Refused{R"({"prompt":"a","response_format":{"type":"xml"}})", 400, "response_format.type",
                "\"json_object\" or \"json_schema\", got \"xml\""},
        Refused{R"({"prompt":"a","response_format":{"type":"json_object","json_schema":{}}})", 400,
                "response_format.json_schema", "contradicts the type \"json_object\""},
        Refused{R"({"prompt":"a","response_format":{"type":"text","schema":{}}})", 400,
                "response_format.schema", "contradicts the type \"text\""},
        Refused{R"({"prompt":"a","response_format":{"type":"json_schema"}})", 400,
                "response_format.json_schema", "is missing"},
        Refused{R"({"prompt":"a","response_format":{"type":"json_schema","json_schema":[]}})", 400,
                "response_format.json_schema", "expected an object"},
        Refused{
            R"({"prompt":"a","response_format":{"type":"json_schema","json_schema":{"name":"x"}}})",
            400, "response_format.json_schema.schema", "is missing"},
        Refused{
            R"({"prompt":"a","response_format":{"type":"json_schema","json_schema":{"name":3,"schema":{}}}})",
            400, "response_format.json_schema.name", "expected a string, got 3"},
        Refused{
            R"({"prompt":"a","response_format":{"type":"json_schema","json_schema":{"strict":"no","schema":{}}}})",
            400, "response_format.json_schema.strict", "expected true or false"},
        Refused{
            R"({"prompt":"a","response_format":{"type":"json_schema","json_schema":{"schemas":{}}}})",
            400, "response_format.json_schema.schema", "is missing"},
        Refused{
            R"({"prompt":"a","response_format":{"type":"json_schema","json_schema":{"schema":3}}})",
            400, "response_format.json_schema.schema", "#: a schema must be an object"},
        Refused{
            R"({"prompt":"a","response_format":{"type":"json_schema","json_schema":{"strict":true,"schema":{"properties":{"a":{"contains":2}}}}}})",
            400, "response_format.json_schema.schema", "#/properties/a/contains: the keyword"},
        Refused{R"({"prompt":"a","guided_json":{"type":"strin"}})", 400, "guided_json",
                "#/type: \"strin\" is no type"},
        Refused{R"({"prompt":"a","guided_json":"{\"type\":"})", 400, "guided_json",
                "not valid JSON in UTF-8: error at byte 9"},
        Refused{R"({"prompt":"a","guided_json":3})", 400, "guided_json",
                "a JSON schema or its text"},
        Refused{R"j({"prompt":"a","guided_regex":"a(?=b)"})j", 400, "guided_regex",
                "offset 1: look-around"},
        Refused{R"({"prompt":"a","guided_regex":["a"]})", 400, "guided_regex", "expected a string"},
        Refused{R"({"prompt":"a","guided_regex":"a","guided_json":{}})", 400, "guided_json",
                "contradicts guided_regex"},
        Refused{R"({"prompt":"a","guided_choice":[]})", 400, "guided_choice",
                "an array of 1 to 4096 strings, got 0"},
        Refused{R"({"prompt":"a","guided_choice":["a",1]})", 400, "guided_choice[1]",
                "expected a string"},
        Refused{R"({"prompt":"a","guided_choice":[""]})", 400, "guided_choice[0]", "is empty"},
        Refused{R"({"prompt":"a","structured_outputs":"json"})", 400, "structured_outputs",
                "expected an object with one of \"json\""},
        Refused{R"({"prompt":"a","structured_outputs":{"grammar":"root ::= x"}})", 400,
                "structured_outputs.grammar", "x"},
        Refused{R"({"prompt":"a","structured_outputs":{"lark":"x"}})", 400,
                "structured_outputs.lark", "is not supported; expected one of"},
        Refused{R"({"prompt":"a","structured_outputs":{"choice":["a"],"regex":"b"}})", 400,
                "structured_outputs.regex", "contradicts structured_outputs.choice"},
        Refused{R"({"prompt":"a","structured_outputs":{"json_object":1}})", 400,
                "structured_outputs.json_object", "true or false, got 1"},
        Refused{R"({"prompt":"a","guided_choice":["a"],"structured_outputs":{"regex":"b"}})", 400,
                "structured_outputs.regex", "contradicts guided_choice"}));

class RefusedChat : public ApiRequest, public ::testing::WithParamInterface<Refused> {};
TEST_P(RefusedChat, NamesTheField) {
  const auto result = chat(GetParam().body);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().status, GetParam().status);
  EXPECT_EQ(result.error().param, GetParam().param);
  EXPECT_THAT(result.error().message, HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Messages, RefusedChat,
    ::testing::Values(
        Refused{"{}", 400, "messages", "is missing"},
        Refused{R"({"messages":[]})", 400, "messages", "a non-empty array"},
        Refused{R"({"messages":"hi"})", 400, "messages", "got \"hi\""},
        Refused{R"({"messages":["hi"]})", 400, "messages[0]", "expected an object"},
        Refused{R"({"messages":[{"content":"x"}]})", 400, "messages[0].role", "is missing"},
        Refused{R"({"messages":[{"role":"user"}]})", 400, "messages[0].content", "is missing"},
        Refused{R"({"messages":[{"role":1,"content":"x"}]})", 400, "messages[0].role", "a string"},
        Refused{R"({"messages":[{"role":"user","content":null}]})", 400, "messages[0].content",
                "got null"},
        Refused{R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})", 400,
                "messages[0].content[0].type", "\"image_url\" is not supported"},
        Refused{R"({"messages":[{"role":"user","content":[{"text":"x"}]}]})", 400,
                "messages[0].content[0].type", "is missing"},
        Refused{R"({"messages":[{"role":"user","content":[{"type":"text"}]}]})", 400,
                "messages[0].content[0].text", "is missing"},
        Refused{R"({"messages":[{"role":"user","content":["x"]}]})", 400, "messages[0].content[0]",
                "expected an object"},
        Refused{R"({"messages":[{"role":"user","content":"x"},)"
                R"({"role":"assistant","content":"","tool_calls":[{}]}]})",
                400, "messages[1].tool_calls[0].function", "is missing"},
        Refused{R"({"messages":[{"role":"alien","content":"x"}]})", 400, "messages",
                "line 1, column 7: no such role"}));

INSTANTIATE_TEST_SUITE_P(
    Fields, RefusedChat,
    ::testing::Values(
        Refused{"{" HELLO R"(,"tools":[{"type":"function"}]})", 400, "tools[0].function",
                "is missing"},
        Refused{"{" HELLO R"(,"best_of":4})", 400, "best_of",
                "4 is not supported; expected null or 1"},
        Refused{"{" HELLO R"(,"chat_template":"{{ messages }}"})", 400, "chat_template",
                "is not supported; expected null"},
        Refused{"{" HELLO R"(,"documents":"x"})", 400, "documents", "expected an array of objects"},
        Refused{"{" HELLO R"(,"json_schema":{"contains":{}}})", 400, "json_schema",
                "#/contains: the keyword"},
        Refused{"{" HELLO R"(,"regex":"("})", 400, "regex", ""},
        Refused{"{" HELLO R"(,"tool_choice":"required"})", 400, "tool_choice",
                "asks for a call, but \"tools\" has no functions"},
        Refused{"{" HELLO R"(,"logprobs":3})", 400, "logprobs", "true or false, got 3"},
        Refused{"{" HELLO R"(,"top_logprobs":3})", 400, "top_logprobs", "\"logprobs\": true"},
        Refused{"{" HELLO R"(,"logprobs":true,"top_logprobs":21})", 400, "top_logprobs", "21"},
        Refused{"{" HELLO R"(,"max_tokens":3,"max_completion_tokens":4})", 400, "max_tokens",
                "3 contradicts max_completion_tokens 4"},
        Refused{"{" HELLO R"(,"n":9})", 400, "n", "at most 8 choices"},
        Refused{"{" HELLO R"(,"continue_final_message":true,"add_generation_prompt":true})", 400,
                "continue_final_message", "contradicts \"add_generation_prompt\": true"},
        Refused{"{" HELLO R"(,"continue_final_message":1})", 400, "continue_final_message",
                "true or false, got 1"},
        Refused{"{" HELLO R"(,"chat_template_kwargs":{"messages":[]}})", 400,
                "chat_template_kwargs", "\"messages\" is set by the server"},
        Refused{"{" HELLO R"(,"chat_template_kwargs":1})", 400, "chat_template_kwargs",
                "expected an object"},
        Refused{"{" HELLO R"(,"reasoning_effort":"huge"})", 400, "reasoning_effort",
                "expected one of none, minimal, low, medium, high, xhigh, max, got \"huge\""}));

TEST_F(ApiRequest, APromptThatFillsTheContextIsRefusedAndALongOutputIsCut) {
  backend_.model.max_context = 10;
  const auto full = completion(R"({"prompt":"123456789"})");
  ASSERT_FALSE(full.has_value());
  EXPECT_EQ(full.error().code, "context_length_exceeded");
  EXPECT_EQ(full.error().param, "prompt");
  EXPECT_THAT(full.error().message,
              HasSubstr("prompt is too long: 10 tokens > 9 maximum; this model's "
                        "maximum context length is 10 tokens"));
  const auto fits = completion(R"({"prompt":"12345678","max_tokens":100})");
  ASSERT_TRUE(fits.has_value());
  EXPECT_EQ(fits->requests[0].max_tokens, 1);
  const auto never = completion(R"({"prompt":"12345678","max_tokens":100,"min_tokens":2})");
  ASSERT_FALSE(never.has_value());
  EXPECT_EQ(never.error().param, "min_tokens");
}

TEST_F(ApiRequest, AModelWithoutTemplateRefusesChats) {
  backend_.render_chat = nullptr;
  const auto result = chat("{" HELLO "}");
  ASSERT_FALSE(result.has_value());
  EXPECT_THAT(result.error().message, HasSubstr("has no chat template"));
}

TEST_F(ApiRequest, DepthAndWidthAreBounded) {
  const std::string deep = "{\"prompt\":" + std::string(64, '[') + std::string(64, ']') + "}";
  const auto bomb = completion(deep);
  ASSERT_FALSE(bomb.has_value());
  EXPECT_THAT(bomb.error().message, HasSubstr("deeper than 64 levels at byte 73"));
  const std::string inner = "{\"prompt\":" + std::string(63, '[') + std::string(63, ']') + "}";
  const auto allowed = completion(inner);
  ASSERT_FALSE(allowed.has_value());
  EXPECT_EQ(allowed.error().param, "prompt[0][0]");
  std::string wide = "{\"logit_bias\":{\"0\":1";
  for (int i = 1; i < 1025; ++i) wide += fmt::format(",\"{}\":1", i);
  const auto members = completion(wide + "}}");
  ASSERT_FALSE(members.has_value());
  EXPECT_THAT(members.error().message, HasSubstr("more than 1024 members"));
}

// Streamed or not: what is said of a prompt comes at once.
TEST_F(ApiRequest, BoundsTheEntriesOfPrompts) {
  const auto read = [&](std::string_view body) {
    return read_generation(Endpoint::kCompletion, body, {backend_, "fake", 512, 100});
  };
  const std::string prompt(24, 'a');  // and BOS
  for (const char* stream : {"true", "false"}) {
    const auto body = [&](int top) {
      return fmt::format(R"({{"prompt":"{}","max_tokens":0,"prompt_logprobs":{},"stream":{}}})",
                         prompt, top, stream);
    };
    EXPECT_TRUE(read(body(3)));
    const auto refused = read(body(4));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().param, "prompt");
    EXPECT_THAT(refused.error().message,
                HasSubstr("125 entries of one answer; expected at most 100"));
  }
}

TEST_F(ApiRequest, BoundsTheEntriesOfOneAnswer) {
  const auto read = [&](Endpoint endpoint, std::string_view body) {
    return read_generation(endpoint, body, {backend_, "fake", 512, 1000});
  };
  const auto refused =
      read(Endpoint::kCompletion, R"({"prompt":["a","b"],"n":5,"max_tokens":20,"logprobs":5})");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().status, 400);
  EXPECT_EQ(refused.error().param, "max_tokens");
  EXPECT_THAT(refused.error().message,
              HasSubstr("10 choices of up to 20 tokens, with 5 logprobs each, are 1200 entries of "
                        "one answer; expected at most 1000, or \"stream\": true"));
  EXPECT_TRUE(
      read(Endpoint::kCompletion, R"({"prompt":["a","b"],"n":5,"max_tokens":20,"logprobs":4})"));
  EXPECT_TRUE(read(Endpoint::kCompletion,
                   R"({"prompt":["a","b"],"n":5,"max_tokens":20,"logprobs":5,"stream":true})"));
  EXPECT_FALSE(read(Endpoint::kChat, "{" HELLO R"(,"max_tokens":501,"n":2})"));
  EXPECT_TRUE(read(Endpoint::kChat, "{" HELLO R"(,"max_tokens":500,"n":2})"));
}

}  // namespace
}  // namespace dovetail::serve
