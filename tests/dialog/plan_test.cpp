// What plans hold, what they refuse, and how texts outside of their language are read.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "dialog/families.h"
#include "dialog/parameters.h"
#include "dialog/random_calls.h"
#include "dialog/texts.h"
#include "grammar/grammar.h"
#include "grammar/support.h"

namespace dovetail::dialog {
namespace {

using test::Read;
using testing::HasSubstr;

const DialogFormat& format_of(const std::string& row, bool with_tokens = false) {
  static std::map<std::pair<std::string, bool>, DialogFormat> known;
  const auto found = known.find({row, with_tokens});
  if (found != known.end()) return found->second;
  for (const test::Family& family : test::families()) {
    if (family.row == row && with_tokens != family.control_tokens.empty()) {
      return known.emplace(std::pair(row, with_tokens), test::detect(family)).first->second;
    }
  }
  throw std::runtime_error("no such family");
}

Tool tool_of(const std::string& parameters, bool strict = true) {
  return {.name = "f", .description = "", .parameters = Json::parse(parameters), .strict = strict};
}

const std::string kCity =
    R"({"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"}},"required":["city"]})";

Result<AnswerPlan> plan(const DialogFormat& format, const std::string& parameters,
                        ToolChoice choice = ToolChoice::kAuto, bool strict = true) {
  AnswerRequest request;
  request.tools = {tool_of(parameters, strict)};
  request.choice = choice;
  return AnswerPlan::create(format, request);
}

TEST(AnswerPlan, HoldsNothingWhereTextIsFree) {
  const auto free = AnswerPlan::create(format_of("hermes"), {});
  ASSERT_TRUE(free.has_value());
  EXPECT_EQ(free->structure(), "");
  EXPECT_FALSE(free->marks());
  const Read read = test::read(*free, "<think>\na\n</think>\n\nb <tool_call> c\n", {1});
  EXPECT_EQ(read.reasoning, "a");
  EXPECT_EQ(read.content, "b <tool_call> c\n");

  // Tools that must not be called: content without their mark.
  const auto none = plan(format_of("hermes"), kCity, ToolChoice::kNone);
  ASSERT_TRUE(none.has_value());
  const auto grammar = grammar::Grammar::from_structure(Json::parse(none->structure())).value();
  const grammar::Matcher matcher = grammar::test::matcher_of(grammar);
  EXPECT_TRUE(grammar::test::accepts(matcher, "so <tool"));
  EXPECT_FALSE(grammar::test::accepts(matcher, "so <tool_call>"));
}

struct Taken {
  ToolChoice choice;
  std::string text;
  bool in;
};

TEST(AnswerPlan, KeepsTheChoiceAndTheContentsForm) {
  const std::string call =
      "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"city\": \"Ulm\"}}\n</tool_call>";
  const std::vector<Taken> cases = {
      {ToolChoice::kRequired, call, true},
      {ToolChoice::kRequired, "<think>a</think>\n\n" + call, true},
      {ToolChoice::kRequired, "so " + call, false},
      {ToolChoice::kRequired, "", false},
      {ToolChoice::kRequired, call + "\n" + call, true},
      {ToolChoice::kRequired, call + "\n", false},
      {ToolChoice::kAuto, "", true},
      {ToolChoice::kAuto, "so", true},
      {ToolChoice::kAuto, "so\n" + call, true},
      {ToolChoice::kAuto, "<think>", false},
      {ToolChoice::kAuto, "<think></think>so", true},
      {ToolChoice::kAuto, "<tool_call>", false},
      {ToolChoice::kNone, call, false},
  };
  for (const Taken& c : cases) {
    const AnswerPlan made = plan(format_of("hermes"), kCity, c.choice).value();
    const auto grammar = grammar::Grammar::from_structure(Json::parse(made.structure())).value();
    EXPECT_EQ(grammar::test::accepts(grammar::test::matcher_of(grammar), c.text), c.in)
        << fmt::format("{} {}", static_cast<int>(c.choice), c.text);
  }
  AnswerRequest request;
  request.tools = {tool_of(kCity)};
  request.choice = ToolChoice::kAuto;
  request.parallel = false;
  request.reasoning_opened = true;
  request.content = ContentForm{ContentForm::Kind::kJsonSchema, R"({"type":"integer"})"};
  const AnswerPlan made = AnswerPlan::create(format_of("hermes"), request).value();
  const auto grammar = grammar::Grammar::from_structure(Json::parse(made.structure())).value();
  const grammar::Matcher matcher = grammar::test::matcher_of(grammar);
  for (const std::string& text : {std::string("a</think>12"), "</think>\n\n" + call}) {
    EXPECT_TRUE(grammar::test::accepts(matcher, text)) << text;
  }
  for (const std::string& text :
       {std::string("12"), std::string("</think>so"), "</think>" + call + "\n" + call}) {
    EXPECT_FALSE(grammar::test::accepts(matcher, text)) << text;
  }
}

// Harmony's commentary is content, too.
TEST(AnswerPlan, KeepsCommentaryOutOfContentWithAForm) {
  const DialogFormat& format = format_of("harmony", true);
  const std::string next = "<|end|><|start|>assistant<|channel|>";
  const std::string call = "commentary to=functions.f<|message|>{\"city\":\"Ulm\"}";
  const std::string thought = "<|channel|>analysis<|message|>a" + next;
  const std::string comment = "<|channel|>commentary<|message|>a" + next;
  const ContentForm form{ContentForm::Kind::kJsonSchema, R"({"type":"integer"})"};
  struct Case {
    ToolChoice choice;
    bool has_form;
    std::string text;
    bool in;
  };
  const std::vector<Case> cases = {
      {ToolChoice::kAuto, false, thought + call, true},
      {ToolChoice::kAuto, false, comment + call, true},
      {ToolChoice::kAuto, false, comment + "final<|message|>b", true},
      {ToolChoice::kAuto, true, thought + "final<|message|>12", true},
      {ToolChoice::kAuto, true, comment + "final<|message|>12", false},
      {ToolChoice::kAuto, true, comment + call, false},
      {ToolChoice::kRequired, false, thought + call, true},
      {ToolChoice::kRequired, false, comment + call, false},
  };
  for (const Case& c : cases) {
    AnswerRequest request;
    request.tools = {tool_of(kCity)};
    request.choice = c.choice;
    if (c.has_form) request.content = form;
    const AnswerPlan made = AnswerPlan::create(format, request).value();
    const auto grammar = grammar::Grammar::from_structure(Json::parse(made.structure())).value();
    EXPECT_EQ(grammar::test::accepts(grammar::test::matcher_of(grammar), format.marked(c.text)),
              c.in)
        << fmt::format("{} {} {}", static_cast<int>(c.choice), c.has_form, c.text);
  }
}

TEST(AnswerPlan, RefusesWhatAFormatCannotHold) {
  struct Case {
    std::string row, parameters, says;
  };
  const std::vector<Case> cases = {
      {"hermes", R"({"type":"string"})", "tool \"f\": #/type"},
      {"glm", R"({"anyOf":[{"type":"object"}]})", "tool \"f\": #/anyOf"},
      {"glm", R"({"type":"object","properties":{},"minProperties":1})", "#/minProperties"},
      {"glm", R"({"type":"object","properties":{"a":{}},"required":["b"]})", "#/required"},
      {"glm", R"({"type":"object","properties":{"a<b":{}}})", "#/properties/a<b"},
      {"pythonic", R"({"type":"object","properties":{"a-b":{}}})", "#/properties/a-b"},
  };
  for (const Case& c : cases) {
    const auto made = plan(format_of(c.row), c.parameters);
    ASSERT_FALSE(made.has_value()) << c.parameters;
    EXPECT_THAT(made.error().message, HasSubstr(c.says));
  }
  EXPECT_TRUE(plan(format_of("glm"), R"({"$ref":"#/$defs/a","$defs":{"a":{"type":"object",
      "properties":{"x":{"$ref":"#/$defs/b"}}},"b":{"type":"integer"}}})")
                  .has_value());
  // Not strict: what cannot be kept is left out.
  const std::string loose =
      R"({"type":"object","properties":{"a":{"type":"integer","multipleOf":3}},"minProperties":1})";
  for (const char* row : {"hermes", "glm"}) {
    const auto made = plan(format_of(row), loose, ToolChoice::kAuto, false);
    ASSERT_TRUE(made.has_value()) << made.error().message;
    EXPECT_TRUE(grammar::Grammar::from_structure(Json::parse(made->structure())).has_value());
  }
  AnswerRequest no_tool;
  no_tool.choice = ToolChoice::kRequired;
  EXPECT_FALSE(AnswerPlan::create(format_of("hermes"), no_tool));
  AnswerRequest both;
  both.tools = {tool_of(kCity)};
  both.choice = ToolChoice::kAuto;
  both.content = ContentForm{ContentForm::Kind::kJsonObject, ""};
  EXPECT_TRUE(AnswerPlan::create(format_of("hermes"), both));
  EXPECT_FALSE(AnswerPlan::create(format_of("llama"), both));
}

// As generators of schemas write them: where a schema is not strict, arguments are an object.
TEST(AnswerPlan, TakesSchemasOfClients) {
  const std::string call = "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>";
  for (const std::string type :
       {R"(["object","null"])", "null", R"("any")", R"("OBJECT")", R"(["OBJECT","NULL"])"}) {
    const std::string parameters =
        fmt::format(R"({{"type":{},"properties":{{"a":{{"type":"STRING","maxLength":30000}},)"
                    R"("b":{{"type":"float","minimum":0,"exclusiveMinimum":true}},)"
                    R"("c":{{"required":true,"enum":[]}},)"
                    R"("d":{{"type":"array","items":{{"type":"string"}},"maxItems":100000}},)"
                    R"("e":{{"type":"array","items":null,"minItems":null}}}},"required":null}})",
                    type);
    for (const char* row : {"hermes", "glm", "pythonic", "minimax-m3", "deepseek-v4"}) {
      const auto made = plan(format_of(row), parameters, ToolChoice::kRequired, false);
      ASSERT_TRUE(made.has_value()) << parameters << ": " << made.error().message;
      const auto grammar = grammar::Grammar::from_structure(Json::parse(made->structure()));
      ASSERT_TRUE(grammar) << row << " " << parameters << ": " << grammar.error().message;
      EXPECT_THAT(grammar->left_out(), testing::Contains(HasSubstr("#/properties/a/maxLength")));
      if (row != std::string("hermes")) continue;
      const grammar::Matcher matcher = grammar::test::matcher_of(*grammar);
      EXPECT_TRUE(grammar::test::accepts(matcher, call)) << parameters;
      EXPECT_FALSE(grammar::test::accepts(
          matcher, "<tool_call>\n{\"name\": \"f\", \"arguments\": null}\n</tool_call>"));
    }
    EXPECT_FALSE(plan(format_of("hermes"), parameters)) << parameters;
  }
}

// Where a string may be any text, JSON is such a text.
TEST(AnswerPlan, TakesParametersOfStringsAndContainers) {
  for (const char* schema :
       {"{}", R"({"type":["string","object"]})",
        R"({"anyOf":[{"type":"string"},{"type":"array","items":{"type":"string"}}]})",
        R"({"oneOf":[{"$ref":"#/$defs/s"},{"type":"array"}]})"}) {
    const std::string parameters = fmt::format(
        R"({{"type":"object","properties":{{"a":{}}},"$defs":{{"s":{{"type":"string"}}}}}})",
        schema);
    for (const char* row : {"glm", "qwen3-coder", "minimax-m3"}) {
      const auto made = plan(format_of(row), parameters, ToolChoice::kRequired, false);
      ASSERT_TRUE(made.has_value()) << parameters << ": " << made.error().message;
      const auto grammar = grammar::Grammar::from_structure(Json::parse(made->structure()));
      EXPECT_TRUE(grammar) << row << " " << parameters << ": " << grammar.error().message;
    }
  }
  const Json document = Json::object();
  for (const char* schema :
       {"false", "3", R"({"type":"integer"})", R"({"enum":["a",[]]})", R"({"maxLength":3})",
        R"({"anyOf":[{"pattern":"a"},{"type":"array"}]})", R"({"$ref":"#/none"})"}) {
    EXPECT_FALSE(takes_any_string(document, Json::parse(schema))) << schema;
  }
}

TEST(AnswerReader, ReadsWhatIsOfNoLanguageAsContent) {
  struct Case {
    std::string row, text, content, arguments;
    bool ended = true;
  };
  const std::string open = "<tool_call>\n{\"name\": \"f\", \"arguments\": ";
  const std::vector<Case> cases = {
      // White space is as it may be; what is no call stays.
      {"hermes", "a <tool_call>{\"name\":\"f\",\"arguments\":{\"city\":\"x\"}}</tool_call> b", "ab",
       R"({"city":"x"})"},
      {"hermes", "a <tool_call> b", "a <tool_call> b", ""},
      {"hermes", "<tool_call>\n{\"name\": \"g\", ", "<tool_call>\n{\"name\": \"g\", ", ""},
      {"hermes", open + "{\"city\": \"</tool_call>", "", "{\"city\": \"</tool_call>", false},
      {"hermes", open + "{}}", "", "{}", false},
      {"hermes", open + "12}\n</tool_call>b", "12}\n</tool_call>b", "", false},
      {"hermes", "<tool", "<tool", ""},
      {"hermes", "a \n\n", "a \n\n", ""},
      // Parameters in any order, others too, values that are of no type.
      {"glm",
       "<tool_call>f\n<arg_key>days</arg_key> <arg_value>7</arg_value>"
       "<arg_key>city</arg_key>\n<arg_value>1</arg_value></tool_call>",
       "", R"({"days":7,"city":"1"})"},
      {"glm",
       "<tool_call>f\n<arg_key>days</arg_key>\n<arg_value>a \"week\"</arg_value>\n"
       "<arg_key>x</arg_key>\n<arg_value>[1]</arg_value>\n</tool_call>",
       "", R"({"days":"a \"week\"","x":[1]})"},
      {"glm", "<tool_call>f</tool_call>", "", "{}"},
      {"glm", "<tool_call>fg</tool_call>", "<tool_call>fg</tool_call>", ""},
      {"glm", "<tool_call>f\n<arg_key>city</arg_key>\n<arg_value>Ul", "", R"({"city":"Ul)", false},
      {"glm", "<tool_call>f\noops", "oops", "", false},
      {"qwen3-coder",
       "<tool_call>\n<function=f>\n<parameter=city>\n\n "
       "a\n\n</parameter>\n</function>\n</tool_call>",
       "", R"({"city":"\n a\n"})"},
      {"qwen3-coder",
       "<tool_call>\n<function=f>\n<parameter=city>a</parameter></function></tool_call>", "",
       R"({"city":"a"})"},
      // Python's own spellings.
      {"pythonic", "[f(city='it\\'s \"so\"\\x41', days=None)]", "",
       R"({"city":"it's \"so\"\u0041","days":null})"},
      {"pythonic", "[f( city = \"a,)\\n\", days=[1, (True, {'a': False})], )]", "",
       R"({"city":"a,)\n","days":[1,[true,{"a":false}]]})"},
      {"pythonic", "[f(city=foo)]", "", R"({"city":"foo"})"},
      {"pythonic", "[1, 2]", "[1, 2]", ""},
      // Elements of no schema, and white space between them; strings hold whatever they hold.
      {"minimax-m3",
       "]<]minimax[>[<tool_call>]<]minimax[>[<invoke name=\"f\">\n]<]minimax[>[<days>a week"
       "]<]minimax[>[</days>]<]minimax[>[<city>]<]minimax[>[<x>1]<]minimax[>[</x>]<]minimax[>["
       "</city>\n]<]minimax[>[<z>]<]minimax[>[<item>[1]]<]minimax[>[</item>]<]minimax[>[</z>"
       "]<]minimax[>[</invoke>]<]minimax[>[</tool_call>",
       "", R"({"days":"a week","city":"]<]minimax[>[<x>1]<]minimax[>[</x>","z":[[1]]})"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.row + ": " + c.text);
    const AnswerPlan made = plan(format_of(c.row), kCity).value();
    const Read whole = test::read(made, c.text, {1U << 20U});
    EXPECT_EQ(whole.content, c.content);
    ASSERT_EQ(whole.calls.size(), c.arguments.empty() && c.ended ? 0U : 1U);
    if (!whole.calls.empty()) {
      EXPECT_EQ(whole.calls[0].arguments, c.arguments);
      EXPECT_EQ(whole.calls[0].ended, c.ended);
    }
    for (std::size_t size = 1; size < 9; ++size) {
      EXPECT_EQ(test::read(made, c.text, {size}), whole);
    }
  }
}

TEST(AnswerReader, KnowsControlTokensFromTheirSpelling) {
  const DialogFormat& format = format_of("mistral", true);
  const AnswerPlan made = plan(format, kCity).value();
  EXPECT_TRUE(made.marks());
  const auto token = [](const std::string& text) { return grammar::control_token(text); };
  Read read = test::read(made, "[TOOL_CALLS]f[ARGS]{}" + token("<pad>") + "b", {1});
  EXPECT_EQ(read.content, "[TOOL_CALLS]f[ARGS]{}b");
  EXPECT_TRUE(read.calls.empty());
  read =
      test::read(made,
                 token("[THINK]") + "a" + token("<pad>") + token("[/THINK]") + "b" +
                     token("[TOOL_CALLS]") + "f" + token("[ARGS]") + "{\"city\":" + token("<pad>") +
                     "\"x\"}" + token("[TOOL_CALLS]") + "f" + token("[ARGS]") + "{}",
                 {1});
  EXPECT_EQ(read.reasoning, "a");
  EXPECT_EQ(read.content, "b");
  ASSERT_EQ(read.calls.size(), 2U);
  EXPECT_EQ(read.calls[0].arguments, "{\"city\":\"x\"}");
  EXPECT_EQ(read.calls[1].arguments, "{}");
}

TEST(AnswerReader, ReadsNamesWithoutQuotes) {
  const AnswerPlan made = plan(format_of("gemma", true), kCity).value();
  const auto token = [](const std::string& text) { return grammar::control_token(text); };
  const std::string quote = token("<|\"|>");
  const std::string text = "so" + token("<|tool_call>") + "call:f{ city:" + quote + "a}:,\"\n" +
                           quote + ", days : 7 ,x:{y:[" + quote + quote + ",None,true,foo," +
                           token("<pad>") + "-1.5],z:{}} }" + token("<tool_call|>");
  const Read whole = test::read(made, text, {1U << 20U});
  EXPECT_EQ(whole.content, "so");
  ASSERT_EQ(whole.calls.size(), 1U);
  EXPECT_EQ(whole.calls[0].arguments,
            R"({"city":"a}:,\"\n","days":7,"x":{"y":["",null,true,"foo",-1.5],"z":{}}})");
  EXPECT_TRUE(whole.calls[0].ended);
  for (std::size_t size = 1; size < 9; ++size) EXPECT_EQ(test::read(made, text, {size}), whole);
}

// A message whose header never ends is content; the next one has its own.
TEST(AnswerReader, ComesPastAHeaderWithoutEnd) {
  const AnswerPlan made = plan(format_of("harmony", true), kCity).value();
  const std::string start = grammar::control_token("<|start|>");
  const std::string text = std::string(2000, 'a') + start + std::string(2000, 'b');
  EXPECT_EQ(test::read(made, text, {1U << 20U}).content,
            std::string(2000, 'a') + std::string(2000, 'b'));
}

// Bytes that never make up anything cost no more, the more there are: minutes, if each was looked
// at again with those ahead of it.
TEST(AnswerReader, TakesTimeInProportion) {
  const std::size_t size = 60000;
  for (const char* row : {"hermes", "glm", "pythonic", "minimax-m3"}) {
    for (const std::string& begin :
         {std::string(), std::string("<tool_call>"), std::string("<tool_call>f\n"),
          std::string("<tool_call>f\n<arg_key>"), std::string("[f("), std::string("[f(city="),
          std::string("<tool_call>f\n<arg_key>city</arg_key><arg_value>"),
          std::string("<tool_call>{\"name\":\"f\",\"arguments\":"), std::string("<think>"),
          std::string(
              "]<]minimax[>[<tool_call>]<]minimax[>[<invoke name=\"f\">]<]minimax[>[<city>")}) {
      for (const char filler : {' ', '<', 'a', '{', '\xff'}) {
        const AnswerPlan made = plan(format_of(row), kCity).value();
        AnswerReader reader(made);
        reader.feed(begin);
        for (std::size_t i = 0; i < size; ++i) reader.feed({&filler, 1});
        reader.finish();
      }
    }
  }
}

TEST(Parameters, KnowsWhetherValuesAreStrings) {
  struct Case {
    std::string schema;
    Strings strings;
  };
  const std::vector<Case> cases = {
      {R"({"type":"string"})", Strings::kOnly},
      {R"({"type":["string","null"]})", Strings::kSome},
      {R"({"type":"integer"})", Strings::kNone},
      {R"({"enum":["a","b"]})", Strings::kOnly},
      {R"({"enum":["a",1]})", Strings::kSome},
      {R"({"const":true})", Strings::kNone},
      {R"({"pattern":"a"})", Strings::kOnly},
      {R"({"properties":{}})", Strings::kNone},
      {R"({})", Strings::kSome},
      {R"({"type":"float"})", Strings::kSome},
      {R"({"type":"float","minimum":1})", Strings::kNone},
      {R"({"type":null,"enum":[],"anyOf":null,"minimum":null,"required":true})", Strings::kSome},
      {R"({"$ref":"#/$defs/s"})", Strings::kOnly},
      {R"({"anyOf":[{"$ref":"#/$defs/s"},{"type":"null"}]})", Strings::kSome},
      {R"({"allOf":[{"type":["string","null"]},{"enum":["a",1]},{"type":"string"}]})",
       Strings::kOnly},
  };
  const Json document = Json::parse(R"({"$defs":{"s":{"type":"string"}}})");
  for (const Case& c : cases) {
    EXPECT_EQ(strings_of(document, Json::parse(c.schema)), c.strings) << c.schema;
  }
  const Json range = Json::parse(R"({"type":["integer","string"],"minimum":5})");
  EXPECT_TRUE(is_other_value(range, range, "7"));
  for (const char* text : {"4", "\"7\"", "x", "7.5", "", "[7]"}) {
    EXPECT_FALSE(is_other_value(range, range, text)) << text;
  }
  const Json draft_4 = Json::parse(R"({"minimum":5,"exclusiveMinimum":true})");
  EXPECT_TRUE(is_other_value(draft_4, draft_4, "6"));
  EXPECT_FALSE(is_other_value(draft_4, draft_4, "5"));
  const Json nulls = Json::parse(R"({"type":"float","enum":null,"minItems":null})");
  EXPECT_TRUE(is_other_value(nulls, nulls, "[6]"));
}

}  // namespace
}  // namespace dovetail::dialog
