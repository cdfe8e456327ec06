#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "grammar/matcher.h"
#include "serve/api_request.h"
#include "serve/dialog_store.h"
#include "serve/fake_engine.h"

namespace dovetail::serve {
namespace {

using ::testing::HasSubstr;

constexpr const char* kHi = R"("messages":[{"role":"user","content":"hi"}])";
// Two functions, as OpenAI's API has them.
constexpr const char* kTools = R"([
  {"type":"function","function":{"name":"add","description":"Adds.","parameters":{"type":"object",
    "properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a","b"]}}},
  {"type":"function","function":{"name":"now"}}])";

class ToolRequest : public ::testing::Test {
 protected:
  Outcome<Generation> read(Endpoint endpoint, std::string_view body) {
    RequestContext context{backend_, "fake", 8};
    context.dialogs = &dialogs_;
    context.strict_fields = strict_fields_;
    auto generation = read_generation(endpoint, body, context);
    if (!generation) return generation;
    const std::atomic<bool> stop = false;
    if (auto found = compile_format(*generation, backend_, stop))
      return tl::unexpected<ApiError>(*std::move(found));
    return generation;
  }
  Outcome<Generation> chat(std::string_view rest) {
    return read(Endpoint::kChat, fmt::format("{{{}{}}}", kHi, rest));
  }
  static bool accepts(const Generation& generation, std::string_view text) {
    grammar::Matcher matcher(generation.requests.front().grammar);
    return matcher.accept_bytes(text) && matcher.can_end();
  }

  FakeEngine engine_;
  Backend backend_ = engine_.backend();
  DialogStore dialogs_;
  bool strict_fields_ = false;
};

std::string prompt_of(const Generation& generation) {
  std::string text;
  for (const TokenId id : generation.requests.front().prompt) text += static_cast<char>(id);
  return text;
}

// The fake model's template knows no tools: calls are hermes', and a system message explains them.
std::string call(std::string_view name, std::string_view arguments) {
  return fmt::format("<tool_call>\n{{\"name\": \"{}\", \"arguments\": {}}}\n</tool_call>", name,
                     arguments);
}

TEST_F(ToolRequest, AChoiceBoundsTheAnswer) {
  const std::string good = call("add", R"({"a": 1, "b": 2})");
  struct Case {
    const char* fields;
    bool words, calls, other;  // what it lets through
  };
  const Case cases[] = {
      {"", true, true, true},
      {R"(,"tool_choice":"auto")", true, true, true},
      {R"(,"tool_choice":"none")", true, false, false},
      {R"(,"tool_choice":"required")", false, true, true},
      {R"(,"tool_choice":{"type":"function","function":{"name":"add"}})", false, true, false},
      {R"(,"tool_choice":{"type":"function","function":{"name":"now"}})", false, false, true},
      {R"(,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto",
         "tools":[{"type":"function","function":{"name":"add"}}]}})",
       true, true, false},
  };
  for (const Case& each : cases) {
    const auto result = chat(fmt::format(R"(,"tools":{}{})", kTools, each.fields));
    ASSERT_TRUE(result) << each.fields << result.error().message;
    EXPECT_EQ(accepts(*result, "Hello."), each.words) << each.fields;
    EXPECT_EQ(accepts(*result, good), each.calls) << each.fields;
    EXPECT_EQ(accepts(*result, call("now", "{}")), each.other) << each.fields;
    EXPECT_FALSE(accepts(*result, call("add", R"({"a": 1})"))) << each.fields;
    EXPECT_FALSE(accepts(*result, call("sub", "{}"))) << each.fields;
    EXPECT_THAT(prompt_of(*result), HasSubstr(R"("description":"Adds.")")) << each.fields;
  }
}

// A model that was not trained for calls makes one, unless it is asked for more.
TEST_F(ToolRequest, SeveralCallsAreAsked) {
  const std::string twice = call("now", "{}") + "\n" + call("now", "{}");
  const auto one = chat(fmt::format(R"(,"tools":{})", kTools));
  const auto more = chat(fmt::format(R"(,"tools":{},"parallel_tool_calls":true)", kTools));
  ASSERT_TRUE(one && more);
  EXPECT_FALSE(accepts(*one, twice));
  EXPECT_TRUE(accepts(*more, twice));
}

TEST_F(ToolRequest, ToolsStandBesideAFormat) {
  const auto result = chat(fmt::format(R"(,"tools":{},"response_format":{{"type":"json_schema",
      "json_schema":{{"schema":{{"enum":["yes","no"]}}}}}})",
                                       kTools));
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_TRUE(accepts(*result, R"("yes")"));
  EXPECT_FALSE(accepts(*result, R"("maybe")"));
  EXPECT_TRUE(accepts(*result, call("now", "{}")));
}

TEST_F(ToolRequest, MessagesOfToolsArrive) {
  const auto result = read(Endpoint::kChat, R"({"messages":[{"role":"user","content":"hi"},
      {"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function",
        "function":{"name":"add","arguments":"{\"a\": 1}"}}]},
      {"role":"tool","tool_call_id":"c1","content":"three"}]})");
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->ignored.text(), "");
  EXPECT_EQ(prompt_of(*result), "[user]hi[assistant]" + call("add", R"({"a": 1})") +
                                    "[user]<tool_response>\nthree\n</tool_response>[assistant]");
}

struct Refusal {
  const char* fields;
  const char* param;
  const char* message;
};

TEST_F(ToolRequest, ErrorsNameTheField) {
  const std::vector<std::pair<std::string, Refusal>> cases = {
      {kTools,
       {R"(,"tool_choice":{"type":"function","function":{"name":"sub"}})", "tool_choice",
        R"("sub" is none of "tools")"}},
      {kTools, {R"(,"tool_choice":"any")", "tool_choice", "or a function by its name"}},
      {kTools,
       {R"(,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[]}})",
        "tool_choice.allowed_tools.tools", "is empty"}},
      {"{}", {"", "tools", "expected an array"}},
      {R"([{"type":"web_search"}])", {"", "tools[0].type", R"(expected "function")"}},
      {R"([{"type":"function","function":{"name":"a b"}}])",
       {"", "tools[0].function.name", "is no name"}},
      {R"([{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"f"}}])",
       {"", "tools[1].function.name", "is there twice"}},
      {R"([{"type":"function","function":{"name":"f","parameters":[]}}])",
       {"", "tools[0].function.parameters", "expected a JSON schema"}},
      {R"([{"type":"function","function":{"name":"g"}},{"type":"function","function":{"name":"f",
          "strict":true,"parameters":{"type":"object","properties":{"x":{"if":true}}}}}])",
       {"", "tools[1].function.parameters", R"(#/properties/x/if: the keyword)"}},
      // The field is said once, also of a schema that is not strict.
      {R"([{"type":"function","function":{"name":"f",
          "parameters":{"type":"object","properties":{"x":{"minLength":-1}}}}}])",
       {"", "tools[0].function.parameters",
        R"(parameters: #/properties/x/minLength: "minLength" must be)"}},
  };
  for (const auto& [tools, expected] : cases) {
    const auto result = chat(fmt::format(R"(,"tools":{}{})", tools, expected.fields));
    ASSERT_FALSE(result) << tools;
    EXPECT_EQ(result.error().status, 400);
    EXPECT_EQ(result.error().param, expected.param) << tools;
    EXPECT_THAT(result.error().message, HasSubstr(expected.message)) << tools;
    const std::string field = std::string(expected.param) + ": ";
    EXPECT_THAT(result.error().message, Not(HasSubstr(field + field))) << tools;
  }
}

TEST_F(ToolRequest, SchemasOfClientsArrive) {
  const auto of = [&](std::string_view strict) {
    return chat(fmt::format(R"(,"tools":[{{"type":"function","function":{{"name":"f","parameters":)"
                            R"({{"type":["OBJECT","NULL"],"properties":{{"a":{{"type":"string",)"
                            R"("maxLength":10000}}}},"required":null}}{}}}}}])",
                            strict));
  };
  const auto result = of("");
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_THAT(result->ignored.text(),
              HasSubstr("tools[0].function.parameters: #/properties/a/maxLength"));
  EXPECT_THAT(result->ignored.text(), HasSubstr("tools[0].function.parameters: #/required"));
  EXPECT_TRUE(accepts(*result, call("f", R"({"a": "b"})")));
  EXPECT_FALSE(accepts(*result, call("f", R"({"a": 1})")));
  EXPECT_FALSE(of(R"(,"strict":true)"));
}

// As clients send them without "strict": the rest of the schema is held, and the response says what
// is not.
TEST_F(ToolRequest, KeywordsThatCannotBeKeptAreNamed) {
  constexpr std::string_view kSchema =
      R"({"type":"object","properties":{"x":{"type":"integer","if":true}},"required":["x"]})";
  const auto of_openai = [&](std::string_view strict) {
    return chat(fmt::format(
        R"(,"tools":[{{"type":"function","function":{{"name":"f","parameters":{}{}}}}}])", kSchema,
        strict));
  };
  for (int round = 0; round < 2; ++round) {  // compiled, and found
    const auto result = of_openai("");
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_EQ(result->ignored.text(), "tools[0].function.parameters: #/properties/x/if");
    EXPECT_TRUE(accepts(*result, call("f", R"({"x": 1})")));
    EXPECT_FALSE(accepts(*result, call("f", R"({"x": true})")));
  }
  EXPECT_TRUE(of_openai(R"(,"strict":false)"));
  EXPECT_FALSE(of_openai(R"(,"strict":true)"));

  const auto of_anthropic = read(
      Endpoint::kMessages, fmt::format(R"({{"max_tokens":9,"messages":[{{"role":"user","content":)"
                                       R"("a"}}],"tools":[{{"name":"f","input_schema":{}}}]}})",
                                       kSchema));
  ASSERT_TRUE(of_anthropic) << of_anthropic.error().message;
  EXPECT_EQ(of_anthropic->ignored.text(), "tools[0].input_schema: #/properties/x/if");

  for (const auto& [format, place] :
       {std::pair{R"({{"type":"json_schema","json_schema":{{"schema":{}}}}})",
                  "response_format.json_schema.schema"},
        {R"({{"type":"json_object","schema":{}}})", "response_format.schema"}}) {
    const auto result =
        chat(fmt::format(R"(,"response_format":{})", fmt::format(fmt::runtime(format), kSchema)));
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_EQ(result->ignored.text(), fmt::format("{}: #/properties/x/if", place));
    EXPECT_TRUE(accepts(*result, R"({"x": 1})"));
    EXPECT_FALSE(accepts(*result, R"({"x": true})"));
  }
  // What has no "strict" is held whole, or refused.
  EXPECT_FALSE(chat(fmt::format(R"(,"guided_json":{})", kSchema)));
}

TEST_F(ToolRequest, MessagesOfAnthropicArrive) {
  const auto result = read(Endpoint::kMessages, R"({"model":"fake","max_tokens":9,"system":
      [{"type":"text","text":"S"}],"metadata":{"user_id":"u"},"stop_sequences":["x"],
      "tools":[{"name":"add","description":"Adds.","input_schema":{"type":"object",
        "properties":{"a":{"type":"integer"}},"required":["a"]}}],
      "tool_choice":{"type":"any","disable_parallel_tool_use":true},
      "messages":[{"role":"user","content":"hi"},
        {"role":"assistant","content":[{"type":"text","text":"so"},
          {"type":"tool_use","id":"t1","name":"add","input":{"a":1}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"t1",
          "content":[{"type":"text","text":"two"}]},{"type":"text","text":"and?"}]}]})");
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->requests.front().max_tokens, 9);
  EXPECT_EQ(result->requests.front().stop, std::vector<std::string>{"x"});
  EXPECT_FALSE(accepts(*result, "Hello."));
  EXPECT_TRUE(accepts(*result, call("add", R"({"a": 5})")));
  EXPECT_THAT(prompt_of(*result), HasSubstr("[assistant]so\n" + call("add", R"({"a": 1})")));
  EXPECT_THAT(prompt_of(*result), HasSubstr("<tool_response>\ntwo\n</tool_response>\n\nand?"));
}

// What an assistant thought stands ahead of what it said, and may be of several blocks.
TEST_F(ToolRequest, BlocksOfAnthropicComeInAnyOrder) {
  const std::string think =
      R"({"type":"thinking","thinking":"It is a long thought.","signature":""})";
  const std::string say = R"({"type":"text","text":"An answer of more than sixteen bytes."})";
  const std::string use = R"({"type":"tool_use","id":"t1","name":"add","input":{"a":1}})";
  for (const std::string& blocks :
       {think + "," + say, say + "," + think, use + "," + say, think + "," + use + "," + say,
        think + "," + think + "," + say}) {
    SCOPED_TRACE(blocks);
    const auto result = read(Endpoint::kMessages, R"({"max_tokens":9,"messages":[
        {"role":"user","content":"hi"},{"role":"assistant","content":[)" +
                                                      blocks + R"(]},
        {"role":"user","content":"more"}]})");
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_THAT(prompt_of(*result), HasSubstr("An answer of more than sixteen bytes."));
  }
}

// The words of an assistant at the end are the beginning of the answer.
TEST_F(ToolRequest, AnAnswerOfAnthropicMayBeBegun) {
  const auto result = read(Endpoint::kMessages, R"({"max_tokens":9,"messages":[
      {"role":"user","content":"hi"},{"role":"assistant","content":"The"}]})");
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(prompt_of(*result), "[user]hi[assistant]The");
}

TEST_F(ToolRequest, ErrorsOfAnthropicsFieldsNameThem) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"max_tokens":1})", "messages"},
      {R"({"max_tokens":1,"messages":[{"role":"user","content":[{"type":"image"}]}]})",
       "messages[0].content[0].type"},
      {R"({"max_tokens":1,"messages":[{"role":"bot","content":"x"}]})", "messages[0].role"},
      {R"({"max_tokens":1,"messages":[{"role":"user","content":"x"}],
         "tools":[{"type":"bash_20250124","name":"bash"}]})",
       "tools[0].type"},
      {R"({"max_tokens":1,"messages":[{"role":"user","content":"x"}],"tool_choice":"auto"})",
       "tool_choice"},
      {R"({"max_tokens":1,"messages":[{"role":"user","content":"x"}],"thinking":{"type":"much"}})",
       "thinking"},
      {R"({"max_tokens":1,"messages":[{"role":"user","content":"x"}],"thread":{"type":"create"}})",
       "thread"},
  };
  for (const auto& [body, param] : cases) {
    const auto result = read(Endpoint::kMessages, body);
    ASSERT_FALSE(result) << body;
    EXPECT_EQ(result.error().param, param) << body;
  }
}

TEST_F(ToolRequest, ItemsOfResponsesArrive) {
  const auto result = read(Endpoint::kResponses, R"({"instructions":"S","input":[
      {"role":"user","content":[{"type":"input_text","text":"hi"}]},
      {"type":"function_call","call_id":"c1","name":"add","arguments":"{\"a\": 1}"},
      {"type":"function_call_output","call_id":"c1","output":"two"}],
      "tools":[{"type":"function","name":"add","parameters":{"type":"object",
        "properties":{"a":{"type":"integer"}},"required":["a"]},"strict":true}],
      "tool_choice":{"type":"function","name":"add"},"max_output_tokens":7,
      "text":{"format":{"type":"text"}},"reasoning":{"effort":"low"}})");
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->requests.front().max_tokens, 7);
  EXPECT_TRUE(accepts(*result, call("add", R"({"a": 5})")));
  EXPECT_FALSE(accepts(*result, "Hello."));
  EXPECT_THAT(prompt_of(*result), HasSubstr("[user]hi[assistant]" + call("add", R"({"a": 1})") +
                                            "[user]<tool_response>\ntwo"));
  EXPECT_EQ(result->repeated["tool_choice"]["name"], "add");
}

// What Codex sends beside its functions, and what a function that returned nothing gives.
TEST_F(ToolRequest, ToolsOfResponsesThatAreNoFunctionsAreLeftOut) {
  const char* const kBody = R"({"input":[{"role":"user","content":"hi"},
      {"type":"function_call","call_id":"c1","name":"add","arguments":"{\"a\": 1}"},
      {"type":"function_call_output","call_id":"c1","output":null}],
      "tools":[{"type":"web_search","external_web_access":false},
        {"type":"function","name":"add","parameters":{"type":"object",
        "properties":{"a":{"type":"integer"}}}},{"type":"namespace","name":"n"}]})";
  const auto result = read(Endpoint::kResponses, kBody);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->ignored.text(), "tools[0] (web_search), tools[2] (namespace)");
  EXPECT_THAT(prompt_of(*result), testing::Not(HasSubstr("web_search")));
  strict_fields_ = true;
  const auto refused = read(Endpoint::kResponses, kBody);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().param, "tools[0].type");
}

TEST_F(ToolRequest, AToolMayHaveSaidNothing) {
  for (const char* content : {R"(,"content":null)", R"(,"content":"")", ""}) {
    const auto result = read(Endpoint::kChat, fmt::format(R"({{"messages":[
        {{"role":"user","content":"x"}},
        {{"role":"assistant","content":null,"tool_calls":[{{"id":"c","type":"function",
          "function":{{"name":"add","arguments":"{{}}"}}}}]}},
        {{"role":"tool","tool_call_id":"c"{}}}]}})",
                                                          content));
    ASSERT_TRUE(result) << content << result.error().message;
  }
}

TEST_F(ToolRequest, AResponseGoesOnFromAKeptOne) {
  dialogs_.put("resp-1", "", Json::parse(R"([{"role":"user","content":"a"},
                                            {"role":"assistant","content":"b"}])"),
               "{}");
  const auto result =
      read(Endpoint::kResponses, R"({"input":"c","previous_response_id":"resp-1"})");
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(prompt_of(*result), "[user]a[assistant]b[user]c[assistant]");
  EXPECT_EQ(result->messages.size(), 3U);
  const auto unknown =
      read(Endpoint::kResponses, R"({"input":"c","previous_response_id":"resp-2"})");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, "previous_response_not_found");
}

TEST_F(ToolRequest, AnItemOfAKeptResponseIsKnownByItsId) {
  const std::string said = item_id("msg_", "resp_1", 0), called = item_id("fc_", "resp_1", 1);
  const Json response = {{"output",
                          {{{"id", said},
                            {"type", "message"},
                            {"role", "assistant"},
                            {"content", {{{"type", "output_text"}, {"text", "So"}}}}},
                           {{"id", called},
                            {"type", "function_call"},
                            {"call_id", "c1"},
                            {"name", "add"},
                            {"arguments", "{\"a\": 1}"}}}}};
  dialogs_.put("resp_1", "", Json::array(), response.dump());
  const auto asked = [&](const std::string& id) {
    return read(Endpoint::kResponses, R"({"input":[{"role":"user","content":"a"},
        {"type":"item_reference","id":")" +
                                          id + R"("},{"role":"user","content":"c"}]})");
  };
  const auto result = asked(said);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(prompt_of(*result), "[user]a[assistant]So[user]c[assistant]");
  const auto call_result = asked(called);
  ASSERT_TRUE(call_result) << call_result.error().message;
  EXPECT_THAT(prompt_of(*call_result), HasSubstr(call("add", R"({"a": 1})")));
  EXPECT_FALSE(asked(item_id("msg_", "resp_1", 2)));
  EXPECT_FALSE(asked(item_id("msg_", "resp_2", 0)));
}

TEST_F(ToolRequest, ErrorsOfResponsesFieldsNameThem) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({})", "input"},
      {R"({"input":[{"type":"item_reference","id":"x"}]})", "input[0].id"},
      {R"({"input":[{"type":"item_reference","id":"msg_12345"}]})", "input[0].id"},
      {R"({"input":[{"type":"other_call","id":"x"}]})", "input[0].type"},
      {R"({"input":[{"role":"user","content":[{"type":"input_image"}]}]})",
       "input[0].content[0].type"},
      {R"({"input":"a","tools":[{"name":"f"}]})", "tools[0].type"},
      {R"({"input":"a","text":{"format":{"type":"xml"}}})", "text.format.type"},
      {R"({"input":"a","background":true})", "background"},
      {R"({"input":"a","reasoning":{"effort":"huge"}})", "reasoning.effort"},
  };
  for (const auto& [body, param] : cases) {
    const auto result = read(Endpoint::kResponses, body);
    ASSERT_FALSE(result) << body;
    EXPECT_EQ(result.error().param, param) << body;
  }
}

TEST_F(ToolRequest, OllamasFieldsArrive) {
  const auto result = read(Endpoint::kOllamaChat, R"({"model":"fake:latest","keep_alive":"5m",
      "messages":[{"role":"user","content":"hi","images":[]}],"format":"json",
      "options":{"temperature":0.5,"num_predict":3,"num_ctx":4096,"stop":["x"],"top_k":7}})");
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_TRUE(result->stream);
  const Request& request = result->requests.front();
  EXPECT_EQ(request.max_tokens, 3);
  EXPECT_EQ(request.sampling.temperature, 0.5F);
  EXPECT_EQ(request.sampling.top_k, 7);
  EXPECT_TRUE(accepts(*result, R"({"a": 1})"));
  EXPECT_FALSE(accepts(*result, "x"));

  const auto text =
      read(Endpoint::kOllamaGenerate, R"({"model":"fake","system":"S","prompt":"hi"})");
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_EQ(prompt_of(*text), "[system]S[user]hi[assistant]");
  const auto raw = read(Endpoint::kOllamaGenerate, R"({"prompt":"hi","raw":true})");
  ASSERT_TRUE(raw) << raw.error().message;
  EXPECT_TRUE(prompt_of(*raw).ends_with("hi"));
  EXPECT_FALSE(raw->is_dialog);

  const auto wrong =
      read(Endpoint::kOllamaChat,
           R"({"messages":[{"role":"user","content":"hi"}],"options":{"top_p":"2"}})");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().param, "options.top_p");
}

TEST(DialogStore, KeepsTheLastUsedWithinItsBounds) {
  DialogStore store;
  for (std::size_t i = 0; i < DialogStore::kMostDialogs; ++i)
    store.put(std::to_string(i), "", Json::array({i}), "{}");
  EXPECT_EQ(store.messages("0", ""), Json::array({0}));
  store.put("new", "", Json::array(), "{}");
  EXPECT_TRUE(store.messages("0", ""));
  EXPECT_FALSE(store.messages("1", ""));
  const std::string large(DialogStore::kMostBytes / 2, 'x');
  store.put("large", "", Json::array(), large);
  store.put("larger", "", Json::array({large}), "{}");
  EXPECT_FALSE(store.response("large", ""));
  EXPECT_TRUE(store.response("larger", ""));
  EXPECT_FALSE(store.messages("0", ""));
}

TEST(DialogStore, KnowsWhoseTheyAre) {
  DialogStore store;
  store.put("1", "a", Json::array({1}), "r");
  EXPECT_EQ(store.response("1", "a"), "r");
  EXPECT_FALSE(store.response("1", ""));
  EXPECT_FALSE(store.messages("1", "b"));
  EXPECT_FALSE(store.erase("1", "b"));
  EXPECT_TRUE(store.erase("1", "a"));
  EXPECT_FALSE(store.response("1", "a"));
}

TEST_F(ToolRequest, VerbosityIsTheTemplates) {
  const auto ignored = chat(R"(,"verbosity":"low")");
  ASSERT_TRUE(ignored) << ignored.error().message;
  EXPECT_EQ(ignored->ignored.text(), "verbosity");
  EXPECT_EQ(chat(R"(,"verbosity":"medium")")->ignored.text(), "");
  const auto wrong = chat(R"(,"verbosity":"loud")");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().param, "verbosity");

  backend_.template_names = {"messages", "verbosity"};
  backend_.render_chat = [](const Json& variables,
                            std::span<const text::MarkedText>) -> Result<text::MarkedText> {
    return text::MarkedText{variables.value("verbosity", "none"), {}};
  };
  const auto heeded = chat(R"(,"verbosity":"low")");
  ASSERT_TRUE(heeded) << heeded.error().message;
  EXPECT_EQ(heeded->ignored.text(), "");
  EXPECT_EQ(prompt_of(*heeded), "low");
  const auto response = read(Endpoint::kResponses, R"({"input":"a","text":{"verbosity":"high"}})");
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(prompt_of(*response), "high");
}

TEST_F(ToolRequest, ResponsesAskForLogprobsByInclude) {
  const auto result = read(Endpoint::kResponses, R"({"input":"a","top_logprobs":3,
      "include":["reasoning.encrypted_content","message.output_text.logprobs"]})");
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->requests.front().logprobs, 3);
  EXPECT_EQ(read(Endpoint::kResponses, R"({"input":"a","top_logprobs":0,"include":[]})")
                ->requests.front()
                .logprobs,
            -1);
  const auto alone = read(Endpoint::kResponses, R"({"input":"a","top_logprobs":3})");
  ASSERT_FALSE(alone);
  EXPECT_EQ(alone.error().param, "top_logprobs");
  const auto wrong = read(Endpoint::kResponses, R"({"input":"a","include":[3]})");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().param, "include[0]");
}

TEST_F(ToolRequest, OllamasOldEmbeddingsAreOfOnePrompt) {
  const auto result =
      read(Endpoint::kOllamaEmbedding, R"({"model":"fake:latest","prompt":"hi","keep_alive":1})");
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_TRUE(result->requests.front().embed);
  EXPECT_FALSE(result->stream);
  const auto none = read(Endpoint::kOllamaEmbedding, R"({"model":"fake"})");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().param, "prompt");
}

}  // namespace
}  // namespace dovetail::serve
