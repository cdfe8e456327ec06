#include <gtest/gtest.h>

#include <random>

#include "serve/api_request.h"
#include "serve/running_server.h"

namespace dovetail::serve {
namespace {

constexpr int kRounds = 10'000;

const std::vector<std::string> kBodies = {
    R"({"model":"fake","prompt":"ab","max_tokens":2,"stop":["x"],"logit_bias":{"7":-1.5}})",
    R"({"prompt":[[1,2],[3]],"n":2,"max_tokens":1,"logprobs":2,"seed":-5,"temperature":0.5})",
    R"({"prompt":["a","\u00e9\ud83d\ude00"],"max_tokens":1,"stream":false,"top_p":1e-1})",
    R"({"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"max_tokens":2})",
    R"({"prompt":"a","max_tokens":1,"response_format":{"type":"json_schema","json_schema":{"name":)"
    R"("n","strict":true,"schema":{"properties":{"a":{"type":"integer","maximum":9}}}}}})",
    R"({"input":["a","b"],"encoding_format":"base64"})",
    R"({"query":"a","documents":["b",{"text":"c"}],"top_n":2,"return_documents":true})",
    R"({"prompt":"a","max_tokens":1,"guided_regex":"a+[b-d]{2}|\\d?"})",
    R"({"messages":[{"role":"system","content":"s"},{"role":"user","content":"u","name":null}],)"
    R"("logprobs":true,"top_logprobs":1,"max_tokens":1,"chat_template_kwargs":{"x":[{}]}})"};

// Changes, cuts, doubles or inserts bytes; what is inserted is often what a parser looks at.
class Mutator {
 public:
  explicit Mutator(std::uint32_t seed) : random_(seed) {}

  std::string operator()(std::string text) {
    for (std::size_t i = below(6); i > 0 && !text.empty(); --i) once(text);
    return text;
  }

  std::size_t below(std::size_t limit) { return random_() % limit; }

 private:
  void once(std::string& text) {
    static const std::vector<std::string> kPieces = {"\"",
                                                     "\\",
                                                     "{",
                                                     "}",
                                                     "[",
                                                     "]",
                                                     ":",
                                                     ",",
                                                     "-",
                                                     "1e999",
                                                     "0",
                                                     "00",
                                                     "null",
                                                     "true",
                                                     "\\ud800",
                                                     "\xff",
                                                     "\xc3",
                                                     "\r\n",
                                                     "\r\n\r\n",
                                                     " ",
                                                     "\t",
                                                     "18446744073709551616",
                                                     "-9223372036854775809",
                                                     "Content-Length: 3\r\n",
                                                     "chunked",
                                                     "%00",
                                                     "\"prompt\":",
                                                     "[[[[[[[[",
                                                     std::string(1, '\0')};
    const std::size_t at = below(text.size());
    switch (below(5)) {
      case 0:
        text[at] = static_cast<char>(below(256));
        break;
      case 1:
        text.erase(at, 1 + below(8));
        break;
      case 2:
        text.insert(at, kPieces[below(kPieces.size())]);
        break;
      case 3:
        text.insert(at, text.substr(below(text.size()), below(20)));
        break;
      default:
        text.resize(at);
        break;
    }
  }

  std::mt19937 random_;
};

TEST(Mutation, AnyBodyGivesARequestOrAnErrorThatSaysWhy) {
  FakeEngine engine;
  const Backend backend = engine.backend();
  const RequestContext context{backend, "fake", 8};
  Mutator mutate(20240607);
  int good = 0;
  for (int round = 0; round < kRounds; ++round) {
    const std::string body = mutate(kBodies[mutate.below(kBodies.size())]);
    for (const Endpoint endpoint :
         {Endpoint::kCompletion, Endpoint::kChat, Endpoint::kEmbedding, Endpoint::kRerank,
          Endpoint::kCohereRerank, Endpoint::kOllamaEmbed, Endpoint::kOllamaGenerate,
          Endpoint::kLlamaCompletion}) {
      const auto result = read_generation(endpoint, body, context);
      if (result) {
        ++good;
        EXPECT_FALSE(result->requests.empty());
      } else {
        EXPECT_TRUE(result.error().status == 400 || result.error().status == 404);
        EXPECT_FALSE(result.error().message.empty()) << body;
        EXPECT_TRUE(nlohmann::json::accept(error_body(result.error()))) << body;
      }
    }
  }
  EXPECT_GT(good, kRounds / 20);  // the mutations are not all alike
}

TEST(Mutation, AnyRequestIsAnsweredOrEndsItsConnection) {
  ServerOptions options;
  options.header_timeout = std::chrono::milliseconds(5);  // what is cut short is soon given up
  options.body_timeout = std::chrono::milliseconds(5);
  RunningServer running(FakeEngine::counting, options);
  Mutator mutate(42);
  int answered = 0;
  for (int round = 0; round < kRounds; ++round) {
    const std::string path = mutate.below(2) == 0 ? "/v1/completions" : "/v1/chat/completions";
    const std::string text = mutate(post_text(path, kBodies[mutate.below(kBodies.size())]));
    Client client(running.port);
    client.send(text);
    if (round % 2 == 0) client.finish_sending();
    const auto response = client.receive();
    if (!response) continue;
    ++answered;
    EXPECT_TRUE(response->status >= 100 && response->status < 600) << text;
    if (response->status >= 400) {
      EXPECT_TRUE(nlohmann::json::accept(response->body)) << text;
    }
  }
  EXPECT_GT(answered, kRounds / 20);
  EXPECT_EQ(Client(running.port).get("/health")->status, 200);
}

}  // namespace
}  // namespace dovetail::serve
