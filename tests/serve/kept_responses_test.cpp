#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "serve/running_server.h"

namespace dovetail::serve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kAlice = "Authorization: Bearer alice\r\n";
constexpr const char* kBob = "Authorization: Bearer bob\r\n";

ServerOptions two_keys() {
  ServerOptions options;
  options.named_keys = {{"a", "alice"}, {"b", "bob"}};
  return options;
}

std::optional<ClientResponse> remove(Client& client, const std::string& path, const char* headers) {
  client.send(fmt::format("DELETE {} HTTP/1.1\r\nHost: localhost\r\n{}\r\n", path, headers));
  return client.receive();
}

std::string made(Client& client, std::string_view rest = "", const char* key = kAlice) {
  const auto response = client.post(
      "/v1/responses", fmt::format(R"({{"input":"hi","max_output_tokens":3{}}})", rest), key);
  EXPECT_EQ(response->status, 200) << response->body;
  return response->body;
}

std::string id_in(const std::string& body) { return nlohmann::json::parse(body)["id"]; }

TEST(KeptResponses, AreThereForTheirKeyAlone) {
  RunningServer running(FakeEngine::counting, two_keys());
  Client client(running.port);
  const std::string body = made(client);
  const std::string path = "/v1/responses/" + id_in(body);
  EXPECT_EQ(client.get(path, kAlice)->body, body);
  EXPECT_EQ(client.get(path + "/?include[]=x&stream=false", kAlice)->body, body);
  const std::string on = fmt::format(R"({{"input":"b","previous_response_id":"{}"}})", id_in(body));
  EXPECT_EQ(client.post("/v1/responses", on, kAlice)->status, 200);

  for (const std::string& each : {path, path + "/input_items"}) {
    const auto refused = client.get(each, kBob);
    EXPECT_EQ(refused->status, 404);
    EXPECT_EQ(refused->json()["error"]["code"], "response_not_found");
    // It says no more than of one that never was.
    const auto unknown = client.get("/v1/responses/resp_1", kBob);
    EXPECT_EQ(unknown->status, 404);
    EXPECT_EQ(unknown->json()["error"]["type"], refused->json()["error"]["type"]);
  }
  EXPECT_EQ(client.post("/v1/responses", on, kBob)->status, 404);
  EXPECT_EQ(remove(client, path, kBob)->status, 404);

  const auto gone = remove(client, path, kAlice);
  EXPECT_EQ(gone->status, 200);
  EXPECT_EQ(gone->json()["deleted"], true);
  EXPECT_EQ(client.get(path, kAlice)->status, 404);
  EXPECT_EQ(client.post("/v1/responses", on, kAlice)->status, 404);
  EXPECT_EQ(remove(client, path, kAlice)->status, 404);
}

TEST(KeptResponses, AreNotKeptWhereStoreIsFalse) {
  RunningServer running;
  Client client(running.port);
  const std::string id = id_in(made(client, R"(,"store":false)", ""));
  EXPECT_EQ(client.get("/v1/responses/" + id)->status, 404);
  EXPECT_EQ(client.get("/v1/responses/" + id + "/input_items")->status, 404);
}

TEST(KeptResponses, ThatWereStreamedAreTheLastEvents) {
  RunningServer running;
  Client client(running.port);
  const auto streamed =
      client.post("/v1/responses", R"({"input":"hi","max_output_tokens":3,"stream":true})");
  // Events have names.
  const std::string end = streamed->body.substr(streamed->body.rfind("data: ") + 6);
  const auto last = nlohmann::json::parse(end)["response"];
  const auto kept = client.get("/v1/responses/" + last["id"].get<std::string>());
  EXPECT_EQ(kept->json(), last);
}

TEST(KeptResponses, HaveTheirInputAsItems) {
  RunningServer running;
  Client client(running.port);
  const auto first = client.post("/v1/responses", R"({"max_output_tokens":3,"instructions":"S",
      "input":[{"role":"user","content":[{"type":"input_text","text":"one"}]},
      {"type":"reasoning","content":[{"type":"reasoning_text","text":"Hm."}],"summary":[]},
      {"role":"assistant","content":"two"},
      {"type":"function_call","call_id":"c1","name":"add","arguments":"{}"},
      {"type":"function_call_output","call_id":"c1","output":"3"}]})");
  ASSERT_EQ(first->status, 200) << first->body;
  const std::string path = "/v1/responses/" + id_in(first->body) + "/input_items";
  const auto items = client.get(path + "?order=asc")->json();
  EXPECT_EQ(items["object"], "list");
  EXPECT_EQ(items["has_more"], false);
  std::vector<std::string> types, ids;
  for (const auto& item : items["data"]) {
    types.push_back(item["type"]);
    ids.push_back(item["id"]);
  }
  EXPECT_THAT(types, ElementsAre("message", "reasoning", "message", "function_call",
                                 "function_call_output"));
  EXPECT_EQ(items["data"][0]["content"][0]["text"], "one");
  EXPECT_EQ(items["data"][1]["content"][0]["text"], "Hm.");
  EXPECT_EQ(items["data"][2]["content"][0]["type"], "output_text");
  EXPECT_EQ(items["data"][3]["call_id"], "c1");
  EXPECT_EQ(items["data"][4]["output"], "3");

  const auto newest = client.get(path + "?limit=2")->json();
  EXPECT_EQ(newest["first_id"], ids[4]);
  EXPECT_EQ(newest["last_id"], ids[3]);
  EXPECT_EQ(newest["has_more"], true);
  const auto next = client.get(path + "?limit=4&after=" + ids[3])->json();
  EXPECT_EQ(next["data"].size(), 3U);
  EXPECT_EQ(next["last_id"], ids[0]);
  EXPECT_EQ(next["has_more"], false);

  // What is gone on from comes with it.
  const auto second = client.post(
      "/v1/responses",
      fmt::format(R"({{"input":"four","previous_response_id":"{}"}})", id_in(first->body)));
  const auto all =
      client.get("/v1/responses/" + id_in(second->body) + "/input_items?order=asc")->json();
  EXPECT_EQ(all["data"].size(), 7U);
  EXPECT_EQ(all["data"][6]["content"][0]["text"], "four");
}

TEST(KeptResponses, WrongQuestionsSayWhy) {
  RunningServer running;
  Client client(running.port);
  const std::string path = "/v1/responses/" + id_in(made(client, "", ""));
  const std::pair<const char*, const char*> cases[] = {
      {"?stream=true", "stream"},          {"/input_items?limit=0", "limit"},
      {"/input_items?limit=101", "limit"}, {"/input_items?limit=2x", "limit"},
      {"/input_items?order=up", "order"},  {"/input_items?after=msg_x", "after"},
  };
  for (const auto& [rest, param] : cases) {
    const auto refused = client.get(path + rest);
    EXPECT_EQ(refused->status, 400) << rest;
    EXPECT_EQ(refused->json()["error"]["param"], param) << rest;
  }
  EXPECT_EQ(remove(client, "/v1/models", "")->status, 405);
  const auto method = remove(client, path + "/input_items", "");
  EXPECT_EQ(method->status, 405);
  EXPECT_EQ(method->headers.at("allow"), "GET, HEAD");
  EXPECT_EQ(client.post(path, "{}")->status, 404);
}

TEST(KeptResponses, ErrorsAreOfThePathsApi) {
  RunningServer running;
  Client client(running.port);
  const auto ollama = client.get("/api/nothing");
  EXPECT_EQ(ollama->status, 404);
  EXPECT_THAT(ollama->json()["error"].get<std::string>(), HasSubstr("there is no /api/nothing"));
  EXPECT_EQ(client.get("/v1/messages/batches")->json()["type"], "error");
  EXPECT_EQ(client.get("/nothing")->json()["error"]["code"], "unknown_path");
  EXPECT_EQ(client.post("/api/pull", "{}")->json()["error"].is_string(), true);
}

}  // namespace
}  // namespace dovetail::serve
