// Dialogs that are longer than the context: which messages stay.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "serve/api_request_fixture.h"

namespace dovetail::serve {
namespace {

using ::testing::HasSubstr;

Json message(const char* role, std::string content) {
  return {{"role", role}, {"content", std::move(content)}};
}

class Truncation : public ApiRequest {
 protected:
  // The prompt of a chat of Ollama's in a context of so many tokens; the error's message.
  std::string prompt(std::uint32_t context, const Json& messages, const Json& more = {}) {
    backend_.model.max_context = context;
    Json body = {{"messages", messages}};
    if (more.is_object()) body.update(more);
    auto generation = read(Endpoint::kOllamaChat, body.dump());
    if (!generation) return generation.error().message;
    ignored_ = generation->ignored.text();
    return prompt_text(generation->requests.front());
  }

  std::string ignored_;
};

// A token is a byte here; with its role a message of a user has 6 more, of an assistant 11.
const Json kThreeTurns = {message("system", "S"),    message("user", "aaaaaaaaaa"),
                          message("assistant", "b"), message("user", "cccccccccc"),
                          message("assistant", "d"), message("user", "eeeeeeeeee")};

TEST_F(Truncation, TheOldestTurnsGo) {
  const std::string system = "[system]S";
  const std::string first = "[user]aaaaaaaaaa[assistant]b";
  const std::string second = "[user]cccccccccc[assistant]d";
  const std::string last = "[user]eeeeeeeeee[assistant]";
  struct Row {
    std::uint32_t context;
    int limit;  // 0: none
    std::string prompt;
    std::string ignored;
  };
  const std::string all = system + first + second + last;
  const auto size = static_cast<std::uint32_t>(all.size());
  const std::string two = "messages (2 left out: longer than the context)";
  const std::string four = "messages (4 left out: longer than the context)";
  const auto shorter = static_cast<std::uint32_t>((system + second + last).size());
  const Row rows[] = {
      // What fits is left as it is, whatever it leaves for the answer.
      {size + 1, 0, all, ""},
      {size, 1, system + second + last, two},
      {shorter + 1, 1, system + second + last, two},
      {shorter, 1, system + last, four},
      // So many tokens of an answer find room, but no more than half of the context has.
      {shorter + 8, 8, system + second + last, two},
      {shorter + 7, 8, system + last, four},
      {2 * shorter, 1000, all, ""},
      {size, 1000, system + last, four},
      // A quarter, where there is no limit.
      {size, 0, system + second + last, two},
      {shorter + 10, 0, system + last, four},
  };
  for (const Row& row : rows) {
    Json more = Json::object();
    if (row.limit > 0) more["options"]["num_predict"] = row.limit;
    EXPECT_EQ(prompt(row.context, kThreeTurns, more), row.prompt) << row.context;
    EXPECT_EQ(ignored_, row.ignored) << row.context;
    more["truncate"] = nullptr;
    EXPECT_EQ(prompt(row.context, kThreeTurns, more), row.prompt);
    more["truncate"] = false;
    const bool fits = row.ignored.empty();
    EXPECT_THAT(prompt(row.context, kThreeTurns, more),
                HasSubstr(fits ? row.prompt : "messages: prompt is too long"));
  }
  EXPECT_THAT(prompt(20, kThreeTurns), HasSubstr("messages: prompt is too long: 36 tokens > 19"));
  EXPECT_THAT(prompt(64, kThreeTurns, {{"truncate", 1}}), HasSubstr("truncate: expected"));
}

TEST_F(Truncation, AResultKeepsItsCall) {
  const Json call = {
      {"role", "assistant"},
      {"content", "x"},
      {"tool_calls", {{{"function", {{"name", "f"}, {"arguments", Json::object()}}}}}}};
  const Json messages = {message("user", "aaaaaaaaaa"), message("assistant", "b"),
                         message("user", "c"), call, message("tool", "dddddddddd")};
  const std::string whole = prompt(4096, messages);
  const std::string last = whole.substr(whole.find("[user]c"));
  EXPECT_EQ(prompt(static_cast<std::uint32_t>(whole.size()), messages), last);
  // There is no later turn, and the last answer stays: the prompt stays too long.
  EXPECT_THAT(prompt(static_cast<std::uint32_t>(last.size()), messages), HasSubstr("too long"));
}

// An agent at work is within one turn: its oldest steps go, the question stays.
TEST_F(Truncation, OfOneTurnTheOldestStepsGo) {
  const auto call = [](const char* name) {
    return Json{{"role", "assistant"},
                {"content", ""},
                {"tool_calls", {{{"function", {{"name", name}, {"arguments", Json::object()}}}}}}};
  };
  const Json messages = {message("system", "S"),
                         message("user", "q"),
                         call("f"),
                         message("tool", "111"),
                         message("tool", "222"),
                         call("g"),
                         message("tool", "333"),
                         call("h"),
                         message("tool", "444")};
  const std::string whole = prompt(4096, messages);
  const std::size_t question = whole.find("[user]q") + 7;
  const std::string fixed = whole.substr(0, question);
  // Behind the question, and behind the first step's two results.
  const std::size_t second = whole.find("[assistant]", whole.find("222"));
  const std::size_t third = whole.find("[assistant]", second + 1);
  const auto one = static_cast<std::uint32_t>(fixed.size() + whole.size() - second);
  const auto two = static_cast<std::uint32_t>(fixed.size() + whole.size() - third);
  const Json limit = {{"options", {{"num_predict", 1}}}};
  EXPECT_EQ(prompt(static_cast<std::uint32_t>(whole.size()), messages, limit),
            fixed + whole.substr(second));
  EXPECT_EQ(ignored_, "messages (3 left out: longer than the context)");
  EXPECT_EQ(prompt(one + 1, messages, limit), fixed + whole.substr(second));
  EXPECT_EQ(prompt(one, messages, limit), fixed + whole.substr(third));
  EXPECT_EQ(ignored_, "messages (5 left out: longer than the context)");
  EXPECT_THAT(prompt(two, messages, limit), HasSubstr("too long"));
}

TEST_F(Truncation, AnAnswerDoesNotShift) {
  const Json hello = Json::array({message("user", "hi")});
  for (const auto& [shift, note] :
       {std::pair{Json(true), "shift"}, {Json(false), ""}, {Json(nullptr), ""}}) {
    prompt(4096, hello, {{"shift", shift}});
    EXPECT_EQ(ignored_, note);
  }
  EXPECT_THAT(prompt(4096, hello, {{"shift", 2}}), HasSubstr("shift: expected"));
}

TEST_F(Truncation, OfResponsesWhereItIsAsked) {
  backend_.model.max_context = 80;
  Json body = {{"instructions", "S"}, {"input", kThreeTurns}, {"max_output_tokens", 4}};
  const auto refused = read(Endpoint::kResponses, body.dump());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().param, "input");
  EXPECT_EQ(refused.error().code, "context_length_exceeded");
  body["truncation"] = "disabled";
  EXPECT_FALSE(read(Endpoint::kResponses, body.dump()));
  body["truncation"] = "auto";
  const auto cut = read(Endpoint::kResponses, body.dump());
  ASSERT_TRUE(cut) << cut.error().message;
  EXPECT_EQ(prompt_text(cut->requests.front()),
            "[system]S[system]S[user]cccccccccc[assistant]d[user]eeeeeeeeee[assistant]");
  EXPECT_EQ(cut->repeated["truncation"], "auto");
  // A later response goes on from all of them.
  EXPECT_EQ(cut->messages.size(), kThreeTurns.size());
  body["truncation"] = "some";
  EXPECT_THAT(read(Endpoint::kResponses, body.dump()).error().message,
              HasSubstr("truncation: expected \"auto\" or \"disabled\", got \"some\""));
}

TEST_F(Truncation, APromptOfOneMessageIsNotCut) {
  backend_.model.max_context = 16;
  for (const char* more : {"", R"(,"truncate":true)", R"(,"raw":true)"}) {
    const auto refused = read(Endpoint::kOllamaGenerate,
                              fmt::format(R"({{"prompt":"abcdefghijklmnopqrst"{}}})", more));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().param, "prompt");
    EXPECT_EQ(refused.error().code, "context_length_exceeded");
  }
}

// What a search over all turns, one by one, would keep; few tries find it.
RC_GTEST_FIXTURE_PROP(Truncation, TheFirstTurnThatLeavesRoomIsKept, ()) {
  constexpr const char* kRoles[] = {"user", "assistant", "system"};
  Json messages = Json::array();
  const int count = *rc::gen::inRange(1, 40);
  for (int i = 0; i < count; ++i)
    messages.push_back(
        message(kRoles[*rc::gen::inRange(0, 3)],
                std::string(*rc::gen::inRange<std::size_t>(0, 12), 'x') + std::to_string(i)));
  const int limit = *rc::gen::inRange(1, 40);
  const auto context = *rc::gen::inRange<std::uint32_t>(100, 500);
  const auto written = [](const Json& kept) {
    std::string text;
    for (const Json& each : kept)
      text += fmt::format("[{}]{}", each["role"].get<std::string>(),
                          each["content"].get<std::string>());
    return text + "[assistant]";
  };
  std::string wanted = written(messages);
  int question = -1;  // the last message of a user
  for (int i = 0; i < count; ++i)
    if (messages[static_cast<std::size_t>(i)]["role"] == "user") question = i;
  if (wanted.size() >= context) {
    for (int i = 1; i < count; ++i) {
      Json kept = Json::array();
      for (int j = 0; j < count; ++j) {
        const Json& each = messages[static_cast<std::size_t>(j)];
        if (j >= i || j == question || each["role"] == "system") kept.push_back(each);
      }
      const char* begin = i <= question ? "user" : "assistant";
      if (messages[static_cast<std::size_t>(i)]["role"] != begin || kept.size() == messages.size())
        continue;
      wanted = written(kept);
      if (wanted.size() + static_cast<std::size_t>(limit) <= context) break;
    }
  }
  int rendered = 0;
  backend_.render_chat = [&rendered, render = backend_.render_chat](
                             const nlohmann::ordered_json& variables,
                             std::span<const text::MarkedText> contents) {
    ++rendered;
    return render(variables, contents);
  };
  const std::string got = prompt(context, messages, {{"options", {{"num_predict", limit}}}});
  if (wanted.size() < context) {
    RC_ASSERT(got == wanted);
  } else {
    RC_ASSERT(got.find(fmt::format("too long: {} tokens", wanted.size())) != std::string::npos);
  }
  RC_ASSERT(rendered <= 8);
}

}  // namespace
}  // namespace dovetail::serve
