#include "serve/api_response.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "serve/inbox.h"
#include "serve/metrics.h"
#include "serve/token_text.h"

namespace dovetail::serve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A model whose token 200 is half a character and token 201 spells the same as token 'a'.
std::string bytes_of(TokenId id) {
  if (id == 200) return "\xf0\x9f";
  return id == 201 ? "a" : std::string(1, static_cast<char>(id));
}
const std::function<std::string(TokenId)> kBytes = bytes_of;

Generation generation(Endpoint endpoint, std::size_t prompts, std::int32_t n,
                      std::int32_t logprobs = -1) {
  Generation result;
  result.endpoint = endpoint;
  result.is_dialog = endpoint == Endpoint::kChat;
  Request request;
  request.prompt = {1, 2, 3};
  request.n = n;
  request.logprobs = logprobs;
  result.requests.assign(prompts, request);
  return result;
}

OutputEvent text_event(std::int32_t choice, std::string text,
                       std::optional<FinishReason> finish = std::nullopt) {
  OutputEvent event;
  event.choice = choice;
  event.text = std::move(text);
  event.finish = finish;
  event.usage = {3, 2, 5};
  return event;
}

OutputEvent token_event(std::string text, TokenId id) {
  OutputEvent event = text_event(0, std::move(text));
  event.tokens.push_back({id, -0.5F, {{id, -0.5F}, {201, -1.0F}, {'a', -INFINITY}}});
  return event;
}

// The JSON of each event of a stream; [DONE] as a string.
std::vector<Json> events(const std::string& stream) {
  std::vector<Json> found;
  for (std::size_t at = 0; at < stream.size();) {
    const std::size_t end = stream.find("\n\n", at);
    EXPECT_EQ(stream.compare(at, 6, "data: "), 0);
    const std::string data = stream.substr(at + 6, end - at - 6);
    found.push_back(data == "[DONE]" ? Json(data) : Json::parse(data));
    at = end + 2;
  }
  return found;
}

const ResponseLabel kLabel{"id-1", "m", 42};

std::string body_of(ResponseBuilder& builder) {
  std::string text;
  for (const std::string& part : builder.take_body()) text += part;
  return text;
}

TEST(ResponseBuilder, AChatStreamHasRoleContentFinishUsageDone) {
  Generation request = generation(Endpoint::kChat, 1, 1);
  request.stream = true;
  request.include_usage = true;
  ResponseBuilder builder(request, kLabel, kBytes);
  std::string stream = builder.open();
  stream += builder.add(0, text_event(0, "Hi"));
  stream += builder.add(0, text_event(0, ""));  // nothing new: no event
  EXPECT_FALSE(builder.complete());
  stream += builder.add(0, text_event(0, "!", FinishReason::kStop));
  EXPECT_TRUE(builder.complete());
  stream += builder.close();

  const auto found = events(stream);
  ASSERT_EQ(found.size(), 6U);
  EXPECT_EQ(found[0].dump(),
            R"({"id":"id-1","object":"chat.completion.chunk","created":42,"model":"m",)"
            R"("choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,)"
            R"("finish_reason":null}],"usage":null})");
  EXPECT_EQ(found[1]["choices"][0]["delta"].dump(), R"({"content":"Hi"})");
  EXPECT_EQ(found[2]["choices"][0]["delta"].dump(), R"({"content":"!"})");
  EXPECT_TRUE(found[2]["choices"][0]["finish_reason"].is_null());
  EXPECT_EQ(found[3]["choices"][0]["delta"].dump(), "{}");
  EXPECT_EQ(found[3]["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(found[4]["choices"].dump(), "[]");
  EXPECT_EQ(found[4]["usage"].dump(),
            R"({"prompt_tokens":3,"completion_tokens":5,"total_tokens":8,)"
            R"("prompt_tokens_details":{"cached_tokens":2}})");
  EXPECT_EQ(found[5], "[DONE]");
}

TEST(ResponseBuilder, WithoutIncludeUsageNoEventHasUsage) {
  Generation request = generation(Endpoint::kCompletion, 1, 1);
  request.stream = true;
  ResponseBuilder builder(request, kLabel, kBytes);
  EXPECT_EQ(builder.open(), "");
  const std::string stream =
      builder.add(0, text_event(0, "x", FinishReason::kLength)) + builder.close();
  EXPECT_EQ(stream,
            "data: {\"id\":\"id-1\",\"object\":\"text_completion\",\"created\":42,\"model\":\"m\","
            "\"choices\":[{\"index\":0,\"text\":\"x\",\"logprobs\":null,\"finish_reason\":"
            "\"length\"}]}\n\ndata: [DONE]\n\n");
}

TEST(ResponseBuilder, ChoicesOfSeveralPromptsAreCountedThrough) {
  const Generation request = generation(Endpoint::kCompletion, 2, 2);
  ResponseBuilder builder(request, kLabel, kBytes);
  for (const std::size_t prompt : {1U, 0U}) {
    for (const int choice : {1, 0}) {
      builder.add(prompt,
                  text_event(choice, fmt::format("p{}c{}", prompt, choice), FinishReason::kStop));
    }
  }
  ASSERT_TRUE(builder.complete());
  const Json body = Json::parse(body_of(builder));
  ASSERT_EQ(body["choices"].size(), 4U);
  EXPECT_EQ(body["choices"][3]["text"], "p1c1");
  EXPECT_EQ(body["choices"][1]["text"], "p0c1");
  EXPECT_EQ(body["choices"][1]["index"], 1);
  EXPECT_EQ(body["usage"]["prompt_tokens"], 6);
  EXPECT_EQ(body["usage"]["completion_tokens"], 20);
  EXPECT_EQ(body["usage"]["prompt_tokens_details"]["cached_tokens"], 4);
}

TEST(ResponseBuilder, ChatLogprobsShowTokensAndBytes) {
  const Generation request = generation(Endpoint::kChat, 1, 1, 3);
  ResponseBuilder builder(request, kLabel, kBytes);
  builder.add(0, token_event("", 200));
  builder.add(0, token_event("b", 'b'));
  builder.add(0, text_event(0, "", FinishReason::kStop));
  const Json body = Json::parse(body_of(builder));
  const Json& choice = body["choices"][0];
  EXPECT_EQ(choice["message"].dump(), R"({"role":"assistant","content":"b","refusal":null})");
  const Json& content = choice["logprobs"]["content"];
  ASSERT_EQ(content.size(), 2U);
  EXPECT_EQ(content[0]["token"], "bytes:\\xf0\\x9f");
  EXPECT_EQ(content[0]["bytes"].dump(), "[240,159]");
  EXPECT_EQ(content[1]["token"], "b");
  EXPECT_EQ(content[1]["logprob"], -0.5);
  ASSERT_EQ(content[1]["top_logprobs"].size(), 3U);
  EXPECT_EQ(content[1]["top_logprobs"][2]["logprob"], -9999.0);
}

TEST(ResponseBuilder, CompletionLogprobsAreParallelArrays) {
  const Generation request = generation(Endpoint::kCompletion, 1, 1, 3);
  ResponseBuilder builder(request, kLabel, kBytes);
  builder.add(0, token_event("b", 'b'));
  builder.add(0, token_event("c", 'c'));
  builder.add(0, text_event(0, "", FinishReason::kStop));
  const Json body = Json::parse(body_of(builder));
  const Json& logprobs = body["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["tokens"].dump(), R"(["b","c"])");
  EXPECT_EQ(logprobs["token_logprobs"].dump(), "[-0.5,-0.5]");
  EXPECT_EQ(logprobs["text_offset"].dump(), "[0,1]");
  // Of two tokens that are spelled alike, the more probable one is shown.
  EXPECT_EQ(logprobs["top_logprobs"][1].dump(), R"({"c":-0.5,"a":-1.0})");
}

// The first of three tokens is BOS, which is no part of the text "bc".
Generation echoing(std::int32_t n, std::int32_t logprobs, std::int32_t prompt_logprobs) {
  Generation request = generation(Endpoint::kCompletion, 1, n, logprobs);
  request.requests[0].prompt = {'s', 'b', 'c'};
  request.requests[0].prompt_logprobs = std::max(logprobs, prompt_logprobs);
  request.prompt_logprobs = prompt_logprobs;
  request.echo = {"bc"};
  return request;
}

OutputEvent with_prompt(OutputEvent event) {
  OutputToken b{'b', -2.0F, {{'x', -0.25F}, {'b', -2.0F}, {'y', -3.0F}}, 2};
  OutputToken c{'c', -INFINITY, {{'x', -0.5F}, {'y', -3.0F}, {'z', -4.0F}}, 77};
  event.prompt_logprobs = {b, c};
  return event;
}

constexpr const char* kEchoedLogprobs =
    R"({"tokens":["s","b","c","d"],"token_logprobs":[null,-2.0,-9999.0,-0.5],)"
    R"("top_logprobs":[null,{"x":-0.25},{"x":-0.5},{"d":-0.5,"a":-1.0}],)"
    R"("text_offset":[0,0,1,2]})";
constexpr const char* kPromptLogprobs =
    R"([null,{"98":{"logprob":-2.0,"rank":2,"decoded_token":"b"},)"
    R"("120":{"logprob":-0.25,"rank":1,"decoded_token":"x"}},)"
    R"({"99":{"logprob":-9999.0,"rank":77,"decoded_token":"c"},)"
    R"("120":{"logprob":-0.5,"rank":1,"decoded_token":"x"},)"
    R"("121":{"logprob":-3.0,"rank":2,"decoded_token":"y"}}])";

// Each choice begins with the prompt; those that the engine was faster with wait for what it says
// of that.
TEST(ResponseBuilder, AnEchoBeginsEveryChoice) {
  for (const bool stream : {false, true}) {
    Generation request = echoing(2, 1, 2);
    request.stream = stream;
    ResponseBuilder builder(request, kLabel, kBytes);
    OutputEvent second = token_event("d", 'd');
    second.choice = 1;
    EXPECT_EQ(builder.add(0, second), "");
    std::string text = builder.add(0, with_prompt(token_event("d", 'd')));
    text += builder.add(0, text_event(1, "", FinishReason::kStop));
    EXPECT_FALSE(builder.complete());
    text += builder.add(0, text_event(0, "e", FinishReason::kLength));
    ASSERT_TRUE(builder.complete());
    std::vector<Json> choices;
    if (stream) {
      const auto found = events(text);
      ASSERT_EQ(found.size(), 4U);
      for (std::size_t i = 0; i < 2; ++i) choices.push_back(found[i]["choices"][0]);
      EXPECT_EQ(found[3]["choices"][0]["text"], "e");
      EXPECT_FALSE(found[3]["choices"][0].contains("prompt_logprobs"));
    } else {
      const Json body = Json::parse(body_of(builder));
      for (const Json& choice : body["choices"]) choices.push_back(choice);
    }
    ASSERT_EQ(choices.size(), 2U);
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(choices[i]["index"], i);
      EXPECT_EQ(choices[i]["text"], !stream && i == 0 ? "bcde" : "bcd");
      EXPECT_EQ(choices[i]["logprobs"].dump(), kEchoedLogprobs);
      EXPECT_EQ(choices[i]["prompt_logprobs"].dump(), kPromptLogprobs);
    }
  }
}

TEST(ResponseBuilder, AnEchoMayBeAll) {
  for (const bool stream : {false, true}) {
    for (const std::int32_t logprobs : {-1, 0}) {
      Generation request = echoing(1, logprobs, -1);
      request.requests[0].no_output = true;
      request.stream = stream;
      ResponseBuilder builder(request, kLabel, kBytes);
      OutputEvent end = text_event(0, "", FinishReason::kLength);
      if (logprobs >= 0) end = with_prompt(end);
      const std::string text = builder.add(0, end);
      ASSERT_TRUE(builder.complete());
      const Json choice =
          (stream ? events(text).front() : Json::parse(body_of(builder)))["choices"][0];
      EXPECT_EQ(choice["text"], "bc");
      EXPECT_EQ(choice["finish_reason"], "length");
      EXPECT_FALSE(choice.contains("prompt_logprobs"));
      EXPECT_EQ(choice["logprobs"].dump(),
                logprobs < 0 ? "null"
                             : R"({"tokens":["s","b","c"],"token_logprobs":[null,-2.0,-9999.0],)"
                               R"("top_logprobs":[null,{},{}],"text_offset":[0,0,1]})");
    }
  }
}

TEST(ResponseBuilder, AChatsPromptIsDescribedOnce) {
  for (const bool stream : {false, true}) {
    Generation request = echoing(2, -1, 2);
    request.endpoint = Endpoint::kChat;
    request.is_dialog = true;
    request.echo.clear();
    request.stream = stream;
    ResponseBuilder builder(request, kLabel, kBytes);
    std::string text = builder.add(0, text_event(1, "f", FinishReason::kStop));
    text += builder.add(0, with_prompt(text_event(0, "g", FinishReason::kStop)));
    ASSERT_TRUE(builder.complete());
    if (stream) {
      const auto found = events(text);
      ASSERT_EQ(found.size(), 4U);
      EXPECT_EQ(found[0]["prompt_logprobs"].dump(), kPromptLogprobs);
      for (std::size_t i = 1; i < 4; ++i) EXPECT_FALSE(found[i].contains("prompt_logprobs"));
    } else {
      const Json body = Json::parse(body_of(builder));
      EXPECT_EQ(body["prompt_logprobs"].dump(), kPromptLogprobs);
      EXPECT_EQ(body["choices"][1]["message"]["content"], "f");
    }
  }
}

// A prompt that fails before anything is said of it fails with all that waited.
TEST(ResponseBuilder, AFailureBeforeThePromptIsToldIsTheEnd) {
  Generation request = echoing(2, 1, -1);
  request.stream = true;
  ResponseBuilder builder(request, kLabel, kBytes);
  EXPECT_EQ(builder.add(0, text_event(1, "d")), "");
  OutputEvent broken = text_event(0, "", FinishReason::kError);
  broken.error = {ErrorKind::kInternal, "the model broke"};
  EXPECT_EQ(builder.add(0, broken), "");
  ASSERT_TRUE(builder.failure().has_value());
  EXPECT_EQ(builder.failure()->status, 500);
}

TEST(ResponseBuilder, StreamedLogprobsComeWithTheirTokens) {
  Generation request = generation(Endpoint::kChat, 1, 1, 0);
  request.stream = true;
  ResponseBuilder builder(request, kLabel, kBytes);
  const auto held_back = events(builder.add(0, token_event("", 'b')));
  ASSERT_EQ(held_back.size(), 1U);
  EXPECT_EQ(held_back[0]["choices"][0]["delta"]["content"], "");
  EXPECT_EQ(held_back[0]["choices"][0]["logprobs"]["content"][0]["token"], "b");
}

TEST(ResponseBuilder, AFailureAfterTheStartIsAnEventAndTheEnd) {
  Generation request = generation(Endpoint::kChat, 1, 2);
  request.stream = true;
  ResponseBuilder builder(request, kLabel, kBytes);
  OutputEvent broken = text_event(1, "", FinishReason::kError);
  broken.error = {ErrorKind::kInternal, "the model broke"};
  EXPECT_EQ(builder.add(0, broken), "");
  ASSERT_TRUE(builder.failure().has_value());
  EXPECT_EQ(builder.failure()->status, 500);
  const auto found = events(builder.close());
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].dump(),
            R"({"error":{"message":"the model broke","type":"server_error","param":null,)"
            R"("code":"internal"}})");
  EXPECT_EQ(found[1], "[DONE]");
}

TEST(ResponseBuilder, ACancelledChoiceIsAnErrorOf503) {
  const Generation request = generation(Endpoint::kCompletion, 1, 1);
  ResponseBuilder builder(request, kLabel, kBytes);
  builder.add(0, text_event(0, "x", FinishReason::kCancelled));
  ASSERT_TRUE(builder.failure().has_value());
  EXPECT_EQ(builder.failure()->status, 503);
}

TEST(ResponseBuilder, EmbeddingsComeAsFloatsOrInBase64) {
  struct Row {
    std::vector<float> embedding;
    const char* base64;  // from RFC 4648's alphabet, by Python's base64 and struct
  };
  for (const Row& row : {Row{{}, ""}, Row{{1.0F}, "AACAPw=="}, Row{{1.0F, -0.5F}, "AACAPwAAAL8="},
                         Row{{0.25F, 3.0F, -1e-3F}, "AACAPgAAQEBvEoO6"}}) {
    for (const bool base64 : {false, true}) {
      Generation two = generation(Endpoint::kEmbedding, 2, 1);
      two.base64 = base64;
      ResponseBuilder builder(two, {"x", "m", 7}, kBytes);
      OutputEvent event;
      event.finish = FinishReason::kStop;
      event.embedding = row.embedding;
      EXPECT_EQ(builder.add(1, event), "");
      event.embedding = {0.5F};
      EXPECT_EQ(builder.add(0, event), "");
      ASSERT_TRUE(builder.complete());
      std::string text;
      for (const std::string& part : builder.take_body()) text += part;
      const Json json = Json::parse(text);
      EXPECT_EQ(json["object"], "list");
      EXPECT_EQ(json["model"], "m");
      EXPECT_EQ(json["usage"], (Json{{"prompt_tokens", 6}, {"total_tokens", 6}}));
      ASSERT_EQ(json["data"].size(), 2U);
      EXPECT_EQ(json["data"][1]["index"], 1);
      EXPECT_EQ(json["data"][1]["object"], "embedding");
      EXPECT_EQ(json["data"][1]["embedding"], base64 ? Json(row.base64) : Json(row.embedding));
    }
  }
}

// The best first, the earlier one among equals, as many as were asked for.
TEST(ResponseBuilder, DocumentsComeInTheOrderOfTheirScores) {
  for (const bool with_texts : {false, true}) {
    Generation three = generation(Endpoint::kRerank, 4, 1);
    three.ranking = {{"a", "b", "c", "d"}, 3, with_texts};
    ResponseBuilder builder(three, {"x", "m", 7}, kBytes);
    const float scores[] = {0.25F, 0.75F, -1.0F, 0.25F};
    for (const std::size_t index : {3U, 1U, 0U, 2U}) {
      OutputEvent event;
      event.finish = FinishReason::kStop;
      event.score = scores[index];
      EXPECT_EQ(builder.add(index, event), "");
    }
    ASSERT_TRUE(builder.complete());
    std::string text;
    for (const std::string& part : builder.take_body()) text += part;
    const Json json = Json::parse(text);
    EXPECT_EQ(json["id"], "x");
    EXPECT_EQ(json["model"], "m");
    EXPECT_EQ(json["usage"], (Json{{"prompt_tokens", 12}, {"total_tokens", 12}}));
    ASSERT_EQ(json["results"].size(), 3U);
    const std::size_t order[] = {1, 0, 3};
    for (std::size_t i = 0; i < 3; ++i) {
      const Json& result = json["results"][i];
      EXPECT_EQ(result["index"], order[i]);
      EXPECT_EQ(result["relevance_score"], scores[order[i]]);
      EXPECT_EQ(result.contains("document"), with_texts);
      if (with_texts) {
        EXPECT_EQ(result["document"]["text"], three.ranking.documents[order[i]]);
      }
    }
  }
}

TEST(ResponseBuilder, LabelsDiffer) {
  const ResponseLabel first = make_label(Endpoint::kChat, "m");
  const ResponseLabel second = make_label(Endpoint::kChat, "m");
  EXPECT_NE(first.id, second.id);
  EXPECT_THAT(first.id, ::testing::StartsWith("chatcmpl-"));
  EXPECT_THAT(make_label(Endpoint::kCompletion, "m").id, ::testing::StartsWith("cmpl-"));
  EXPECT_THAT(make_label(Endpoint::kRerank, "m").id, ::testing::StartsWith("rerank-"));
}

TEST(TokenText, JudgesUtf8) {
  for (const char* good : {"", "a", "\xc2\x80", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xf4\x8f\xbf\xbf",
                           "h\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"}) {
    EXPECT_TRUE(is_utf8(good)) << good;
  }
  for (const char* bad : {"\x80", "\xc1\x80", "\xc2", "\xc2\x41", "\xe0\x9f\x80", "\xed\xa0\x80",
                          "\xf0\x8f\x80\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xe2\x82"}) {
    EXPECT_FALSE(is_utf8(bad)) << bad;
  }
  EXPECT_EQ(code_points("h\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"), 4U);
}

TEST(TokenText, ReadsSpellings) {
  EXPECT_EQ(byte_level_bytes("\u0120Hello!\u010a"), " Hello!\n");
  EXPECT_EQ(byte_level_bytes("\u00f0\u0141\u013a\u0122"), "\xf0\x9f\x98\x80");
  EXPECT_EQ(byte_level_bytes("\u0100\u00a1\u0143"), std::string("\0\xa1\xad", 3));
  EXPECT_EQ(byte_level_bytes("\u2581"), "\u2581");  // stands for no bytes
  EXPECT_EQ(byte_level_bytes("\u3021"), "\u3021");  // whose last two bytes look like a sign
  EXPECT_EQ(sentencepiece_bytes("\u2581the\u2581"), " the ");
  EXPECT_EQ(sentencepiece_bytes("<0xF0>"), "\xf0");
  EXPECT_EQ(sentencepiece_bytes("<0xG0>"), "<0xG0>");
}

TEST(Inbox, OverflowsInsteadOfGrowing) {
  int wakes = 0;
  Inbox inbox([&wakes] { ++wakes; }, 1000);
  inbox.put(0, text_event(0, std::string(100, 'x')));
  EXPECT_EQ(wakes, 1);
  EXPECT_EQ(inbox.take().size(), 1U);
  EXPECT_FALSE(inbox.overflowed());
  for (int i = 0; i < 100; ++i) inbox.put(0, text_event(0, std::string(100, 'x')));
  EXPECT_TRUE(inbox.overflowed());
  EXPECT_TRUE(inbox.take().empty());
  EXPECT_EQ(wakes, 3);  // the first of the second lot, and the overflow
}

TEST(Inbox, DoesNotWakeOnceClosed) {
  int wakes = 0;
  Inbox inbox([&wakes] { ++wakes; }, 1000);
  inbox.close();
  inbox.put(0, text_event(0, "x"));
  EXPECT_EQ(wakes, 0);
  EXPECT_TRUE(inbox.take().empty());
}

TEST(Metrics, EverySampleHasHelpAndType) {
  HttpCounts counts;
  counts.count_response("/health", 200);
  counts.count_response("/health", 200);
  counts.count_response("unknown", 404);
  EngineStats stats;
  stats.steps = 3;
  stats.kv_blocks_used = 9;
  stats.mixed_steps = 11;
  stats.cached_tokens = 12;
  stats.recomputed_tokens = 13;
  stats.drafted_tokens = 14;
  stats.accepted_tokens = 15;
  stats.kv_blocks_cached = 16;
  stats.requests_timed_out = 17;
  stats.threads_pinned = true;
  const std::string text = metrics_text(stats, counts, {"a\"b", 4096});
  for (const char* line :
       {"mixed_steps_total 11\n", "cached_tokens_total 12\n", "recomputed_tokens_total 13\n",
        "drafted_tokens_total 14\n", "accepted_tokens_total 15\n", "kv_blocks_cached 16\n",
        "timed_out_total 17\n", "threads_pinned 1\n"}) {
    EXPECT_THAT(text, HasSubstr(std::string("\ndovetail_") + line));
  }
  EXPECT_THAT(text, HasSubstr("# TYPE dovetail_steps_total counter\ndovetail_steps_total 3\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE dovetail_kv_blocks_used gauge\ndovetail_kv_blocks_used 9\n"));
  EXPECT_THAT(text, HasSubstr("dovetail_http_requests_total{code=\"200\",route=\"/health\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("dovetail_http_requests_total{code=\"404\",route=\"unknown\"} 1\n"));
  std::string helped;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    ASSERT_NE(end, std::string::npos) << "the text ends with a line's end";
    const std::string line = text.substr(at, end - at);
    if (line.rfind("# HELP ", 0) == 0) helped = line.substr(7, line.find(' ', 7) - 7);
    if (line[0] != '#') {
      EXPECT_TRUE(line.substr(0, line.find_first_of(" {")).starts_with(helped));
    }
    at = end + 1;
  }
}

}  // namespace
}  // namespace dovetail::serve
