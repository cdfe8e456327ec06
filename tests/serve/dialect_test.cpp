#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "serve/api_response.h"
#include "serve/dialog_store.h"

namespace dovetail::serve {
namespace {

using ::testing::ElementsAre;

const ResponseLabel kLabelOfAnswer{"id-1", "m", 42};
const std::function<std::string(TokenId)> kNoBytes = [](TokenId) { return std::string("?"); };

// A model that thinks between <think> and </think> and calls functions as hermes does.
dialog::DialogFormat thinking_format() {
  const auto render = [](const Json& variables) -> Result<std::string> {
    return variables["messages"].dump();
  };
  return dialog::DialogFormat::detect({"{{ '<think>' }} {{ '</think>' }}", render, {}});
}

Generation asked(Endpoint endpoint, bool stream) {
  Generation generation;
  generation.endpoint = endpoint;
  generation.stream = stream;
  Request request;
  request.prompt = {1, 2, 3};
  generation.requests = {request};
  dialog::AnswerRequest answer;
  answer.tools = {{"add", "", Json::parse(R"({"type":"object","properties":{"a":{}}})"), true}};
  answer.choice = dialog::ToolChoice::kAuto;
  generation.answer = dialog::AnswerPlan::create(thinking_format(), answer).value();
  return generation;
}

constexpr std::string_view kAnswer =
    "<think>\nHm.\n</think>\n\nI add.\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": "
    "[1, \"x\"]}}\n</tool_call>";

// The answer in pieces of `size` bytes; what a streaming client gets, or the body.
std::string answered(const Generation& generation, std::size_t size,
                     std::string_view text = kAnswer, FinishReason finish = FinishReason::kStop) {
  ResponseBuilder builder(generation, kLabelOfAnswer, kNoBytes);
  std::string out = generation.stream ? builder.open() : "";
  for (std::size_t at = 0; at < text.size(); at += size) {
    OutputEvent event;
    event.text = text.substr(at, size);
    event.tokens = {{7, 0.0F, {}}};
    event.usage = {3, 1, static_cast<std::uint32_t>(at / size + 1), 0.0};
    if (at + size >= text.size()) event.finish = finish;
    out += builder.add(0, std::move(event));
  }
  EXPECT_TRUE(builder.complete());
  if (generation.stream) return out + builder.close();
  for (const std::string& part : builder.take_body()) out += part;
  return out;
}

// The JSON of each "data:" line, or of each line.
std::vector<Json> lines_of(const std::string& stream) {
  std::vector<Json> found;
  for (std::size_t at = 0; at < stream.size();) {
    const std::size_t end = stream.find('\n', at);
    std::string line = stream.substr(at, end - at);
    at = end + 1;
    if (line.starts_with("data: ")) line.erase(0, 6);
    if (line.starts_with("{")) found.push_back(Json::parse(line));
  }
  return found;
}

// As OpenAI's client puts the deltas of a chat together.
Json put_together(const std::string& stream) {
  Json message = Json::object();
  for (const Json& chunk : lines_of(stream)) {
    if (chunk["choices"].empty()) continue;
    const Json& choice = chunk["choices"][0];
    for (const auto& [key, value] : choice["delta"].items()) {
      if (key == "tool_calls") {
        const Json& call = value[0];
        Json& to = message["tool_calls"][call["index"].get<std::size_t>()];
        for (const char* member : {"id", "type"})
          if (call.contains(member)) to[member] = call[member];
        if (!to.contains("function")) to["function"] = Json::object();
        for (const auto& [name, piece] : call["function"].items())
          to["function"][name] =
              to["function"].value(name, std::string()) + piece.get<std::string>();
      } else if (key == "role") {
        message[key] = value;
      } else {
        message[key] = message.value(key, std::string()) + value.get<std::string>();
      }
    }
    if (!choice["finish_reason"].is_null()) message["finish"] = choice["finish_reason"];
  }
  return message;
}

TEST(Dialects, AChatsAnswerHasReasoningContentAndCalls) {
  const Json body = Json::parse(answered(asked(Endpoint::kChat, false), 5));
  const Json& message = body["choices"][0]["message"];
  EXPECT_EQ(message["reasoning_content"], "Hm.");
  EXPECT_EQ(message["content"], "I add.");
  ASSERT_EQ(message["tool_calls"].size(), 1U);
  EXPECT_EQ(message["tool_calls"][0]["type"], "function");
  EXPECT_EQ(message["tool_calls"][0]["function"]["name"], "add");
  EXPECT_EQ(Json::parse(message["tool_calls"][0]["function"]["arguments"].get<std::string>()),
            Json::parse(R"({"a": [1, "x"]})"));
  EXPECT_EQ(body["choices"][0]["finish_reason"], "tool_calls");
  EXPECT_GT(body["usage"]["completion_tokens_details"]["reasoning_tokens"], 0);

  for (const std::size_t size : {1, 2, 7, 1000}) {
    Json streamed = put_together(answered(asked(Endpoint::kChat, true), size));
    EXPECT_EQ(streamed["finish"], "tool_calls");
    EXPECT_EQ(streamed["content"], message["content"]);
    EXPECT_EQ(streamed["reasoning_content"], message["reasoning_content"]);
    EXPECT_EQ(streamed["tool_calls"][0]["function"], message["tool_calls"][0]["function"]);
    EXPECT_TRUE(streamed["tool_calls"][0]["id"].get<std::string>().starts_with("call_"));
  }
}

TEST(Dialects, ACallAloneHasNoContent) {
  const Json body =
      Json::parse(answered(asked(Endpoint::kChat, false), 3,
                           "<tool_call>\n{\"name\": \"add\", \"arguments\": {}}\n</tool_call>"));
  EXPECT_TRUE(body["choices"][0]["message"]["content"].is_null());
}

TEST(Dialects, ReasoningCanBeLeftOut) {
  Generation generation = asked(Endpoint::kChat, false);
  generation.show_reasoning = false;
  const Json body = Json::parse(answered(generation, 4));
  EXPECT_FALSE(body["choices"][0]["message"].contains("reasoning_content"));
  EXPECT_EQ(body["choices"][0]["message"]["content"], "I add.");
}

TEST(Dialects, ACallThatWasCutIsShownAsFarAsItIs) {
  const Json body =
      Json::parse(answered(asked(Endpoint::kChat, false), 4,
                           kAnswer.substr(0, kAnswer.find(" \"x\"")), FinishReason::kLength));
  EXPECT_EQ(body["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(body["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"],
            R"({"a": [1,)");
}

// Cut before its arguments, it is neither a call nor words.
TEST(Dialects, ACallThatHasJustBegunIsNothing) {
  for (const char* text : {"<tool_call>", "<tool_call>\n{\"name\": \"ad"}) {
    const Json body =
        Json::parse(answered(asked(Endpoint::kChat, false), 4, text, FinishReason::kLength));
    EXPECT_EQ(body["choices"][0]["message"]["content"], "");
    EXPECT_FALSE(body["choices"][0]["message"].contains("tool_calls"));
  }
}

TEST(Dialects, AMessageOfAnthropicHasBlocks) {
  const Json body = Json::parse(answered(asked(Endpoint::kMessages, false), 5));
  ASSERT_EQ(body["content"].size(), 3U);
  EXPECT_EQ(body["content"][0]["thinking"], "Hm.");
  EXPECT_EQ(body["content"][1]["text"], "I add.");
  EXPECT_EQ(body["content"][2]["name"], "add");
  EXPECT_EQ(body["content"][2]["input"], Json::parse(R"({"a": [1, "x"]})"));
  EXPECT_EQ(body["stop_reason"], "tool_use");
  EXPECT_EQ(body["usage"]["input_tokens"], 2);
  EXPECT_EQ(body["usage"]["cache_read_input_tokens"], 1);

  for (const std::size_t size : {1, 9, 1000}) {
    std::vector<std::string> types;
    std::vector<std::string> texts;
    for (const Json& event : lines_of(answered(asked(Endpoint::kMessages, true), size))) {
      const std::string type = event["type"].get<std::string>();
      if (type == "content_block_delta") {
        EXPECT_EQ(event["index"], texts.size() - 1);
        for (const auto& [key, value] : event["delta"].items())
          if (key != "type") texts.back() += value.get<std::string>();
        continue;
      }
      if (type == "content_block_start") texts.emplace_back();
      types.push_back(type);
    }
    EXPECT_THAT(texts, ElementsAre("Hm.", "I add.", R"({"a": [1, "x"]})")) << size;
    EXPECT_THAT(types,
                ElementsAre("message_start", "content_block_start", "content_block_stop",
                            "content_block_start", "content_block_stop", "content_block_start",
                            "content_block_stop", "message_delta", "message_stop"));
  }
}

TEST(Dialects, AResponseHasItemsAndIsKept) {
  DialogStore store;
  Generation generation = asked(Endpoint::kResponses, false);
  generation.dialogs = &store;
  generation.messages = Json::parse(R"([{"role":"user","content":"hi"}])");
  generation.repeated = {{"tool_choice", "auto"}};
  const Json body = Json::parse(answered(generation, 5));
  ASSERT_EQ(body["output"].size(), 3U);
  EXPECT_EQ(body["output"][0]["content"][0]["text"], "Hm.");
  EXPECT_EQ(body["output"][1]["content"][0]["text"], "I add.");
  EXPECT_EQ(body["output"][2]["arguments"], R"({"a": [1, "x"]})");
  EXPECT_EQ(body["status"], "completed");
  EXPECT_EQ(body["tool_choice"], "auto");
  EXPECT_EQ(Json::parse(*store.response("id-1", "")), body);
  const auto kept = store.messages("id-1", "");
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->size(), 2U);
  EXPECT_EQ(kept->back()["content"], "I add.");
  EXPECT_EQ(kept->back()["tool_calls"][0]["id"], body["output"][2]["call_id"]);

  const auto events = lines_of(answered(asked(Endpoint::kResponses, true), 3));
  std::size_t number = 0;
  std::string text;
  for (const Json& event : events) {
    EXPECT_EQ(event["sequence_number"], number++);
    if (event["type"] == "response.output_text.delta") text += event["delta"].get<std::string>();
  }
  EXPECT_EQ(text, "I add.");
  EXPECT_EQ(events.front()["type"], "response.created");
  EXPECT_EQ(events.back()["type"], "response.completed");
  EXPECT_EQ(events.back()["response"]["output"].size(), 3U);

  const Json cut =
      Json::parse(answered(asked(Endpoint::kResponses, false), 3, "I a", FinishReason::kLength));
  EXPECT_EQ(cut["status"], "incomplete");
  EXPECT_EQ(cut["incomplete_details"]["reason"], "max_output_tokens");
}

// A token counts to what its text is; those of the content are shown.
TEST(Dialects, AResponseHasTheLogprobsOfItsContent) {
  for (const bool stream : {false, true}) {
    Generation generation = asked(Endpoint::kResponses, stream);
    const std::string none = answered(generation, 5);
    EXPECT_EQ(none.find("\"logprob\""), std::string::npos);
    generation.requests.front().logprobs = 1;
    const std::function<std::string(TokenId)> bytes = [](TokenId id) {
      return std::string(1, static_cast<char>(id));
    };
    ResponseBuilder builder(generation, kLabelOfAnswer, bytes);
    std::string out = stream ? builder.open() : "";
    const std::pair<const char*, char> pieces[] = {
        {"<think>", 'o'}, {"Hm.", 'h'},  {"</think>", 'c'}, {"I", 'i'},
        {"", 'j'},        {" add", 'a'}, {"", 'e'}};
    for (const auto& [text, id] : pieces) {
      OutputEvent event;
      event.text = text;
      event.tokens = {{id, -0.5F, {{'t', -0.25F}}}};
      if (id == 'e') event.finish = FinishReason::kStop;
      out += builder.add(0, std::move(event));
    }
    if (stream) {
      out += builder.close();
    } else {
      for (const std::string& part : builder.take_body()) out += part;
    }
    const auto tokens_of = [](const Json& logprobs) {
      std::string tokens;
      for (const Json& each : logprobs) {
        tokens += each["token"].get<std::string>();
        EXPECT_EQ(each["logprob"], -0.5);
        EXPECT_EQ(each["top_logprobs"][0]["token"], "t");
        EXPECT_EQ(each["bytes"].size(), 1U);
      }
      return tokens;
    };
    const auto content_of = [](const Json& response) {
      return response["output"][1]["content"][0];
    };
    if (!stream) {
      EXPECT_EQ(tokens_of(content_of(Json::parse(out))["logprobs"]), "ijae");
      continue;
    }
    std::string streamed;
    for (const Json& event : lines_of(out)) {
      const std::string type = event["type"];
      if (type == "response.output_text.delta") streamed += tokens_of(event["logprobs"]);
      if (type == "response.output_text.done") {
        EXPECT_EQ(tokens_of(event["logprobs"]), "ijae");
      }
      if (type == "response.completed") {
        EXPECT_EQ(tokens_of(content_of(event["response"])["logprobs"]), "ijae");
      }
    }
    EXPECT_EQ(streamed, "ija");
  }
}

TEST(Dialects, OllamasOldEmbeddingIsOneList) {
  Generation generation = asked(Endpoint::kOllamaEmbedding, false);
  generation.answer.reset();
  ResponseBuilder builder(generation, kLabelOfAnswer, kNoBytes);
  OutputEvent event;
  event.embedding = {0.5F, -1.0F};
  event.finish = FinishReason::kStop;
  builder.add(0, std::move(event));
  EXPECT_EQ(builder.take_body().front(), R"({"embedding":[0.5,-1.0]})");
}

// A stop string may cut a call, which is then no call to be made.
TEST(Dialects, ACutCallIsNotAskedFor) {
  constexpr std::string_view kCut = "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": [1";
  for (const bool stream : {false, true}) {
    for (const std::string_view text : {kCut, kAnswer.substr(kAnswer.find("<tool"))}) {
      const bool cut = text == kCut;
      const std::string chat = answered(asked(Endpoint::kChat, stream), 5, text);
      const std::string message = answered(asked(Endpoint::kMessages, stream), 5, text);
      EXPECT_EQ(chat.find(R"("finish_reason":"tool_calls")") == std::string::npos, cut) << chat;
      EXPECT_EQ(chat.find(R"("finish_reason":"stop")") == std::string::npos, !cut) << chat;
      EXPECT_EQ(message.find(R"("stop_reason":"tool_use")") == std::string::npos, cut) << message;
      const std::string items = answered(asked(Endpoint::kResponses, stream), 5, text);
      EXPECT_EQ(items.find(R"("status":"incomplete")") == std::string::npos, !cut) << items;
    }
  }
}

TEST(Dialects, OllamasLinesAreWhole) {
  const auto lines = lines_of(answered(asked(Endpoint::kOllamaChat, true), 4));
  std::string text;
  std::string thinking;
  Json calls = Json::array();
  for (const Json& line : lines) {
    text += line["message"]["content"].get<std::string>();
    thinking += line["message"].value("thinking", std::string());
    if (line["message"].contains("tool_calls")) calls = line["message"]["tool_calls"];
    EXPECT_EQ(line["done"], &line == &lines.back());
  }
  EXPECT_EQ(text, "I add.");
  EXPECT_EQ(thinking, "Hm.");
  EXPECT_EQ(calls, Json::parse(R"([{"function":{"name":"add","arguments":{"a":[1,"x"]}}}])"));
  EXPECT_EQ(lines.back()["done_reason"], "stop");
  EXPECT_EQ(lines.back()["prompt_eval_count"], 3);

  const Json body = Json::parse(answered(asked(Endpoint::kOllamaChat, false), 4));
  EXPECT_EQ(body["message"]["content"], "I add.");
  EXPECT_EQ(body["message"]["tool_calls"], calls);
  const Json text_body = Json::parse(answered(asked(Endpoint::kOllamaGenerate, false), 4, "Hi."));
  EXPECT_EQ(text_body["response"], "Hi.");
}

TEST(Dialects, OllamasDurationsBeginWithTheRequest) {
  using std::chrono::steady_clock;
  const Generation generation = asked(Endpoint::kOllamaChat, false);
  ResponseLabel label = kLabelOfAnswer;
  label.began = steady_clock::now() - std::chrono::hours(1);
  ResponseBuilder builder(generation, label, kNoBytes);
  OutputEvent event;
  event.text = "Hi.";
  event.tokens = {{7, 0.0F, {}}};
  event.finish = FinishReason::kStop;
  builder.add(0, std::move(event));
  const Json body = Json::parse(builder.take_body().front());
  constexpr std::int64_t kHour = 3600'000'000'000;
  EXPECT_GE(body["total_duration"].get<std::int64_t>(), kHour);
  EXPECT_GE(body["prompt_eval_duration"].get<std::int64_t>(), kHour);
  EXPECT_LT(body["eval_duration"].get<std::int64_t>(), kHour);
}

// What ends a stream that failed is in each API's own words.
TEST(Dialects, AFailureEndsAStream) {
  const std::pair<Endpoint, const char*> cases[] = {
      {Endpoint::kChat, "data: {\"error\":{"},
      {Endpoint::kMessages, "event: error\ndata: {\"type\":\"error\","},
      {Endpoint::kResponses, "event: error\ndata: {\"type\":\"error\","},
      {Endpoint::kOllamaChat, "{\"error\":\""},
  };
  for (const auto& [endpoint, begin] : cases) {
    const Generation generation = asked(endpoint, true);
    ResponseBuilder builder(generation, kLabelOfAnswer, kNoBytes);
    builder.open();
    OutputEvent event;
    event.finish = FinishReason::kError;
    event.error = {ErrorKind::kTimeout, "late"};
    EXPECT_EQ(builder.add(0, std::move(event)), "");
    EXPECT_TRUE(builder.close().starts_with(begin)) << builder.close();
  }
}

}  // namespace
}  // namespace dovetail::serve
