// Answers in llama.cpp's own form, of whole texts and of streams, and /props.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "serve/api_response.h"
#include "serve/running_server.h"

namespace dovetail::serve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Generation asked_of_llama(bool stream, std::size_t prompts = 1) {
  Generation generation;
  generation.endpoint = Endpoint::kLlamaCompletion;
  generation.stream = stream;
  LlamaForm form;
  form.context = 16;
  form.settings = {{"top_k", 3}, {"n_predict", 9}};
  for (std::size_t i = 0; i < prompts; ++i) {
    Request request;
    request.prompt = {1, 2, 3};
    generation.requests.push_back(request);
    form.prompts.push_back("p" + std::to_string(i));
  }
  generation.llama = form;
  return generation;
}

const std::function<std::string(TokenId)> kBytesOfIds = [](TokenId id) {
  return id == 255 ? std::string("\xc3") : std::string(1, static_cast<char>(id));
};

// The events of an answer to each prompt; the end's reason is the last one's.
class Answered {
 public:
  explicit Answered(const Generation& generation)
      : generation_(generation), builder_(generation, {"id", "m", 0}, kBytesOfIds) {}

  // A token with its text; `id` 0: none.
  void say(std::string text, TokenId id, std::optional<FinishReason> finish = {},
           std::size_t prompt = 0, std::string stop = "") {
    OutputEvent event;
    event.text = std::move(text);
    if (id != 0) event.tokens = {{id, -0.5F, {{'t', -0.25F}}}};
    event.finish = finish;
    event.stop_string = std::move(stop);
    event.usage = {3, 1, ++tokens_, 0.0};
    out_ += builder_.add(prompt, std::move(event));
  }
  std::vector<Json> events() {
    out_ += builder_.close();
    std::vector<Json> events;
    for (std::size_t at = 0; at < out_.size();) {
      const std::size_t end = out_.find("\n\n", at);
      EXPECT_EQ(out_.substr(at, 6), "data: ");
      events.push_back(Json::parse(out_.substr(at + 6, end - at - 6)));
      at = end + 2;
    }
    return events;
  }
  Json body() {
    EXPECT_EQ(out_, "");
    EXPECT_TRUE(builder_.complete());
    std::string text;
    for (const std::string& part : builder_.take_body()) text += part;
    return Json::parse(text);
  }
  bool complete() const { return builder_.complete(); }

 private:
  Generation generation_;
  ResponseBuilder builder_;
  std::string out_;
  std::uint32_t tokens_ = 0;
};

TEST(LlamaResponse, ABodyHasAllOfAnAnswer) {
  const Generation generation = asked_of_llama(false);
  Answered answer(generation);
  answer.say("a", 'a');
  answer.say("\nb", 'b', FinishReason::kStop);
  Json body = answer.body();
  for (const char* kind : {"prompt", "predicted"}) {
    for (const char* of : {"_ms", "_per_token_ms", "_per_second"}) {
      EXPECT_GE(body["timings"][std::string(kind) + of].get<double>(), 0.0);
      body["timings"].erase(std::string(kind) + of);
    }
  }
  EXPECT_EQ(body, Json::parse(R"({"index":0,"content":"a\nb","tokens":[],"id_slot":-1,"stop":true,
      "model":"m","tokens_predicted":2,"tokens_evaluated":3,
      "generation_settings":{"top_k":3,"n_predict":9},"prompt":"p0","has_new_line":true,
      "truncated":false,"stop_type":"eos","stopping_word":"","tokens_cached":4,
      "timings":{"cache_n":1,"prompt_n":2,"predicted_n":2}})"));
}

TEST(LlamaResponse, SaysWhyItEnded) {
  struct Row {
    FinishReason finish;
    const char* stop;
    const char* type;
  };
  for (const Row& row : {Row{FinishReason::kStop, "", "eos"}, Row{FinishReason::kStop, "x", "word"},
                         Row{FinishReason::kLength, "", "limit"}}) {
    const Generation generation = asked_of_llama(false);
    Answered answer(generation);
    answer.say("a", 'a', row.finish, 0, row.stop);
    const Json body = answer.body();
    EXPECT_EQ(body["stop_type"], row.type);
    EXPECT_EQ(body["stopping_word"], row.stop);
    EXPECT_EQ(body["truncated"], false);
    EXPECT_EQ(body["has_new_line"], false);
  }
  Generation generation = asked_of_llama(false);
  generation.llama->context = 4;
  Answered full(generation);
  full.say("a", 'a', FinishReason::kLength);
  EXPECT_EQ(full.body()["truncated"], true);
}

TEST(LlamaResponse, AnAnswerOfNoTokensIsOne) {
  const Generation generation = asked_of_llama(false);
  Answered answer(generation);
  answer.say("", 0, FinishReason::kLength);
  const Json body = answer.body();
  EXPECT_EQ(body["content"], "");
  EXPECT_EQ(body["stop_type"], "limit");
}

TEST(LlamaResponse, TokensAndProbabilitiesAreThoseOfTheText) {
  Generation generation = asked_of_llama(false);
  generation.requests.front().logprobs = 1;
  generation.llama->tokens = true;
  Answered answer(generation);
  answer.say("a", 'a');
  answer.say("", 255);
  answer.say("\u00e9", 'b', FinishReason::kStop);
  const Json body = answer.body();
  EXPECT_EQ(body["tokens"], Json::parse("[97,255,98]"));
  const Json& shown = body["completion_probabilities"];
  ASSERT_EQ(shown.size(), 3U);
  EXPECT_EQ(shown[0], Json::parse(R"({"id":97,"token":"a","bytes":[97],"logprob":-0.5,
      "top_logprobs":[{"id":116,"token":"t","bytes":[116],"logprob":-0.25}]})"));
  EXPECT_EQ(shown[1]["bytes"], Json::parse("[195]"));
}

TEST(LlamaResponse, OnlyFieldsThatAreAskedForAreShown) {
  Generation generation = asked_of_llama(false);
  generation.requests.front().logprobs = 1;
  generation.llama->tokens = true;
  generation.llama->fields = {
      "content", "generation_settings/top_k", "timings/prompt_n", "tokens", "none", "content/x"};
  Answered answer(generation);
  answer.say("a", 'a', FinishReason::kStop);
  EXPECT_EQ(answer.body(), Json::parse(R"({"content":"a","generation_settings/top_k":3,
      "timings/prompt_n":2,"tokens":[97]})"));
  generation.llama->fields = {""};
  Answered none(generation);
  none.say("a", 'a', FinishReason::kStop);
  EXPECT_EQ(none.body(), Json::object());
  generation.llama->fields = {"tokens"};
  Answered one(generation);
  one.say("a", 'a', FinishReason::kStop);
  EXPECT_EQ(one.body(), Json::parse(R"({"tokens":[97]})"));
}

TEST(LlamaResponse, AStreamEndsWithWhatABodyHas) {
  Generation generation = asked_of_llama(true);
  generation.requests.front().logprobs = 1;
  Answered answer(generation);
  answer.say("a", 'a');
  answer.say("", 'b');
  answer.say("bc", 'c', FinishReason::kStop);
  const auto events = answer.events();
  ASSERT_EQ(events.size(), 4U);
  Json first = events[0];
  EXPECT_EQ(first["completion_probabilities"][0]["id"], 97);
  first.erase("completion_probabilities");
  EXPECT_EQ(first, Json::parse(R"({"index":0,"content":"a","tokens":[97],"stop":false,
      "id_slot":-1,"tokens_predicted":1,"tokens_evaluated":3})"));
  EXPECT_EQ(events[1]["content"], "");
  EXPECT_EQ(events[1]["tokens"], Json::array({98}));
  EXPECT_EQ(events[2]["content"], "bc");
  EXPECT_EQ(events[2]["stop"], false);
  EXPECT_EQ(events[3]["stop"], true);
  EXPECT_EQ(events[3]["content"], "");
  EXPECT_EQ(events[3]["tokens"], Json::array());
  EXPECT_EQ(events[3]["stop_type"], "eos");
  EXPECT_EQ(events[3]["tokens_predicted"], 3);
  EXPECT_TRUE(events[3].contains("generation_settings"));
  EXPECT_FALSE(events[3].contains("completion_probabilities"));
}

TEST(LlamaResponse, TimingsComeWithEachEventWhereTheyAreAskedFor) {
  Generation generation = asked_of_llama(true);
  generation.llama->timings = true;
  Answered answer(generation);
  answer.say("a", 'a');
  answer.say("", 0, FinishReason::kStop);
  const auto events = answer.events();
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0]["timings"]["predicted_n"], 1);
}

TEST(LlamaResponse, SeveralAnswersAreAnArray) {
  for (const bool stream : {false, true}) {
    const Generation generation = asked_of_llama(stream, 2);
    Answered answer(generation);
    answer.say("a", 'a');
    answer.say("b", 'b', FinishReason::kStop, 1);
    answer.say("c", 'c', FinishReason::kLength);
    if (stream) {
      std::vector<std::pair<int, bool>> order;
      for (const Json& event : answer.events()) order.emplace_back(event["index"], event["stop"]);
      EXPECT_THAT(order, ElementsAre(std::pair(0, false), std::pair(1, false), std::pair(1, true),
                                     std::pair(0, false), std::pair(0, true)));
      continue;
    }
    const Json body = answer.body();
    ASSERT_EQ(body.size(), 2U);
    EXPECT_EQ(body[0]["content"], "ac");
    EXPECT_EQ(body[0]["prompt"], "p0");
    EXPECT_EQ(body[1]["content"], "b");
    EXPECT_EQ(body[1]["prompt"], "p1");
    EXPECT_EQ(body[1]["index"], 1);
  }
}

// Ahead of a line that is not indented enough; the first one is none of them.
TEST(LlamaResponse, EndsWithTheIndentation) {
  struct Row {
    std::vector<const char*> pieces;
    const char* content;
    bool ends;
  };
  for (const Row& row : {
           Row{{"a\n", "  b\n", " ", "c"}, "a\n  b\n ", true},
           Row{{"a\n  b\n c"}, "a\n  b\n ", true},
           Row{{"a", "\n", "\t", "\t", "b"}, "a\n\t\tb", false},
           Row{{"a\n", "\n"}, "a\n", true},
           Row{{"a\n", "   \n", "x"}, "a\n   \n", true},
           Row{{"a b"}, "a b", false},
       }) {
    for (const bool stream : {false, true}) {
      Generation generation = asked_of_llama(stream);
      generation.llama->least_indent = 2;
      Answered answer(generation);
      for (const char* piece : row.pieces) answer.say(piece, 'a');
      EXPECT_EQ(answer.complete(), row.ends) << row.content;
      // What the engine says meanwhile is nothing to it.
      answer.say("more", 'm', FinishReason::kStop);
      if (stream) {
        const auto events = answer.events();
        std::string content;
        for (const Json& event : events) content += event["content"].get<std::string>();
        EXPECT_EQ(content, row.ends ? row.content : row.content + std::string("more"));
        EXPECT_EQ(events.back()["stop_type"], row.ends ? "limit" : "eos");
        continue;
      }
      const Json body = answer.body();
      EXPECT_EQ(body["content"], row.ends ? row.content : row.content + std::string("more"));
      EXPECT_EQ(body["stop_type"], row.ends ? "limit" : "eos");
      EXPECT_EQ(body["tokens_predicted"], row.pieces.size() + (row.ends ? 0 : 1));
    }
  }
}

TEST(LlamaResponse, EndsWithALineAfterItsTime) {
  Generation generation = asked_of_llama(false);
  generation.llama->predict_limit = std::chrono::milliseconds(1);
  Answered answer(generation);
  answer.say("a", 'a');
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  answer.say("b", 'b');
  EXPECT_FALSE(answer.complete());
  answer.say("c\n", 'c');
  EXPECT_TRUE(answer.complete());
  EXPECT_EQ(answer.body()["content"], "abc\n");
  generation.llama->predict_limit = std::chrono::hours(1);
  Answered early(generation);
  early.say("a\n", 'a');
  EXPECT_FALSE(early.complete());
}

TEST(LlamaServer, AnswersAndCancelsWhatItNeedsNoMore) {
  std::mutex mutex;
  std::vector<std::pair<std::string, std::uint64_t>> records;
  ServerOptions options;
  options.on_request = [&](const RequestRecord& record) {
    const std::lock_guard lock(mutex);
    records.emplace_back(record.finish, record.completion_tokens);
  };
  const auto script = [](FakeEngine& engine, const FakeEngine::Accepted& accepted) {
    for (const char* text : {"a", "\n", "b", "c"}) engine.emit(accepted.id, token(text));
  };
  RunningServer running(script, options);
  Client client(running.port);
  for (const char* stream : {"false", "true"}) {
    const auto answer = client.post(
        "/completion", R"({"prompt":"p","n_indent":1,"stream":)" + std::string(stream) + "}");
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->status, 200);
    const auto last =
        *stream == 'f' ? answer->json() : nlohmann::json::parse(answer->events().back());
    EXPECT_EQ(last["stop"], true);
    EXPECT_EQ(last["stop_type"], "limit");
    EXPECT_EQ(last["tokens_predicted"], 3);
  }
  EXPECT_TRUE(running.engine.wait_cancelled(2));
  running.stop();
  // What came later is not counted, and the log says what the client was told.
  const std::pair<std::string, std::uint64_t> whole("length", 3);
  EXPECT_THAT(records, ElementsAre(whole, whole));
}

TEST(LlamaServer, ErrorsHaveItsShape) {
  RunningServer running;
  Client client(running.port);
  const auto refused = client.post("/completion", R"({"prompt":"p","mirostat":2})");
  EXPECT_EQ(refused->status, 400);
  const auto error = refused->json()["error"];
  EXPECT_EQ(error["code"], 400);
  EXPECT_EQ(error["type"], "invalid_request_error");
  EXPECT_EQ(error["param"], "mirostat");
  EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("mirostat"));
  const auto too_long =
      client.post("/completion", R"({"prompt":")" + std::string(5000, 'a') + R"("})");
  EXPECT_EQ(too_long->json()["error"]["type"], "exceed_context_size_error");
  const auto props = client.post("/props", "{}");
  EXPECT_EQ(props->status, 405);
  EXPECT_EQ(props->json()["error"]["code"], 405);
}

TEST(LlamaServer, AFailureIsTheLastEventOfAStream) {
  RunningServer running([](FakeEngine& engine, const FakeEngine::Accepted& accepted) {
    engine.emit(accepted.id, token("a"));
    engine.finish(accepted.id, 0, FinishReason::kError);
  });
  Client client(running.port);
  const auto events = client.post("/completion", R"({"prompt":"p","stream":true})")->events();
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(nlohmann::json::parse(events[1])["error"]["code"], 500);
}

TEST(LlamaServer, PropsSayWhatHoldsWithoutFields) {
  ServerOptions options;
  options.served_model_names = {"alias"};
  options.api_key = "k";
  RunningServer running(FakeEngine::counting, options, false, [](Backend& backend) {
    backend.model.max_sequences = 5;
    backend.model.sampling.top_k = 9;
    backend.model.facts.chat_template = "{{ x }}";
    backend.model.facts.parameters = 7;
  });
  Client client(running.port);
  EXPECT_EQ(client.get("/props")->status, 401);
  const auto props = client.get("/props", "Authorization: Bearer k\r\n")->json();
  // What is not known of the model is left out.
  EXPECT_EQ(client.get("/v1/models", "Authorization: Bearer k\r\n")->json()["data"][0]["meta"],
            (nlohmann::json{{"n_vocab", 256}, {"n_ctx", 4096}, {"n_params", 7}}));
  EXPECT_EQ(props["default_generation_settings"]["n_ctx"], 4096);
  EXPECT_EQ(props["default_generation_settings"]["params"]["top_k"], 9);
  EXPECT_EQ(props["default_generation_settings"]["params"]["n_predict"], -1);
  EXPECT_EQ(props["total_slots"], 5);
  EXPECT_EQ(props["model_alias"], "alias");
  EXPECT_EQ(props["model_path"], "fake");
  EXPECT_EQ(props["chat_template"], "{{ x }}");
  EXPECT_EQ(props["bos_token"], "<s>");
  EXPECT_EQ(props["eos_token"], "</s>");
  EXPECT_EQ(props["modalities"], (nlohmann::json{{"vision", false}, {"audio", false}}));
  EXPECT_EQ(props["is_sleeping"], false);
  EXPECT_THAT(props["build_info"].get<std::string>(), HasSubstr("dovetail"));
}

}  // namespace
}  // namespace dovetail::serve
