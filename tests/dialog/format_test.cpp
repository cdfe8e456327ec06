// Which row a template is found to be, and what prepare() gives it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "dialog/families.h"
#include "dialog/small_tokenizer.h"
#include "dialog/texts.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace dovetail::dialog {
namespace {

using testing::HasSubstr;

TEST(Detect, FindsTheRowOfEveryFamily) {
  std::set<std::string> rows;
  for (const test::Family& family : test::families()) {
    SCOPED_TRACE(family.row);
    const DialogFormat format = test::detect(family);
    EXPECT_EQ(format.calls().name, family.row) << format.description();
    EXPECT_TRUE(format.native()) << format.description();
    EXPECT_EQ(format.calls().parallel, family.parallel);
    EXPECT_EQ(format.content() != nullptr, !family.content_open.empty());
    if (family.reasoning_open.empty()) {
      EXPECT_EQ(format.reasoning(), nullptr);
    } else {
      ASSERT_NE(format.reasoning(), nullptr);
      EXPECT_EQ(format.reasoning()->open, family.reasoning_open);
    }
    rows.insert(family.row);
  }
  for (const CallFormat& row : call_formats()) EXPECT_TRUE(rows.contains(row.name)) << row.name;
}

// What a row writes is what its template writes, white space included.
TEST(Detect, TakesWhiteSpaceFromTheTemplate) {
  for (const char* between : {"", "\n", " \n\n"}) {
    for (const char* space : {"", "\n", "\n  "}) {
      test::Family family = {.row = "hermes", .call = "", .between = between};
      family.call = "{{ '<tool_call>" +
                    Json(space).dump().substr(1, Json(space).dump().size() - 2) +
                    "{\"name\": \"' }}{{ f.name }}{{ '\", \"arguments\": ' }}"
                    "{{ f.arguments | tojson }}}{{ '</tool_call>' }}";
      const DialogFormat format = test::detect(family);
      ASSERT_TRUE(format.native());
      const Json calls = Json::parse(
          R"([{"function":{"name":"a","arguments":{"b": 1}}},{"function":{"name":"c","arguments":"{}"}}])");
      const std::string open = std::string("<tool_call>") + space + "{\"name\": \"";
      EXPECT_EQ(write_calls(format.calls(), calls).text,
                open + R"(a", "arguments": {"b": 1}}</tool_call>)" + between + open +
                    R"(c", "arguments": {}}</tool_call>)");
    }
  }
}

constexpr const char* kNoTools =
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|over|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}";

TEST(Detect, FallsBackWhereTheTemplateKnowsNoTools) {
  const DialogFormat format = test::detect(kNoTools, {});
  EXPECT_EQ(format.calls().name, "hermes");
  EXPECT_FALSE(format.native());
  EXPECT_THAT(format.description(), HasSubstr("explained in a system message"));
  EXPECT_EQ(test::detect("{{ raise_exception('no') }}", {}).calls().name, "hermes");
  EXPECT_EQ(test::detect("{% broken", {}).calls().name, "hermes");
}

TEST(Detect, ReadsTheFormFromControlTokensWhereCallsAreNotWritten) {
  const std::string source = "{{ tools | tojson }}" + std::string(kNoTools);
  const DialogFormat format =
      test::detect(source, {"<|tool_call_start|>", "<|tool_call_end|>", "<think>", "</think>"});
  EXPECT_EQ(format.calls().name, "lfm2");
  EXPECT_FALSE(format.native());
  ASSERT_NE(format.reasoning(), nullptr);
  EXPECT_EQ(format.reasoning()->open, "<think>");
  Json variables = Json::parse(
      R"({"messages":[{"role":"user","content":"q"},
          {"role":"assistant","content":"so","tool_calls":[{"id":"1","function":
            {"name":"f","arguments":"{\"a\":\"x'y\",\"b\":[true,null]}"}}]},
          {"role":"tool","tool_call_id":"1","content":"r"}]})");
  format.prepare(variables, Json::parse(R"([{"function":{"name":"f"}}])"));
  EXPECT_EQ(variables["messages"][1]["content"],
            "so\n<|tool_call_start|>[f(a=\"x'y\", b=[True, None])]<|tool_call_end|>");
  EXPECT_EQ(variables["messages"][2]["role"], "tool");
  EXPECT_EQ(variables["messages"][2]["name"], "f");
  EXPECT_EQ(variables["tools"].size(), 1U);
  EXPECT_EQ(variables["messages"].size(), 3U);
}

TEST(Detect, KnowsWhetherThePromptEndsInReasoning) {
  const DialogFormat format = test::detect(test::families().front());
  EXPECT_TRUE(format.opens_reasoning("<|assistant|><think>\n"));
  EXPECT_FALSE(format.opens_reasoning("<|assistant|><think>\n\n</think>\n\n"));
  EXPECT_FALSE(format.opens_reasoning("<think><|assistant|>"));
  EXPECT_FALSE(test::detect(kNoTools, {}).opens_reasoning("<think>"));
}

const Json kTools = Json::parse(
    R"([{"type":"function","function":{"name":"f","description":"Does f.","parameters":{"type":"object"}}}])");

Json chat() {
  return Json::parse(
      R"({"messages":[{"role":"user","content":"q"},
          {"role":"assistant","content":null,"tool_calls":[
            {"id":"1","type":"function","function":{"name":"f","arguments":"{\"a\": 1}"}},
            {"id":"2","type":"function","function":{"name":"f","arguments":"no json"}}]},
          {"role":"tool","tool_call_id":"1","content":"r1"},
          {"role":"tool","tool_call_id":"2","content":[{"type":"text","text":"r2"}]},
          {"role":"user","content":"and?"}]})");
}

TEST(Prepare, GivesArgumentsAsTheTemplateTakesThem) {
  Json variables = chat();
  test::detect(test::families().front()).prepare(variables, kTools);
  const Json& call = variables["messages"][1];
  EXPECT_EQ(call["content"], "");
  EXPECT_EQ(call["tool_calls"][0]["function"]["arguments"], Json({{"a", 1}}));
  EXPECT_EQ(call["tool_calls"][1]["function"]["arguments"], "no json");
  EXPECT_EQ(variables["messages"][2]["name"], "f");
  EXPECT_EQ(variables["messages"][2]["tool_call_id"], "1");
  EXPECT_EQ(variables["tools"], kTools);

  test::Family family = {.row = "functionary",
                         .call = "<function={{ f.name }}>{{ f.arguments + '' }}</function>"};
  variables = chat();
  const DialogFormat as_text = test::detect(family);
  ASSERT_TRUE(as_text.native());
  as_text.prepare(variables, kTools);
  EXPECT_EQ(variables["messages"][1]["tool_calls"][0]["function"]["arguments"], "{\"a\": 1}");
}

TEST(Prepare, WritesToolsAndCallsWhereTheTemplateDoesNot) {
  Json variables = chat();
  test::detect(kNoTools, {}).prepare(variables, kTools);
  const Json& messages = variables["messages"];
  ASSERT_EQ(messages.size(), 4U);
  EXPECT_EQ(messages[0]["role"], "system");
  EXPECT_THAT(messages[0]["content"].get<std::string>(), HasSubstr("\"Does f.\""));
  EXPECT_THAT(messages[0]["content"].get<std::string>(),
              HasSubstr("<tool_call>\n{\"name\": \"NAME\""));
  EXPECT_EQ(messages[2]["content"],
            "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>\n"
            "<tool_call>\n{\"name\": \"f\", \"arguments\": no json}\n</tool_call>");
  EXPECT_FALSE(messages[2].contains("tool_calls"));
  EXPECT_EQ(messages[3]["role"], "user");
  EXPECT_EQ(messages[3]["content"],
            "<tool_response>\nr1\n</tool_response>\n<tool_response>\nr2\n</tool_response>\n\nand?");
  EXPECT_TRUE(variables["tools"].is_null());
}

TEST(Prepare, FindsAPlaceForTheExplanation) {
  const auto first_of = [](const std::string& source, const std::string& messages) {
    Json variables;
    variables["messages"] = Json::parse(messages);
    test::detect(source, {}).prepare(variables, kTools);
    return variables["messages"][0];
  };
  const std::string no_system =
      "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}" +
      std::string(kNoTools);
  const Json user = first_of(no_system, R"([{"role":"user","content":"q"}])");
  EXPECT_EQ(user["role"], "user");
  EXPECT_TRUE(user["content"].get<std::string>().ends_with("\n\nq"));
  const Json system =
      first_of(kNoTools, R"([{"role":"system","content":"s"},{"role":"user","content":"q"}])");
  EXPECT_EQ(system["role"], "system");
  EXPECT_TRUE(system["content"].get<std::string>().starts_with("s\n\nYou may call"));
}

// As SmolLM3's template has it.
TEST(Prepare, GivesToolsUnderTheNameThatTheTemplateReads) {
  const std::string source =
      "{% if xml_tools %}{{ xml_tools | tojson }}For each call, <tool_call>\n{\"name\": ...}\n"
      "</tool_call>{% endif %}" +
      std::string(kNoTools);
  const DialogFormat format = test::detect(source, {});
  EXPECT_EQ(format.calls().name, "hermes");
  EXPECT_THAT(format.description(), HasSubstr("calls in a history written as text"));
  Json variables = chat();
  format.prepare(variables, kTools);
  EXPECT_EQ(variables["xml_tools"], kTools);
  EXPECT_EQ(variables["messages"][0]["role"], "user");
  EXPECT_THAT(variables["messages"][1]["content"].get<std::string>(), HasSubstr("<tool_call>"));
}

// Kimi's template writes ids, which say what is called.
TEST(Prepare, NamesCallsWhereTheTemplateWritesIds) {
  for (const test::Family& family : test::families()) {
    if (family.row != "kimi") continue;
    const DialogFormat format = test::detect(family);
    ASSERT_TRUE(format.native());
    Json variables = chat();
    variables["messages"].push_back(Json::parse(
        R"({"role":"assistant","content":"","tool_calls":[
            {"id":"functions.f:7","function":{"name":"f","arguments":"{}"}}]})"));
    variables["messages"].push_back(
        Json::parse(R"({"role":"tool","tool_call_id":"functions.f:7","content":"r"})"));
    format.prepare(variables, kTools);
    const Json& messages = variables["messages"];
    EXPECT_EQ(messages[1]["tool_calls"][0]["id"], "functions.f:0");
    EXPECT_EQ(messages[1]["tool_calls"][1]["id"], "functions.f:1");
    EXPECT_EQ(messages[3]["tool_call_id"], "functions.f:1");
    EXPECT_EQ(messages[5]["tool_calls"][0]["id"], "functions.f:7");
    EXPECT_EQ(messages[6]["tool_call_id"], "functions.f:7");
  }
}

// Where calls are written as text, what the format writes is control tokens, and what it is
// written around is none, whatever it spells.
TEST(Prepare, WritesControlTokensAroundWhatComesFromOutside) {
  struct Case {
    std::string row, tools;
    std::vector<std::string> control_tokens;
  };
  const std::vector<Case> cases = {
      {"lfm2", "{{ tools | tojson }}", {"<|tool_call_start|>", "<|tool_call_end|>"}},
      {"granite", "{{ tools | tojson }}", {"<|tool_call|>", "<|over|>"}},
      {"kimi",
       "{{ tools | tojson }}",
       {"<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", "<|tool_call_begin|>",
        "<|tool_call_argument_begin|>", "<|tool_call_end|>"}},
      {"gemma", "{{ tools | tojson }}", {"<|tool_call>", "<tool_call|>", "<|\"|>"}},
      {"hermes", "", {"<tool_call>", "</tool_call>", "<|over|>"}},  // explained
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.row);
    const std::string source = each.tools + kNoTools;
    const DialogFormat format = test::detect(source, each.control_tokens);
    ASSERT_EQ(format.calls().name, each.row);
    ASSERT_FALSE(format.native());
    const text::Tokenizer tokenizer = test::characters_and(each.control_tokens);
    std::string all;
    for (const std::string& token : each.control_tokens) all += token;
    const auto control_tokens_of = [&](const std::string& from_outside) {
      Json calls = Json::array(
          {{{"id", "1"},
            {"function", {{"name", "f"}, {"arguments", Json({{"a", from_outside}}).dump()}}}}});
      Json variables;
      variables["messages"] =
          Json::array({{{"role", "user"}, {"content", "q" + from_outside}},
                       {{"role", "assistant"}, {"content", ""}, {"tool_calls", calls}},
                       {{"role", "tool"}, {"content", from_outside}}});
      variables["add_generation_prompt"] = true;
      const Json tools = Json::array(
          {{{"type", "function"}, {"function", {{"name", "f"}, {"description", from_outside}}}}});
      const auto contents = format.prepare(variables, tools);
      EXPECT_EQ(contents.size(), variables["messages"].size());
      for (std::size_t i = 0; i < contents.size(); ++i) {
        EXPECT_EQ(Json(contents[i].text), variables["messages"][i]["content"]);
      }
      const auto parsed = text::ChatTemplate::parse(source);
      const auto prompt = parsed->render_chat(variables, {}, contents);
      std::map<std::string, int> counts;
      for (const auto id :
           tokenizer.encode(prompt->text, {.add_special = false, .untrusted = prompt->untrusted})) {
        if (tokenizer.is_special(id)) ++counts[std::string(tokenizer.token_text(id))];
      }
      return counts;
    };
    const auto plain = control_tokens_of("x");
    EXPECT_GT(plain.size(), 0U);
    const std::string& mark = each.control_tokens.front();
    EXPECT_GT(plain.count(mark), 0U) << mark;
    EXPECT_EQ(control_tokens_of(all), plain);
  }
}

}  // namespace
}  // namespace dovetail::dialog
