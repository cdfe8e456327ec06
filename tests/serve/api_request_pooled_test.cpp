// Inputs to embed, and documents to rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "serve/api_request_fixture.h"

namespace dovetail::serve {
namespace {

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

}  // namespace
}  // namespace dovetail::serve
