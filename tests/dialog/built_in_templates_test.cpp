// The templates that come with the program, as the readers and the tokens see them.
#include "text/built_in_templates.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "dialog/families.h"
#include "dialog/random_calls.h"
#include "dialog/small_tokenizer.h"
#include "text/chat_template.h"

namespace dovetail::dialog {
namespace {

using test::Random;
using test::Read;

constexpr std::string_view kEnd = "<｜end▁of▁sentence｜>";

std::vector<test::Family> built_in_families() {
  std::vector<test::Family> out;
  for (const test::Family& family : test::families())
    if (!family.built_in.empty()) out.push_back(family);
  return out;
}

TEST(BuiltInDialogs, EachIsAFamilyOfTheTests) {
  std::set<std::string, std::less<>> tested;
  for (const test::Family& family : built_in_families()) tested.insert(family.built_in);
  for (const text::BuiltInTemplate& row : text::built_in_templates())
    EXPECT_TRUE(tested.contains(row.name)) << row.name;
}

Json listed(const std::vector<Tool>& tools) {
  Json out = Json::array();
  for (const Tool& tool : tools) {
    out.push_back({{"type", "function"},
                   {"function",
                    {{"name", tool.name},
                     {"description", tool.description},
                     {"parameters", tool.parameters}}}});
  }
  return out;
}

text::MarkedText rendered(const text::ChatTemplate& program, const DialogFormat& format,
                          Json variables, const Json& tools) {
  variables["add_generation_prompt"] = true;
  const auto contents = format.prepare(variables, tools);
  const auto text = program.render_chat(variables, {}, contents);
  EXPECT_TRUE(text.has_value()) << text.error().message;
  return text ? *text : text::MarkedText();
}

// What stands in a prompt from `begin` to `end`, with marks at control tokens where these are such
// if `marks`, which nothing from outside is.
std::string answer_in(const text::MarkedText& prompt, std::size_t begin, std::size_t end,
                      const DialogFormat& format, bool marks) {
  const std::string_view text = std::string_view(prompt.text).substr(0, end);
  if (!marks) return std::string(text.substr(begin));
  std::string out;
  for (const text::ByteSpan& span : prompt.untrusted) {
    if (span.end <= begin || span.begin >= end) continue;
    out += format.marked(text.substr(begin, span.begin - begin));
    out += text.substr(span.begin, span.end - span.begin);
    begin = span.end;
  }
  return out + format.marked(text.substr(begin));
}

// What the template writes of an answer in a history is what a model writes: the reader gives its
// reasoning, content and calls back, wherever the text is cut.
TEST(BuiltInDialogs, ReadBackWhatTheyWrite) {
  for (const test::Family& family : built_in_families()) {
    const DialogFormat format = test::detect(family);
    ASSERT_TRUE(format.native()) << family.built_in << ": " << format.description();
    const auto program = text::ChatTemplate::parse(test::template_of(family));
    std::size_t calls_read = 0;
    std::size_t reasoned = 0;
    for (std::uint32_t seed = 0; seed < 200; ++seed) {
      SCOPED_TRACE(fmt::format("{} {}", family.built_in, seed));
      Random random(seed);
      const std::vector<Tool> tools = test::random_tools(random);
      const bool thinks = family.built_in != "deepseek-v3.1" && random.one_in(2);
      Read wanted;
      if (random.one_in(2)) wanted.content = "Well <b>, é";
      if (thinks) wanted.reasoning = "so a\n <x> b";
      Json calls = Json::array();
      for (std::size_t i = random.below(4); i > 0; --i) {
        const Tool& tool = random.of(tools);
        const Json arguments = test::random_arguments(random, tool);
        calls.push_back({{"id", fmt::format("id{}", i)},
                         {"type", "function"},
                         {"function", {{"name", tool.name}, {"arguments", arguments.dump()}}}});
        wanted.calls.push_back(
            {.name = tool.name, .arguments = arguments.dump(), .id = "", .ended = true});
      }
      Json variables = {{"thinking", thinks},
                        {"messages", Json::array({{{"role", "user"}, {"content", "q"}}})}};
      const std::string prompt = rendered(*program, format, variables, listed(tools)).text;
      ASSERT_EQ(format.opens_reasoning(prompt), thinks);
      Json answer = {{"role", "assistant"},
                     {"content", wanted.content},
                     {"reasoning_content", "so a\n <x> b"}};
      if (!calls.empty()) answer["tool_calls"] = calls;
      variables["messages"].push_back(answer);
      for (const Json& call : calls) {
        variables["messages"].push_back(
            {{"role", "tool"}, {"tool_call_id", call["id"]}, {"content", "r"}});
      }
      const text::MarkedText whole = rendered(*program, format, variables, listed(tools));
      ASSERT_TRUE(whole.text.starts_with(prompt)) << whole.text;
      const std::size_t end = whole.text.find(kEnd, prompt.size());
      ASSERT_NE(end, std::string::npos) << whole.text;

      AnswerRequest request;
      request.tools = tools;
      request.choice = ToolChoice::kAuto;
      request.reasoning_opened = thinks;
      const auto plan = AnswerPlan::create(format, std::move(request));
      ASSERT_TRUE(plan.has_value()) << plan.error().message;
      const std::string text = answer_in(whole, prompt.size(), end, format, plan->marks());
      Read read = test::read(*plan, text, {text.size() + 1});
      EXPECT_EQ(test::read(*plan, text, {1}), read);
      EXPECT_EQ(test::read(*plan, text, {1 + random.below(9), 1 + random.below(30)}), read);
      for (Read::Call& call : read.calls) {
        const Json value = Json::parse(call.arguments, nullptr, false);
        if (!value.is_discarded()) call.arguments = value.dump();
      }
      ASSERT_EQ(read, wanted) << text;
      calls_read += read.calls.size();
      reasoned += thinks ? 1 : 0;
    }
    EXPECT_GT(calls_read, 100U);
    EXPECT_EQ(reasoned > 50, family.built_in != "deepseek-v3.1");
  }
}

// Whatever the contents of messages, calls, results and tools spell, a prompt has the control
// tokens that the template writes, and no more.
TEST(BuiltInDialogs, HaveNoControlTokensFromOutside) {
  for (const test::Family& family : built_in_families()) {
    if (family.control_tokens.empty()) continue;
    SCOPED_TRACE(family.built_in);
    const DialogFormat format = test::detect(family);
    const auto program = text::ChatTemplate::parse(test::template_of(family));
    const text::Tokenizer tokenizer = test::characters_and(family.control_tokens);
    std::string all;
    for (const std::string& token : family.control_tokens) all += token;
    const auto control_tokens_of = [&](const std::string& outside, bool thinks) {
      const auto message = [&](const char* role) -> Json {
        return {{"role", role}, {"content", "m" + outside}};
      };
      Json answer = message("assistant");
      answer["reasoning_content"] = outside;
      answer["tool_calls"] = Json::array(
          {{{"id", outside},
            {"function",
             {{"name", "f" + outside},
              {"arguments", Json({{"a", outside}, {"b" + outside, {outside}}}).dump()}}}}});
      Json result = message("tool");
      result["tool_call_id"] = outside;
      Json variables = {{"thinking", thinks}, {"add_generation_prompt", true}};
      variables["messages"] = Json::array({message("system"), message("developer"), message("user"),
                                           answer, result, message("user"), answer, result});
      const Json tools =
          Json::array({{{"type", "function"},
                        {"function",
                         {{"name", "f" + outside},
                          {"description", outside},
                          {"parameters", {{"type", "object"}, {"title", outside}}}}}}});
      const auto contents = format.prepare(variables, tools);
      const auto prompt = program->render_chat(variables, {}, contents);
      EXPECT_TRUE(prompt.has_value()) << prompt.error().message;
      std::map<std::string, int> counts;
      for (const auto id :
           tokenizer.encode(prompt->text, {.add_special = false, .untrusted = prompt->untrusted})) {
        if (tokenizer.is_special(id)) ++counts[std::string(tokenizer.token_text(id))];
      }
      return counts;
    };
    for (const bool thinks : {false, true}) {
      const auto plain = control_tokens_of("x", thinks);
      EXPECT_EQ(plain.at("<｜User｜>"), family.built_in == "deepseek-v4" ? 3 : 2);
      EXPECT_GE(plain.size(), 4U);
      EXPECT_EQ(control_tokens_of(all, thinks), plain);
    }
  }
}

}  // namespace
}  // namespace dovetail::dialog
