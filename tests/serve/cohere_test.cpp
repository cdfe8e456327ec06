// Cohere's ranking of documents, the second version.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "serve/api_request_fixture.h"
#include "serve/running_server.h"

namespace dovetail::serve {
namespace {

using ::testing::StartsWith;

class CohereRequest : public ApiRequest {
 protected:
  Outcome<Generation> rank(std::string_view body) { return read(Endpoint::kCohereRerank, body); }
};

TEST_F(CohereRequest, LongDocumentsAreCut) {
  backend_.model.max_context = 8192;
  const auto cut = rank(R"({"query":"q","documents":["abcdef","ab"],"max_tokens_per_doc":3})");
  ASSERT_TRUE(cut) << cut.error().message;
  EXPECT_EQ(prompt_text(cut->requests[0]), "\1q\2abc");
  EXPECT_EQ(prompt_text(cut->requests[1]), "\1q\2ab");
  Json body = {{"query", "q"}, {"documents", {std::string(5000, 'a')}}};
  const auto by_default = rank(body.dump());
  ASSERT_TRUE(by_default);
  EXPECT_EQ(by_default->requests.front().prompt.size(), 3U + 4096U);
  // The older route knows no such limit.
  EXPECT_EQ(read(Endpoint::kRerank, body.dump())->requests.front().prompt.size(), 3U + 5000U);
}

TEST_F(CohereRequest, FieldsAreCoheres) {
  const auto asked = rank(R"({"query":"q","documents":["a","b"],"priority":5,"top_n":1})");
  ASSERT_TRUE(asked) << asked.error().message;
  EXPECT_EQ(asked->requests.front().priority, 5);
  EXPECT_EQ(asked->ranking.top, 1U);
  EXPECT_FALSE(asked->ranking.with_texts);
  for (const auto& [body, param] :
       {std::pair{R"({"query":"q","documents":["a"],"max_tokens_per_doc":0})",
                  "max_tokens_per_doc"},
        {R"({"query":"q","documents":["a"],"relevant_spans":{"enabled":true}})", "relevant_spans"},
        {R"({"documents":["a"]})", "query"},
        {R"({"query":"q","documents":["a"],"model":"b"})", "model"}}) {
    const auto refused = rank(body);
    ASSERT_FALSE(refused) << body;
    EXPECT_EQ(refused.error().param, param) << body;
  }
  EXPECT_EQ(rank(R"({"query":"q","documents":["a"],"return_documents":true})")->ignored.text(),
            "return_documents");
}

// A score for each document: its length.
void ranking(FakeEngine& engine, const FakeEngine::Accepted& accepted) {
  OutputEvent event;
  event.score = static_cast<float>(accepted.request.prompt.size());
  event.finish = FinishReason::kStop;
  engine.emit(accepted.id, std::move(event));
}

TEST(Cohere, AnswersAreAsItsClientsReadThem) {
  RunningServer running(ranking);
  Client client(running.port);
  const auto answer =
      client.post("/v2/rerank", R"({"model":"fake","query":"q","documents":["a","bcd","ef"],
                                    "top_n":2})");
  ASSERT_TRUE(answer);
  ASSERT_EQ(answer->status, 200) << answer->body;
  const auto json = answer->json();
  EXPECT_THAT(json["id"].get<std::string>(), StartsWith("rerank-"));
  EXPECT_EQ(json["results"], nlohmann::json::parse(R"([{"index":1,"relevance_score":6.0},
                                                       {"index":2,"relevance_score":5.0}])"));
  EXPECT_EQ(json["meta"], nlohmann::json::parse(R"({"api_version":{"version":"2",
      "is_experimental":false},"tokens":{"input_tokens":15,"output_tokens":0}})"));
  const auto refused = client.post("/v2/rerank", R"({"query":"q"})");
  EXPECT_EQ(refused->status, 400);
  EXPECT_EQ(refused->body, R"({"message":"documents: is missing"})");
  EXPECT_EQ(client.post("/v2/chat", "{}")->json().size(), 1U);
}

}  // namespace
}  // namespace dovetail::serve
