// What Ollama's clients ask besides answers, and the fields of Ollama's that are not those of
// others.
#include "serve/ollama.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "serve/api_request_fixture.h"
#include "serve/api_response.h"
#include "serve/model_facts.h"
#include "serve/running_server.h"

namespace dovetail::serve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

ModelFacts facts_of_a_model() {
  ModelFacts facts;
  facts.format = "gguf";
  facts.family = "llama";
  facts.quantization = "Q4_K_M";
  facts.chat_template = "{{ messages }}";
  facts.parameters = 134515008;
  facts.file_bytes = 1000;
  facts.modified = 86400;
  facts.layers = 30;
  facts.hidden_size = 576;
  facts.feed_forward = 1536;
  facts.heads = 9;
  facts.kv_heads = 3;
  return facts;
}

// A server of two names whose model is known in all it has.
class Described {
 public:
  explicit Described(const std::function<void(Backend&)>& change = nullptr)
      : running_(FakeEngine::counting, names(), false, [&change](Backend& backend) {
          backend.model.facts = facts_of_a_model();
          if (change) change(backend);
        }) {}

  Client client() const { return Client(running_.port); }

 private:
  static ServerOptions names() {
    ServerOptions options;
    options.served_model_names = {"first", "second:latest"};
    return options;
  }

  RunningServer running_;
};

TEST(Ollama, TheVersionIsTheOneOfItsApi) {
  RunningServer running;
  Client client(running.port);
  EXPECT_EQ(client.get("/api/version")->json()["version"], kOllamaApiLevel);
  EXPECT_EQ(client.get("/version")->json()["version"], "0.1.0");
}

TEST(Ollama, ListsTheModelAsItIs) {
  const Described server;
  Client client = server.client();
  const auto tags = client.get("/api/tags")->json()["models"];
  ASSERT_EQ(tags.size(), 2U);
  EXPECT_EQ(tags[0]["name"], "first:latest");
  EXPECT_EQ(tags[0]["model"], "first:latest");
  EXPECT_EQ(tags[1]["model"], "second:latest");
  for (const auto& model : tags) {
    EXPECT_EQ(model["modified_at"], "1970-01-02T00:00:00Z");
    EXPECT_EQ(model["size"], 1000);
    EXPECT_THAT(model["digest"].get<std::string>(), MatchesRegex("[0-9a-f]{64}"));
    EXPECT_EQ(model["digest"], tags[0]["digest"]);
    EXPECT_EQ(model["details"], nlohmann::json::parse(R"({"parent_model":"","format":"gguf",
        "family":"llama","families":["llama"],"parameter_size":"134.52M",
        "quantization_level":"Q4_K_M"})"));
  }
  const auto loaded = client.get("/api/ps")->json()["models"];
  ASSERT_EQ(loaded.size(), 2U);
  EXPECT_EQ(loaded[0]["digest"], tags[0]["digest"]);
  EXPECT_EQ(loaded[0]["size_vram"], 0);
  EXPECT_EQ(loaded[0]["context_length"], 4096);
  EXPECT_EQ(loaded[0]["expires_at"], "2999-01-01T00:00:00Z");
}

TEST(Ollama, ShowsWhatTheModelCanDo) {
  const Described server([](Backend& backend) {
    backend.fill_in_middle = [](std::span<const TokenId>, std::span<const TokenId>) {
      return std::vector<TokenId>{};
    };
  });
  Client client = server.client();
  const auto shown = client.post("/api/show", R"({"model":"second"})")->json();
  EXPECT_EQ(shown["model_info"], nlohmann::json::parse(R"({"general.architecture":"llama",
      "general.basename":"fake","general.parameter_count":134515008,"llama.context_length":4096,
      "llama.embedding_length":576,"llama.block_count":30,"llama.feed_forward_length":1536,
      "llama.attention.head_count":9,"llama.attention.head_count_kv":3,"llama.vocab_size":256})"));
  EXPECT_EQ(shown["template"], "{{ messages }}");
  EXPECT_EQ(shown["details"]["family"], "llama");
  EXPECT_EQ(shown["modified_at"], "1970-01-02T00:00:00Z");
  EXPECT_EQ(shown["capabilities"], (nlohmann::json{"completion", "tools", "insert"}));
  const auto unknown = client.post("/api/show", R"({"model":"third"})");
  EXPECT_EQ(unknown->status, 404);
  EXPECT_THAT(unknown->json()["error"].get<std::string>(),
              HasSubstr(R"(expected "first" or "second:latest")"));
}

TEST(Ollama, WhatIsNotKnownIsLeftOut) {
  const Described server([](Backend& backend) {
    backend.model.facts = {};
    backend.model.facts.generates = false;
    backend.model.facts.embeds = true;
    backend.dialog.reset();
  });
  Client client = server.client();
  const auto shown = client.post("/api/show", R"({"name":"first"})")->json();
  EXPECT_EQ(shown["details"], (nlohmann::json{{"parent_model", ""}}));
  EXPECT_EQ(shown["model_info"], (nlohmann::json{{"general.basename", "fake"}}));
  EXPECT_EQ(shown["capabilities"], nlohmann::json::array({"embedding"}));
  EXPECT_FALSE(shown.contains("template"));
  EXPECT_FALSE(shown.contains("modified_at"));
  // Clients cut its first twelve digits.
  const auto digest = client.get("/api/tags")->json()["models"][0]["digest"].get<std::string>();
  EXPECT_THAT(digest, MatchesRegex("[0-9a-f]{64}"));
}

TEST(Ollama, ADigestTellsModelsApart) {
  const ModelFacts facts = facts_of_a_model();
  const std::string digest = model_digest("m", facts, "weights");
  EXPECT_EQ(digest, model_digest("m", facts, "weights"));
  EXPECT_NE(digest.substr(0, 32), digest.substr(32));
  EXPECT_NE(digest, model_digest("n", facts, "weights"));
  EXPECT_NE(digest, model_digest("m", facts, "weighty"));
  ModelFacts larger = facts;
  ++larger.file_bytes;
  EXPECT_NE(digest, model_digest("m", larger, "weights"));
  // A copy is the same model.
  ModelFacts copied = facts;
  copied.modified = 7;
  EXPECT_EQ(digest, model_digest("m", copied, "weights"));
}

TEST(Ollama, CountsOfParametersAreShort) {
  const std::pair<std::uint64_t, const char*> cases[] = {
      {999, "999"},    {1000, "1K"},         {134515008, "134.52M"},
      {2000000, "2M"}, {7615616512, "7.6B"}, {8000000000, "8B"}};
  for (const auto& [count, text] : cases) EXPECT_EQ(parameter_size(count), text);
}

TEST(ServedNames, EachIsAnsweredAndTheFirstIsShown) {
  const Described server;
  Client client = server.client();
  const auto list = client.get("/v1/models")->json()["data"];
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[0]["id"], "first");
  EXPECT_EQ(list[1]["id"], "second:latest");
  EXPECT_EQ(client.get("/v1/models/second:latest")->json()["id"], "second:latest");
  EXPECT_EQ(client.get("/v1/models/third")->status, 404);
  for (const char* name : {"first", "second:latest"}) {
    const std::string body =
        R"({"prompt":"a","max_tokens":1,"model":")" + std::string(name) + "\"}";
    const auto answer = client.post(kCompletions, body);
    EXPECT_EQ(answer->status, 200);
    EXPECT_EQ(answer->json()["model"], "first");
  }
  const auto refused = client.post(kCompletions, R"({"prompt":"a","model":"third"})");
  EXPECT_EQ(refused->status, 404);
  EXPECT_EQ(refused->json()["error"]["message"],
            R"(model: "third" is not served here; expected "first" or "second:latest")");
  // Clients that know a name from /api/tags ask the other routes by it, too.
  for (const char* name : {"first:latest", "second"}) {
    const std::string body =
        R"({"prompt":"a","max_tokens":1,"model":")" + std::string(name) + "\"}";
    EXPECT_EQ(client.post(kCompletions, body)->status, 200) << name;
    EXPECT_EQ(client.get("/v1/models/" + std::string(name))->status, 200) << name;
  }
  const auto tagged =
      client.post("/api/generate", R"({"prompt":"a","model":"first:latest","stream":false,
                           "options":{"num_predict":1}})");
  EXPECT_EQ(tagged->json()["model"], "first");
}

TEST(ServedNames, NoneIsEmpty) {
  FakeEngine engine;
  ServerOptions options;
  options.port = 0;
  options.served_model_names = {"a", ""};
  const auto server = Server::create(engine.backend(), options);
  ASSERT_FALSE(server);
  EXPECT_THAT(server.error().message, HasSubstr("non-empty"));
}

TEST(Ollama, NothingToEmbedIsNoEmbedding) {
  const Described server;
  Client client = server.client();
  const nlohmann::json none = {{"model", "first"}, {"embeddings", nlohmann::json::array()}};
  for (const char* more : {"", R"(,"input":"")", R"(,"input":[])", R"(,"input":null)"}) {
    const std::string body = R"({"model":"second")" + std::string(more) + "}";
    const auto answer = client.post("/api/embed", body);
    EXPECT_EQ(answer->status, 200) << body;
    EXPECT_EQ(answer->json(), none) << body;
  }
  for (const char* more : {"", R"(,"prompt":"")", R"(,"prompt":null)"}) {
    const std::string body = R"({"model":"first")" + std::string(more) + "}";
    const auto answer = client.post("/api/embeddings", body);
    EXPECT_EQ(answer->status, 200) << body;
    EXPECT_EQ(answer->json(), (nlohmann::json{{"embedding", nlohmann::json::array()}})) << body;
  }
  EXPECT_EQ(client.post("/api/embed", R"({"input":"","model":"third"})")->status, 404);
  EXPECT_EQ(client.post("/v1/embeddings", R"({"input":[]})")->status, 400);
}

class OllamaFields : public ApiRequest {
 protected:
  void SetUp() override { backend_.model.max_context = 8; }

  // What a text to embed became.
  std::string embedded(const std::string& body) {
    const auto generation = read(Endpoint::kOllamaEmbed, body);
    EXPECT_TRUE(generation) << generation.error().message;
    return generation ? prompt_text(generation->requests.front()) : "";
  }
};

TEST_F(OllamaFields, ALongTextToEmbedIsCut) {
  // A token for the begin of texts is 1 in this vocabulary.
  EXPECT_EQ(embedded(R"({"input":"abcdef"})"), "\1abcdef");
  EXPECT_EQ(embedded(R"({"input":"abcdefghijkl"})"), "\1abcdef");
  EXPECT_EQ(embedded(R"({"input":"abcdefghijkl","truncate":true})"), "\1abcdef");
  EXPECT_EQ(embedded(R"({"input":["abcdefghijkl"],"truncate":null})"), "\1abcdef");
  const auto refused =
      read(Endpoint::kOllamaEmbed, R"({"input":["a","abcdefghijkl"],"truncate":false})");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().param, "input[1]");
  EXPECT_EQ(refused.error().code, "context_length_exceeded");
  // The older route and OpenAI's do not cut.
  EXPECT_FALSE(read(Endpoint::kOllamaEmbedding, R"({"prompt":"abcdefghijkl"})"));
  EXPECT_FALSE(read(Endpoint::kEmbedding, R"({"input":"abcdefghijkl"})"));
}

TEST_F(OllamaFields, WhatStandsAroundACutTextStays) {
  backend_.encode = [](std::string_view text, bool add_special, bool) {
    std::vector<TokenId> ids;
    if (add_special) ids.push_back('<');
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    if (add_special) ids.push_back('>');
    return ids;
  };
  EXPECT_EQ(embedded(R"({"input":"abcde"})"), "<abcde>");
  EXPECT_EQ(embedded(R"({"input":"abcdef"})"), "<abcde>");
  EXPECT_EQ(embedded(R"({"input":"abcdefghijkl"})"), "<abcde>");
  // Ids are what they are.
  EXPECT_EQ(embedded(R"({"input":[[97,98,99,100,101,102,103,104]]})"), "abcdefg");
}

TEST_F(OllamaFields, DimensionsAreThoseOfTheModel) {
  backend_.model.embedding_size = 4;
  EXPECT_TRUE(read(Endpoint::kOllamaEmbed, R"({"input":"a","dimensions":4})"));
  const auto refused = read(Endpoint::kOllamaEmbed, R"({"input":"a","dimensions":3})");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("dimensions: 3 is not supported; expected 4"));
}

TEST_F(OllamaFields, LogprobsAreThoseOfChats) {
  backend_.model.max_context = 64;
  const std::string chat = R"({)" HELLO;
  for (const auto& [endpoint, begin] :
       {std::pair{Endpoint::kOllamaChat, chat},
        {Endpoint::kOllamaGenerate, std::string(R"({"prompt":"a")")},
        {Endpoint::kOllamaGenerate, std::string(R"({"raw":true,"prompt":"a")")}}) {
    const auto asked = read(endpoint, begin + R"(,"logprobs":true,"top_logprobs":3})");
    ASSERT_TRUE(asked) << asked.error().message;
    EXPECT_EQ(asked->requests.front().logprobs, 3);
    EXPECT_EQ(read(endpoint, begin + R"(,"logprobs":true})")->requests.front().logprobs, 0);
    EXPECT_EQ(
        read(endpoint, begin + R"(,"logprobs":false,"top_logprobs":0})")->requests.front().logprobs,
        -1);
    EXPECT_EQ(read(endpoint, begin + R"(,"top_logprobs":2})").error().param, "top_logprobs");
    EXPECT_EQ(read(endpoint, begin + R"(,"logprobs":true,"top_logprobs":21})").error().param,
              "top_logprobs");
    EXPECT_EQ(read(endpoint, begin + R"(,"logprobs":3})").error().param, "logprobs");
  }
}

TEST_F(OllamaFields, ASuffixMakesTheAnswerWhatStandsBetween) {
  backend_.model.max_context = 64;
  EXPECT_EQ(read(Endpoint::kOllamaGenerate, R"({"prompt":"a","suffix":"b"})").error().param,
            "suffix");
  backend_.fill_in_middle = [](std::span<const TokenId> before, std::span<const TokenId> after) {
    std::vector<TokenId> ids(before.begin(), before.end());
    ids.push_back('_');
    ids.insert(ids.end(), after.begin(), after.end());
    return ids;
  };
  const auto filled = read(Endpoint::kOllamaGenerate, R"({"prompt":"a","suffix":"b"})");
  ASSERT_TRUE(filled) << filled.error().message;
  EXPECT_EQ(prompt_text(filled->requests.front()), "\1a_b");
  EXPECT_FALSE(filled->is_dialog);
  const auto none = read(Endpoint::kOllamaGenerate, R"({"prompt":"a","suffix":""})");
  ASSERT_TRUE(none);
  EXPECT_TRUE(none->is_dialog);
}

TEST_F(OllamaFields, WhatTheRequestSaysOfItselfIsNoOption) {
  backend_.model.max_context = 64;
  const auto asked = read(Endpoint::kOllamaGenerate,
                          R"({"raw":true,"prompt":"a",
                              "options":{"prompt":"b","echo":true,"n":2,"top_k":3}})");
  ASSERT_TRUE(asked) << asked.error().message;
  EXPECT_EQ(asked->ignored.text(), "options.prompt, options.echo, options.n");
  EXPECT_EQ(asked->requests.size(), 1U);
  EXPECT_EQ(asked->requests.front().sampling.top_k, 3);
  EXPECT_TRUE(asked->echo.empty());
}

TEST_F(OllamaFields, OptionsMeanWhatTheyMeanToOllama) {
  backend_.model.max_context = 64;
  backend_.model.sampling.top_k = 40;
  backend_.model.sampling.top_p = 0.9F;
  struct Row {
    const char* options;
    std::function<bool(const Request&)> holds;
  };
  const Row rows[] = {
      {R"("temperature":-1)", [](const Request& r) { return r.sampling.temperature == 0.0F; }},
      {R"("temperature":5)", [](const Request& r) { return r.sampling.temperature == 5.0F; }},
      {R"("top_k":-1)", [](const Request& r) { return r.sampling.top_k == 0; }},
      {R"("top_k":-7)", [](const Request& r) { return r.sampling.top_k == 0; }},
      {R"("top_k":0)", [](const Request& r) { return r.sampling.top_k == 0; }},
      {R"("top_p":0,"top_k":9)", [](const Request& r) { return r.sampling.top_k == 1; }},
      {R"("top_p":0.0)",
       [](const Request& r) { return r.sampling.top_k == 1 && r.sampling.top_p == 0.9F; }},
      {R"("top_p":2)", [](const Request& r) { return r.sampling.top_p == 1.0F; }},
      {R"("min_p":-1)", [](const Request& r) { return r.sampling.min_p == 0.0F; }},
      {R"("min_p":2)", [](const Request& r) { return r.sampling.min_p == 1.0F; }},
      {R"("seed":-1)", [](const Request& r) { return !r.sampling.seed; }},
      {R"("seed":-2)", [](const Request& r) { return r.sampling.seed.has_value(); }},
      {R"("num_predict":-2)", [](const Request& r) { return r.max_tokens > 8; }},
      {R"("num_predict":0)", [](const Request& r) { return r.max_tokens > 8; }},
      {R"("num_predict":-1)", [](const Request& r) { return r.max_tokens > 8; }},
      {R"("repeat_penalty":1.1,"repeat_last_n":-1)",
       [](const Request& r) { return r.sampling.repetition_penalty == 1.1F; }},
      {R"("mirostat":0,"typical_p":1.0,"tfs_z":1,"num_ctx":9,"num_gpu":-1,"num_thread":0,
          "use_mmap":null,"use_mlock":false,"num_keep":4,"num_batch":512,"main_gpu":0)",
       [](const Request& r) { return r.sampling.top_k == 40; }},
  };
  for (const Row& row : rows) {
    const auto asked = read(Endpoint::kOllamaChat,
                            R"({)" HELLO R"(,"options":{)" + std::string(row.options) + "}}");
    ASSERT_TRUE(asked) << row.options << ": " << asked.error().message;
    EXPECT_TRUE(row.holds(asked->requests.front())) << row.options;
    EXPECT_EQ(asked->ignored.text(), "") << row.options;
  }
  // What would change the answer, or means nothing that is defined, is refused by its name.
  for (const char* option : {R"("presence_penalty":3)", R"("repeat_penalty":0)", R"("mirostat":1)",
                             R"("typical_p":0.5)", R"("num_predict":-3)", R"("top_p":"0")"}) {
    const auto refused =
        read(Endpoint::kOllamaChat, R"({)" HELLO R"(,"options":{)" + std::string(option) + "}}");
    ASSERT_FALSE(refused) << option;
    const std::string_view name(option);
    EXPECT_EQ(refused.error().param,
              "options." + std::string(name.substr(1, name.find('"', 1) - 1)));
  }
  // A window of penalties is not kept, which is said where there are any; one of none is.
  struct Window {
    const char* options;
    float penalty;
    const char* ignored;
  };
  for (const Window& row : {
           Window{R"("repeat_last_n":64)", 1.0F, ""},
           Window{R"("repeat_last_n":64,"repeat_penalty":1.5)", 1.5F, "options.repeat_last_n"},
           Window{R"("repeat_last_n":-1,"repeat_penalty":1.5)", 1.5F, ""},
           Window{R"("repeat_last_n":0,"repeat_penalty":1.5)", 1.0F, ""},
       }) {
    const auto asked = read(Endpoint::kOllamaChat,
                            R"({)" HELLO R"(,"options":{)" + std::string(row.options) + "}}");
    ASSERT_TRUE(asked) << row.options << ": " << asked.error().message;
    EXPECT_EQ(asked->requests.front().sampling.repetition_penalty, row.penalty) << row.options;
    EXPECT_EQ(asked->ignored.text(), row.ignored) << row.options;
  }
}

// Lines, or the one of a body, of an answer to /api/chat or /api/generate.
std::vector<Json> lines_of_answer(Endpoint endpoint, bool stream, std::int32_t logprobs) {
  Generation generation;
  generation.endpoint = endpoint;
  generation.stream = stream;
  Request request;
  request.prompt = {1, 2};
  request.logprobs = logprobs;
  generation.requests = {request};
  const std::function<std::string(TokenId)> bytes = [](TokenId id) {
    return std::string(1, static_cast<char>(id));
  };
  ResponseBuilder builder(generation, {"id", "m", 0}, bytes);
  std::string out = stream ? builder.open() : "";
  // The second token's text comes with the third one.
  const std::pair<const char*, char> pieces[] = {{"a", 'a'}, {"", 'b'}, {"bc", 'c'}};
  for (const auto& [text, id] : pieces) {
    OutputEvent event;
    event.text = text;
    event.tokens = {{id, -0.5F, {{'t', -0.25F}}}};
    if (id == 'c') event.finish = FinishReason::kStop;
    out += builder.add(0, std::move(event));
  }
  if (stream) out += builder.close();
  if (!stream)
    for (const std::string& part : builder.take_body()) out += part;
  std::vector<Json> lines;
  std::istringstream text(out);
  for (std::string line; std::getline(text, line);) lines.push_back(Json::parse(line));
  return lines;
}

TEST(Ollama, AnswersHaveTheLogprobsOfTheirTokens) {
  for (const Endpoint endpoint : {Endpoint::kOllamaChat, Endpoint::kOllamaGenerate}) {
    for (const bool stream : {false, true}) {
      const auto lines = lines_of_answer(endpoint, stream, 1);
      EXPECT_EQ(lines.size(), stream ? 4U : 1U);
      std::string tokens;
      for (const Json& line : lines) {
        for (const Json& each : line.value("logprobs", Json::array())) {
          tokens += each["token"].get<std::string>();
          EXPECT_EQ(each["logprob"], -0.5);
          EXPECT_EQ(each["bytes"].size(), 1U);
          EXPECT_EQ(each["top_logprobs"][0]["token"], "t");
        }
      }
      EXPECT_EQ(tokens, "abc");
      EXPECT_EQ(lines.back()["done"], true);
      for (const Json& line : lines_of_answer(endpoint, stream, -1))
        EXPECT_FALSE(line.contains("logprobs"));
    }
  }
}

}  // namespace
}  // namespace dovetail::serve
