#include "serve/api_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/sampling_table.h"
#include "grammar/matcher.h"
#include "serve/fake_engine.h"
#include "support/sampling_samples.h"

namespace dovetail::serve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ApiRequest : public ::testing::Test {
 protected:
  Outcome<Generation> read(Endpoint endpoint, std::string_view body) {
    auto generation = read_generation(endpoint, body, {backend_, "fake", 8});
    if (!generation) return generation;
    const std::atomic<bool> stop = false;
    if (auto found = compile_format(*generation, backend_, stop)) {
      return tl::unexpected<ApiError>(*std::move(found));
    }
    return generation;
  }
  Outcome<Generation> completion(std::string_view body) {
    return read(Endpoint::kCompletion, body);
  }
  Outcome<Generation> chat(std::string_view body) { return read(Endpoint::kChat, body); }

  FakeEngine engine_;
  Backend backend_ = engine_.backend();
};

std::string prompt_text(const Request& request) {
  std::string text;
  for (const TokenId id : request.prompt) text += static_cast<char>(id);
  return text;
}

TEST_F(ApiRequest, ReadsInputsToEmbed) {
  for (
      const char* body :
      {R"({"input":["ab","c"],"encoding_format":"base64","user":"u"})",
       R"({"input":[[97,98],[99]],"model":"fake","encoding_format":"base64","dimensions":null})"}) {
    const auto read_body = read(Endpoint::kEmbedding, body);
    ASSERT_TRUE(read_body) << read_body.error().message;
    EXPECT_TRUE(read_body->base64);
    EXPECT_FALSE(read_body->stream);
    ASSERT_EQ(read_body->requests.size(), 2U);
    EXPECT_TRUE(read_body->requests[0].embed);
    EXPECT_TRUE(prompt_text(read_body->requests[1]).ends_with("c"));
  }
  for (const auto& [body, param] :
       {std::pair{R"({})", "input"},
        {R"({"input":[]})", "input"},

        {R"({"input":["a",[1]]})", "input[1]"},
        {R"({"input":"a","encoding_format":"int8"})", "encoding_format"},
        {R"({"input":"a","dimensions":3})", "dimensions"},
        {R"({"prompt":"a"})", "input"}}) {
    const auto refused = read(Endpoint::kEmbedding, body);
    ASSERT_FALSE(refused) << body;
    EXPECT_EQ(refused.error().status, 400);
    EXPECT_EQ(refused.error().param, param) << body;
  }
}

// As many as OpenAI allows, whatever bounds choices; each counts as one of an answer's entries.
TEST_F(ApiRequest, TakesManyInputsToEmbed) {
  Json body;
  for (int i = 0; i < 2048; ++i) body["input"].push_back("a");
  const auto all = read(Endpoint::kEmbedding, body.dump());
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(all->requests.size(), 2048U);
  body["input"].push_back("a");
  EXPECT_THAT(read(Endpoint::kEmbedding, body.dump()).error().message,
              ::testing::HasSubstr("2049 prompts are too many; expected at most 2048"));
  const Json prompts = {{"prompt", body["input"]}};
  EXPECT_EQ(read(Endpoint::kCompletion, prompts.dump()).error().param, "prompt");
}

TEST_F(ApiRequest, ReadsDocumentsToRank) {
  const auto read_body = read(
      Endpoint::kRerank,
      R"({"query":"ab","documents":["c",{"text":"de"},""],"top_n":2,"return_documents":false})");
  ASSERT_TRUE(read_body) << read_body.error().message;
  ASSERT_EQ(read_body->requests.size(), 3U);
  for (const Request& request : read_body->requests) {
    EXPECT_TRUE(request.rank);
    EXPECT_FALSE(request.embed);
    EXPECT_EQ(request.second, 4U);
  }
  EXPECT_TRUE(prompt_text(read_body->requests[1]).ends_with("de"));
  EXPECT_EQ(read_body->ranking.documents, (std::vector<std::string>{"c", "de", ""}));
  EXPECT_EQ(read_body->ranking.top, 2U);
  EXPECT_FALSE(read_body->ranking.with_texts);
  const auto all = read(Endpoint::kRerank, R"({"query":"q","documents":["a","b"],"top_n":9})");
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(all->ranking.top, 2U);
  EXPECT_TRUE(all->ranking.with_texts);
  for (const auto& [body, param] :
       {std::pair{R"({"documents":["a"]})", "query"},
        {R"({"query":"","documents":["a"]})", "query"},
        {R"({"query":["a"],"documents":["a"]})", "query"},
        {R"({"query":"q"})", "documents"},
        {R"({"query":"q","documents":"a"})", "documents"},
        {R"({"query":"q","documents":[]})", "documents"},
        {R"({"query":"q","documents":["a",1]})", "documents[1]"},
        {R"({"query":"q","documents":[{"text":1}]})", "documents[0].text"},
        {R"({"query":"q","documents":[{"title":"a"}]})", "documents[0]"},
        {R"({"query":"q","documents":["a"],"top_n":0})", "top_n"},
        {R"({"query":"q","documents":["a"],"return_documents":1})", "return_documents"}}) {
    const auto refused = read(Endpoint::kRerank, body);
    ASSERT_FALSE(refused) << body;
    EXPECT_EQ(refused.error().status, 400);
    EXPECT_EQ(refused.error().param, param) << body;
  }
}

TEST_F(ApiRequest, SaysThatAModelHasNoFormForPairs) {
  backend_.encode_pair = [](std::string_view, std::string_view) {
    return Result<std::pair<std::vector<TokenId>, std::size_t>>(
        fail(ErrorKind::kUnsupported, "no form for two texts"));
  };
  const auto refused = read(Endpoint::kRerank, R"({"query":"q","documents":["a"]})");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().status, 400);
  EXPECT_EQ(refused.error().param, "model");
}

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
        Refused{"{\"prompt\":\"\\ud800\"}", 400, "", "not valid JSON"},
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
        Refused{R"({"prompt":"a","response_format":{"type":"json_object","x":1}})", 400,
                "response_format.x", "unknown or unsupported field \"x\""},
        Refused{R"({"prompt":"a","response_format":{"type":"json_object","json_schema":{}}})", 400,
                "response_format.json_schema", "unknown or unsupported field"},
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
            400, "response_format.json_schema.schemas", "unknown or unsupported field"},
        Refused{
            R"({"prompt":"a","response_format":{"type":"json_schema","json_schema":{"schema":3}}})",
            400, "response_format.json_schema.schema", "#: a schema must be an object"},
        Refused{
            R"({"prompt":"a","response_format":{"type":"json_schema","json_schema":{"schema":{"properties":{"a":{"contains":2}}}}}})",
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

#define HELLO R"("messages":[{"role":"user","content":"hi"}])"

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

TEST_F(ApiRequest, NullIsNotGivenWithinStreamOptionsToo) {
  const auto result =
      completion(R"({"prompt":"a","stream":true,)"
                 R"("stream_options":{"include_usage":null,"include_obfuscation":null}})");
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_FALSE(result->include_usage);
}

TEST_F(ApiRequest, ACompletionTakesOpenAisDefaults) {
  const auto result = completion(R"({"model":"fake","prompt":"ab"})");
  ASSERT_TRUE(result.has_value()) << result.error().message;
  ASSERT_EQ(result->requests.size(), 1U);
  const Request& request = result->requests[0];
  EXPECT_THAT(request.prompt, ElementsAre(1, 'a', 'b'));
  EXPECT_EQ(request.max_tokens, 16);
  EXPECT_EQ(request.n, 1);
  EXPECT_EQ(request.logprobs, -1);
  EXPECT_EQ(request.sampling.temperature, 1.0F);
  EXPECT_FALSE(request.sampling.seed.has_value());
  EXPECT_THAT(request.stop, IsEmpty());
  EXPECT_FALSE(result->stream);
}

TEST_F(ApiRequest, TheModelsDefaultsGoBeforeOpenAis) {
  backend_.model.sampling.temperature = 0.6F;
  backend_.model.sampling.top_k = 20;
  const auto result = completion(R"({"prompt":"ab","top_k":5,"temperature":null})");
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_EQ(result->requests[0].sampling.temperature, 0.6F);
  EXPECT_EQ(result->requests[0].sampling.top_k, 5);
}

TEST_F(ApiRequest, EveryFieldArrives) {
  const auto result = completion(R"({"model":"fake","prompt":"a","stream":true,
      "stream_options":{"include_usage":true,"include_obfuscation":false},
      "temperature":0.5,"top_p":0.25,"min_p":0.125,"top_k":7,"repetition_penalty":1.5,
      "presence_penalty":-0.5,"frequency_penalty":2,"logit_bias":{"7":-100,"8":1.5},"seed":-1,
      "n":3,"max_tokens":9,"min_tokens":2,"ignore_eos":true,"stop":["x","yz"],
      "stop_token_ids":[3,4],"logprobs":2,"user":"me","best_of":1,"echo":false,"suffix":null})");
  ASSERT_TRUE(result.has_value()) << result.error().message;
  const Request& request = result->requests[0];
  EXPECT_TRUE(result->stream);
  EXPECT_TRUE(result->include_usage);
  EXPECT_EQ(request.sampling.temperature, 0.5F);
  EXPECT_EQ(request.sampling.top_p, 0.25F);
  EXPECT_EQ(request.sampling.min_p, 0.125F);
  EXPECT_EQ(request.sampling.top_k, 7);
  EXPECT_EQ(request.sampling.repetition_penalty, 1.5F);
  EXPECT_EQ(request.sampling.presence_penalty, -0.5F);
  EXPECT_EQ(request.sampling.frequency_penalty, 2.0F);
  EXPECT_THAT(request.sampling.logit_bias, ElementsAre(std::pair(7, -100.0F), std::pair(8, 1.5F)));
  EXPECT_EQ(request.sampling.seed, ~std::uint64_t{0});
  EXPECT_EQ(request.n, 3);
  EXPECT_EQ(request.max_tokens, 9);
  EXPECT_EQ(request.min_tokens, 2);
  EXPECT_TRUE(request.ignore_eos);
  EXPECT_THAT(request.stop, ElementsAre("x", "yz"));
  EXPECT_THAT(request.stop_ids, ElementsAre(3, 4));
  EXPECT_EQ(request.logprobs, 2);
}

TEST_F(ApiRequest, WhoSharesTheServerArrives) {
  for (const Endpoint endpoint : {Endpoint::kCompletion, Endpoint::kChat}) {
    const std::string prompt = endpoint == Endpoint::kChat ? HELLO : R"("prompt":["a","b"])";
    const auto plain = read(endpoint, "{" + prompt + "}");
    ASSERT_TRUE(plain.has_value()) << plain.error().message;
    EXPECT_EQ(plain->requests[0].tenant, "");
    EXPECT_EQ(plain->requests[0].cache_salt, "");
    EXPECT_EQ(plain->requests[0].priority, 0);
    EXPECT_FALSE(plain->requests[0].timeout.has_value());
    const auto result = read(
        endpoint, "{" + prompt + R"(,"user":"me","cache_salt":"s","priority":-3,"timeout":2.5})");
    ASSERT_TRUE(result.has_value()) << result.error().message;
    for (const Request& request : result->requests) {
      EXPECT_EQ(request.tenant, "me");
      EXPECT_EQ(request.cache_salt, "s");
      EXPECT_EQ(request.priority, -3);
      EXPECT_EQ(request.timeout, std::chrono::milliseconds(2500));
    }
  }
  EXPECT_EQ(completion(R"({"prompt":"a","timeout":1e-9})")->requests[0].timeout,
            std::chrono::milliseconds(1));
  const auto longest =
      completion(fmt::format(R"({{"prompt":"a","user":"{}"}})", std::string(512, 'x')));
  EXPECT_TRUE(longest.has_value());
  const auto longer =
      completion(fmt::format(R"({{"prompt":"a","user":"{}"}})", std::string(513, 'x')));
  ASSERT_FALSE(longer.has_value());
  EXPECT_EQ(longer.error().param, "user");
  EXPECT_THAT(longer.error().message, HasSubstr("513 bytes are too long; expected at most 512"));
}

TEST_F(ApiRequest, LargeSeedsKeepTheirBits) {
  const auto result = completion(R"({"prompt":"a","seed":18446744073709551615})");
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->requests[0].sampling.seed, ~std::uint64_t{0});
}

TEST_F(ApiRequest, TopKMinusOneMeansAll) {
  const auto result = completion(R"({"prompt":"a","top_k":-1})");
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->requests[0].sampling.top_k, 0);
}

TEST_F(ApiRequest, PromptsComeInFourForms) {
  const auto texts = completion(R"({"prompt":["a","bc"],"n":2})");
  ASSERT_TRUE(texts.has_value());
  ASSERT_EQ(texts->requests.size(), 2U);
  EXPECT_THAT(texts->requests[1].prompt, ElementsAre(1, 'b', 'c'));
  EXPECT_EQ(texts->requests[1].n, 2);
  const auto ids = completion(R"({"prompt":[5,6]})");
  ASSERT_TRUE(ids.has_value());
  EXPECT_THAT(ids->requests[0].prompt, ElementsAre(5, 6));
  const auto lists = completion(R"({"prompt":[[5,6],[7]]})");
  ASSERT_TRUE(lists.has_value());
  EXPECT_THAT(lists->requests[1].prompt, ElementsAre(7));
}

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

TEST_F(ApiRequest, ChatLogprobsAreASwitchAndANumber) {
  const auto on = chat("{" HELLO R"(,"logprobs":true})");
  ASSERT_TRUE(on.has_value());
  EXPECT_EQ(on->requests[0].logprobs, 0);
  const auto top = chat("{" HELLO R"(,"logprobs":true,"top_logprobs":4})");
  ASSERT_TRUE(top.has_value());
  EXPECT_EQ(top->requests[0].logprobs, 4);
  const auto off = chat("{" HELLO R"(,"logprobs":false})");
  ASSERT_TRUE(off.has_value());
  EXPECT_EQ(off->requests[0].logprobs, -1);
}

TEST_F(ApiRequest, AFormatIsAGrammarOfEachPrompt) {
  const auto starts = [](const Request& request, std::string_view text) {
    return request.grammar && grammar::Matcher(request.grammar).accept_bytes(text);
  };
  const auto schema = chat("{" HELLO R"(,"response_format":{"type":"json_schema","json_schema":
      {"name":"n","description":null,"strict":true,"schema":{"const":"x"}}}})");
  ASSERT_TRUE(schema.has_value()) << schema.error().message;
  EXPECT_TRUE(starts(schema->requests[0], "\"x\""));
  EXPECT_FALSE(starts(schema->requests[0], "\"y"));
  const auto object = chat("{" HELLO R"(,"response_format":{"type":"json_object"}})");
  ASSERT_TRUE(object.has_value()) << object.error().message;
  EXPECT_TRUE(starts(object->requests[0], "{\"a\":[1"));
  EXPECT_FALSE(starts(object->requests[0], "["));
  const auto regex = completion(R"({"prompt":["a","b"],"guided_regex":"[ab]+"})");
  ASSERT_TRUE(regex.has_value()) << regex.error().message;
  ASSERT_EQ(regex->requests.size(), 2U);
  for (const Request& request : regex->requests) {
    EXPECT_TRUE(starts(request, "ab"));
    EXPECT_FALSE(starts(request, "c"));
  }
  // The same text twice is compiled once, in both spellings.
  const auto again = completion(R"({"prompt":"a","guided_json":{"const":"x"}})");
  const auto text = completion(R"({"prompt":"a","guided_json":"{\"const\":\"x\"}"})");
  ASSERT_TRUE(again.has_value() && text.has_value());
  EXPECT_EQ(again->requests[0].grammar, schema->requests[0].grammar);
  EXPECT_EQ(text->requests[0].grammar, schema->requests[0].grammar);
  // Choices are texts, whatever they would mean in an expression.
  for (const char* body :
       {R"j({"prompt":"a","guided_choice":["a.b","(c|d","\\d+\n^$/"]})j",
        R"j({"prompt":"a","structured_outputs":{"choice":["a.b","(c|d","\\d+\n^$/"],)j"
        R"j("json":null,"json_object":false,"disable_any_whitespace":false}})j"}) {
    const auto choice = completion(body);
    ASSERT_TRUE(choice.has_value()) << choice.error().message;
    for (const char* text : {"a.b", "(c|d", "\\d+\n^$/"}) {
      grammar::Matcher matcher(choice->requests[0].grammar);
      EXPECT_TRUE(matcher.accept_bytes(text) && matcher.must_end()) << text;
    }
    for (const char* text : {"axb", "c", "d", "1"}) EXPECT_FALSE(starts(choice->requests[0], text));
  }
  const auto structured =
      completion(R"({"prompt":"a","structured_outputs":{"json":{"const":"x"}}})");
  ASSERT_TRUE(structured.has_value()) << structured.error().message;
  EXPECT_EQ(structured->requests[0].grammar, schema->requests[0].grammar);
  const auto nothing = completion(R"({"prompt":"a","structured_outputs":{"json_object":false}})");
  ASSERT_TRUE(nothing.has_value());
  EXPECT_EQ(nothing->requests[0].grammar, nullptr);
  const auto none = chat("{" HELLO R"(,"response_format":{"type":"text"},"guided_regex":null})");
  ASSERT_TRUE(none.has_value());
  EXPECT_EQ(none->requests[0].grammar, nullptr);
}

TEST_F(ApiRequest, FieldsThatAreNotKnownAreNamed) {
  const auto result = completion(
      R"({"prompt":"a","foo":1,"messages":[],"top_logprobs":1,"b\u00e4r\r\n":null,"n":1.0})");
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_EQ(result->ignored, "foo, messages, top_logprobs, b??r??");
  EXPECT_EQ(result->requests[0].n, 1);
  const auto inside = chat(R"({"messages":[{"role":"user","content":[{"type":"text","text":"x",)"
                           R"("y":1}],"z":2}]})");
  ASSERT_TRUE(inside.has_value()) << inside.error().message;
  EXPECT_EQ(inside->ignored, "messages[0].content[0].y, messages[0].z");
  EXPECT_EQ(completion(R"({"prompt":"a"})")->ignored, "");
  std::string many = R"({"prompt":"a")";
  for (int i = 0; i < 40; ++i) many += fmt::format(",\"x{}{}\":1", i, std::string(200, 'y'));
  EXPECT_LT(completion(many + "}")->ignored.size(), 16 * 66U);
}

TEST_F(ApiRequest, StrictFieldsRefuseWhatIsNotKnown) {
  RequestContext context{backend_, "fake", 8};
  context.strict_fields = true;
  const auto refused =
      read_generation(Endpoint::kCompletion, R"({"prompt":"a","max_token":3})", context);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().param, "max_token");
  EXPECT_THAT(refused.error().message, HasSubstr("did you mean max_tokens"));
  EXPECT_TRUE(read_generation(Endpoint::kCompletion, R"({"prompt":"a","store":true})", context));
  EXPECT_FALSE(tokenize(R"({"content":"a","text":"a"})", context));
}

TEST_F(ApiRequest, HintsAreAcceptedAtAnyValue) {
  const auto result = chat("{" HELLO R"(,"store":true,"metadata":{"a":"b"},"service_tier":"flex",
      "prompt_cache_key":"k","safety_identifier":"s","parallel_tool_calls":true,"stream":true,
      "stream_options":{"include_usage":true,"continuous_usage_stats":true}})");
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_EQ(result->ignored, "");
  EXPECT_TRUE(result->include_usage);
  EXPECT_TRUE(chat("{" HELLO R"(,"stream_options":{"include_usage":true}})").has_value());
}

TEST_F(ApiRequest, MinusOneAndNullAreNoLimit) {
  const auto most = [](const Outcome<Generation>& result) {
    return result ? result->requests[0].max_tokens : -1;
  };
  EXPECT_EQ(most(completion(R"({"prompt":"a"})")), 16);
  EXPECT_EQ(most(completion(R"({"prompt":"a","max_tokens":null})")), 4094);
  EXPECT_EQ(most(completion(R"({"prompt":"a","max_tokens":-1})")), 4094);
  EXPECT_EQ(most(completion(R"({"prompt":"a","max_tokens":4.0})")), 4);
  EXPECT_EQ(most(chat("{" HELLO R"(,"max_tokens":null,"max_completion_tokens":5})")), 5);
  EXPECT_EQ(most(chat("{" HELLO R"(,"max_tokens":6,"max_completion_tokens":-1})")), 6);
}

// An assistant's message as clients send it back.
TEST_F(ApiRequest, AnAnswerThatComesBackIsAMessage) {
  const auto result = chat(R"({"messages":[{"role":"user","content":"a"},)"
                           R"({"role":"assistant","content":null,"refusal":null,"annotations":[],)"
                           R"("audio":null,"function_call":null,"tool_calls":[],"id":"m1"},)"
                           R"({"role":"assistant","content":"b","refusal":""},)"
                           R"({"role":"user","content":"c"}]})");
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_EQ(result->ignored, "");
}

TEST_F(ApiRequest, NeutralValuesAreAccepted) {
  const auto result = chat("{" HELLO R"(,"tools":[],"tool_choice":"none","store":false,
      "metadata":null,"parallel_tool_calls":null,"response_format":{"type":"text"},"audio":null,
      "modalities":["text"],"service_tier":"auto","add_generation_prompt":false,
      "continue_final_message":false,"max_completion_tokens":5})");
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_EQ(result->requests[0].max_tokens, 5);
  EXPECT_EQ(prompt_text(result->requests[0]), "[user]hi");
}

TEST_F(ApiRequest, APromptThatFillsTheContextIsRefusedAndALongOutputIsCut) {
  backend_.model.max_context = 10;
  const auto full = completion(R"({"prompt":"123456789"})");
  ASSERT_FALSE(full.has_value());
  EXPECT_EQ(full.error().code, "context_length_exceeded");
  EXPECT_EQ(full.error().param, "prompt");
  EXPECT_THAT(full.error().message, HasSubstr("10 tokens leave no room in the context of 10"));
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

TEST_F(ApiRequest, TokenizeAndDetokenize) {
  const RequestContext context{backend_, "fake", 8};
  const auto body = [](const Outcome<HttpResponse>& outcome) {
    return outcome ? outcome->body : outcome.error().message;
  };
  EXPECT_EQ(body(tokenize(R"({"content":"ab"})", context)),
            R"({"tokens":[1,97,98],"count":3,"max_model_len":4096})");
  EXPECT_EQ(body(tokenize(R"({"prompt":"ab","add_special":false,"model":"fake"})", context)),
            R"({"tokens":[97,98],"count":2,"max_model_len":4096})");
  EXPECT_EQ(body(tokenize("{" HELLO R"(,"add_generation_prompt":false})", context)),
            R"({"tokens":[91,117,115,101,114,93,104,105],"count":8,"max_model_len":4096})");
  EXPECT_EQ(body(detokenize(R"({"tokens":[97,98]})", context)),
            R"({"content":"ab","prompt":"ab"})");
  EXPECT_EQ(body(apply_template("{" HELLO R"(,"add_generation_prompt":false})", context)),
            R"({"prompt":"[user]hi"})");
  EXPECT_EQ(body(apply_template("{" HELLO R"(,"continue_final_message":true})", context)),
            R"({"prompt":"[user]hi"})");
  EXPECT_EQ(apply_template("{" HELLO R"(,"add_generation_prompt":3})", context).error().param,
            "add_generation_prompt");
  EXPECT_EQ(apply_template("{}", context).error().param, "messages");
  EXPECT_TRUE(tokenize(R"({"content":"a","prompt":null,"add_special":null})", context));
  EXPECT_EQ(tokenize(R"({"content":null})", context).error().param, "content");
  EXPECT_THAT(detokenize(R"({"tokens":null})", context).error().message, HasSubstr("is missing"));
  EXPECT_EQ(tokenize(R"({"content":"a","prompt":"b"})", context).error().param, "content");
  EXPECT_EQ(tokenize(R"({"text":"a"})", context).error().param, "content");
  const auto ignored = tokenize(R"({"content":"a","text":"a"})", context);
  ASSERT_TRUE(ignored.has_value());
  EXPECT_EQ(ignored->headers.front().second, "text");
  EXPECT_EQ(tokenize(R"({"content":1})", context).error().param, "content");
  EXPECT_EQ(tokenize(R"({"content":"a","model":"b"})", context).error().status, 404);
  EXPECT_EQ(detokenize(R"({})", context).error().param, "tokens");
  EXPECT_EQ(detokenize(R"({"tokens":[256]})", context).error().param, "tokens[0]");
}

TEST_F(ApiRequest, ACompletionMayHaveNoTokens) {
  const auto result = completion(R"({"prompt":"ab","max_tokens":0})");
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_TRUE(result->requests[0].no_output);
  EXPECT_EQ(result->requests[0].prompt_logprobs, -1);
  EXPECT_THAT(result->echo, IsEmpty());
  EXPECT_FALSE(completion(R"({"prompt":"ab"})")->requests[0].no_output);
  EXPECT_FALSE(completion(R"({"prompt":"ab","max_tokens":null})")->requests[0].no_output);
  EXPECT_TRUE(completion(R"({"prompt":"ab","max_tokens":0.0})")->requests[0].no_output);
  EXPECT_EQ(chat("{" HELLO R"(,"max_tokens":0})").error().param, "max_tokens");
}

TEST_F(ApiRequest, EchoAsksForWhatIsSaidOfThePrompt) {
  struct Case {
    const char* body;
    std::int32_t of_prompt, shown;
  };
  for (const Case& one :
       {Case{R"({"prompt":["ab","c"],"echo":true})", -1, -1},
        Case{R"({"prompt":["ab","c"],"echo":true,"logprobs":2})", 2, -1},
        Case{R"({"prompt":["ab","c"],"echo":true,"logprobs":2,"prompt_logprobs":5})", 5, 5},
        Case{R"({"prompt":["ab","c"],"echo":false,"logprobs":2,"prompt_logprobs":0})", 0, 0}}) {
    const auto result = completion(one.body);
    ASSERT_TRUE(result) << result.error().message;
    for (const Request& request : result->requests)
      EXPECT_EQ(request.prompt_logprobs, one.of_prompt) << one.body;
    EXPECT_EQ(result->prompt_logprobs, one.shown) << one.body;
  }
  // Texts as they came, ids as text; BOS is no part of a text.
  EXPECT_THAT(completion(R"({"prompt":["ab","c"],"echo":true})")->echo, ElementsAre("ab", "c"));
  EXPECT_THAT(completion(R"({"prompt":[[97,98],[99]],"echo":true})")->echo, ElementsAre("ab", "c"));
  const auto asked = chat("{" HELLO R"(,"prompt_logprobs":3})");
  ASSERT_TRUE(asked) << asked.error().message;
  EXPECT_EQ(asked->requests[0].prompt_logprobs, 3);
  EXPECT_EQ(asked->prompt_logprobs, 3);
}

TEST_F(ApiRequest, ASuffixMakesAPromptForTheMiddle) {
  backend_.fill_in_middle = [](std::span<const TokenId> before, std::span<const TokenId> after) {
    std::vector<TokenId> ids = {'<'};
    ids.insert(ids.end(), before.begin(), before.end());
    ids.push_back('|');
    ids.insert(ids.end(), after.begin(), after.end());
    ids.push_back('>');
    return ids;
  };
  const auto result = completion(R"({"prompt":["ab","c"],"suffix":"xy"})");
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(prompt_text(result->requests[0]), "\x01<ab|xy>");
  EXPECT_EQ(prompt_text(result->requests[1]), "\x01<c|xy>");
  // Ids are the whole prefix, BOS and all.
  EXPECT_EQ(prompt_text(completion(R"({"prompt":[97],"suffix":"xy"})")->requests[0]), "<a|xy>");
  for (const char* none : {R"({"prompt":"ab","suffix":""})", R"({"prompt":"ab","suffix":null})"})
    EXPECT_EQ(prompt_text(completion(none)->requests[0]),
              "\x01"
              "ab");
  const auto both = completion(R"({"prompt":"ab","suffix":"x","echo":true})");
  ASSERT_FALSE(both);
  EXPECT_EQ(both.error().param, "echo");
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

TEST_F(ApiRequest, ReadsTheTableOfSamplingParameters) {
  for (const SamplingRow& row : kSamplingRows) {
    const auto number = [&](double value) {
      return row.whole() ? Json(static_cast<std::int64_t>(value)) : Json(value);
    };
    for (const std::string_view name : {row.name, row.http_alias}) {
      if (name.empty()) continue;
      Json body = {{"prompt", "a"}, {std::string(name), number(test::sample_of(row))}};
      const auto result = completion(body.dump());
      ASSERT_TRUE(result.has_value()) << result.error().message;
      EXPECT_EQ(sampling_value(result->requests[0].sampling, row), test::sample_of(row)) << name;
      for (const double value : {test::too_little(row), test::too_much(row)}) {
        body[std::string(name)] = number(value);
        const auto refused = completion(body.dump());
        ASSERT_FALSE(refused.has_value()) << body;
        EXPECT_EQ(refused.error().param, name);
        EXPECT_THAT(refused.error().message, HasSubstr(number(value).dump() + " is out of range"));
      }
    }
  }
}

}  // namespace
}  // namespace dovetail::serve
