#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>
#include <vector>

#include "pipeline/columns/one_column.h"
#include "pipeline/run/column_work.h"

namespace dovetail::pipeline {
namespace {

const Json kRow = {{"a", "A"}, {"b", 2}};

std::string shown_messages(const ModelRequest& request) {
  std::string text;
  for (const ModelMessage& message : request.messages) {
    text += message.role + "|" + message.content + "\n";
  }
  return text;
}

TEST(MakeRequest, RendersPromptsAndMessages) {
  const std::tuple<std::string, std::string> cases[] = {
      {"type: llm-text, model: m, prompt: 'q {{ a }}'", "user|q A\n"},
      {"type: llm-text, model: m, prompt: 'q {{ a }}', system_prompt: 'be {{ b }}'",
       "system|be 2\nuser|q A\n"},
      {"type: llm-text, model: m, messages: [{role: system, content: s}, {role: user, content: u}, "
       "{role: assistant, content: '{{ a }}'}, {role: user, content: v}]",
       "system|s\nuser|u\nassistant|A\nuser|v\n"},
      {"type: llm-code, model: m, prompt: x, language: sql",
       "user|x\n\nAnswer with one fenced code block in sql.\n"},
      {"type: llm-code, model: m, prompt: x, language: sql, instructions: false", "user|x\n"},
      {"type: llm-structured, model: m, prompt: x, schema: {type: integer}",
       "user|x\n\nAnswer with nothing but JSON that fits this JSON "
       "schema:\n{\"type\":\"integer\"}\n"},
      {"type: llm-judge, model: m, prompt: x, rubrics: [{name: r, description: d, options: {1: no, "
       "2: yes}}]",
       "user|x\n\nJudge by these rubrics:\n\nr: d\n  1: no\n  2: yes\n\nAnswer with nothing but a "
       "JSON object: {\"r\": {\"reasoning\": \"...\", \"score\": one of 1, 2}}\n"},
      {"type: llm-judge, model: m, prompt: x, answer: option, rubrics: [{name: r, options: [1]}]",
       "user|x\n"},
      {"type: llm-judge, model: m, prompt: x, answer: option, instructions: true, rubrics: [{name: "
       "r, options: [1, 2]}]",
       "user|x\n\nAnswer with nothing but one of 1, 2.\n"},
  };
  for (const auto& [fields, messages] : cases) {
    const auto request = make_request(one_column(fields), kRow, 7);
    ASSERT_TRUE(request) << request.error().message;
    EXPECT_EQ(shown_messages(*request), messages) << fields;
    EXPECT_EQ(request->seed, 7U);
    EXPECT_TRUE(request->prompt.empty());
  }
}

TEST(MakeRequest, LeavesAPromptWithoutChatAsItIs) {
  const auto request = make_request(
      one_column("type: llm-text, model: m, chat: false, prompt: 'q {{ a }}'"), kRow, 0);
  ASSERT_TRUE(request);
  EXPECT_TRUE(request->messages.empty());
  EXPECT_EQ(request->prompt, "q A");
}

// What the author of a pipeline wrote, and it alone, may hold control tokens.
TEST(MakeRequest, TrustsWhatTheAuthorWrote) {
  const auto trusted = [](const std::string& fields, std::span<const FailedAttempt> failed = {}) {
    const auto request = make_request(one_column(fields), kRow, 0, failed);
    if (!request) return request.error().message;
    std::string text;
    for (const ModelMessage& message : request->messages) {
      for (const text::ByteSpan& span : message.trusted) {
        text += "[" + message.content.substr(span.begin, span.end - span.begin) + "]";
      }
      text += ";";
    }
    return text;
  };
  EXPECT_EQ(trusted("type: llm-text, model: m, prompt: 'q {{ a }} r', system_prompt: '{{ a }}s'"),
            "[s];[q ][ r];");
  EXPECT_EQ(trusted("type: llm-text, model: m, prompt: '{{ a }}{{ b }}'"), "[2];");
  EXPECT_EQ(trusted("type: llm-text, model: m, prompt: '{{ [b, a] }}'"), ";");
  EXPECT_EQ(trusted("type: llm-judge, model: m, answer: option, instructions: true, prompt: "
                    "'judge {{ a }}', rubrics: [{name: r, options: [1, 2]}]"),
            "[judge ][\n\nAnswer with nothing but one of 1, 2.];");
  const FailedAttempt failed[] = {{"one", "no"}};
  EXPECT_EQ(trusted("type: llm-structured, model: m, prompt: q, instructions: false, corrections: "
                    "2, schema: {type: integer}",
                    failed),
            "[q];;;");
}

TEST(MakeRequest, HasTheSchemaOfTheAnswer) {
  const std::tuple<std::string, std::string> cases[] = {
      {"type: llm-text, model: m, prompt: x", "null"},
      {"type: llm-structured, model: m, prompt: x, schema: {type: integer}",
       R"({"type":"integer"})"},
      {"type: llm-judge, model: m, prompt: x, rubrics: [{name: r, options: [b, a]}]",
       R"({"type":"object","properties":{"r":{"type":"object","properties":{"reasoning":)"
       R"({"type":"string"},"score":{"enum":["b","a"]}},"required":["reasoning","score"],)"
       R"("additionalProperties":false}},"required":["r"],"additionalProperties":false})"},
      {"type: llm-judge, model: m, prompt: x, answer: option, rubrics: [{name: r, options: [1]}]",
       "null"},
  };
  for (const auto& [fields, schema] : cases) {
    const auto request = make_request(one_column(fields), kRow, 0);
    ASSERT_TRUE(request);
    EXPECT_EQ(request->schema.dump(), schema);
  }
}

TEST(MakeRequest, HasThePatternOfAnAnswerThatIsAnOption) {
  const std::tuple<std::string, std::string, std::uint32_t> cases[] = {
      {"type: llm-text, model: m, prompt: x", "", 0},
      {"type: llm-judge, model: m, prompt: x, rubrics: [{name: r, options: [1, a]}]", "", 0},
      {"type: llm-judge, model: m, prompt: x, answer: option, rubrics: [{name: r, options: [1, 10, "
       "true, 'a.b|c']}]",
       "[ \\n]{0,2}(?:1|10|true|a\\.b\\|c)", 7},
  };
  for (const auto& [fields, regex, bytes] : cases) {
    const auto request = make_request(one_column(fields), kRow, 0);
    ASSERT_TRUE(request);
    EXPECT_EQ(request->pattern.regex, regex);
    EXPECT_EQ(request->pattern.bytes, bytes);
  }
}

TEST(MakeRequest, CorrectsInFurtherTurns) {
  const ColumnDescription column = one_column(
      "type: llm-structured, model: m, prompt: q, instructions: false, corrections: 2, retries: 1, "
      "schema: {type: integer}");
  std::vector<FailedAttempt> failed;
  std::vector<std::string> asked;
  const auto ask = [&] { return shown_messages(make_request(column, kRow, 0, failed).value()); };
  const std::string first =
      "user|q\nassistant|one\nuser|This answer cannot be used: no\nAnswer again, with nothing but "
      "the corrected JSON.\n";
  EXPECT_EQ(ask(), "user|q\n");
  failed.push_back({"one", "no"});
  EXPECT_EQ(ask(), first);
  failed.push_back({"two", "still"});
  EXPECT_EQ(ask(), first +
                       "assistant|two\nuser|This answer cannot be used: still\nAnswer again, "
                       "with nothing but the corrected JSON.\n");
  failed.push_back({"three", "never"});
  EXPECT_EQ(ask(), "user|q\n") << "a fresh answer";
  failed.push_back({std::nullopt, "timeout"});
  EXPECT_FALSE(may_ask_again(column, failed)) << "the second fresh one came to nothing";
  EXPECT_EQ(make_request(column, kRow, 0, failed).error().kind, ErrorKind::kInternal);
}

TEST(MakeRequest, HasAsManyAttemptsAsTheColumnSays) {
  EXPECT_TRUE(rc::check([] {
    ColumnDescription column = one_column("type: llm-code, model: m, prompt: q, language: c");
    column.retries = *rc::gen::inRange(0U, 4U);
    column.corrections = *rc::gen::inRange(0U, 4U);
    std::vector<FailedAttempt> failed;
    std::uint32_t fresh = 0, most_turns = 0;
    while (may_ask_again(column, failed)) {
      const auto request = make_request(column, kRow, 0, failed);
      RC_ASSERT(request.has_value());
      // The question, and two turns for each answer that is corrected: those just before.
      RC_ASSERT(request->messages.size() % 2 == 1);
      const std::size_t turns = request->messages.size() / 2;
      if (turns == 0) ++fresh;
      most_turns = std::max(most_turns, static_cast<std::uint32_t>(turns));
      for (std::size_t i = 0; i < turns; ++i) {
        RC_ASSERT(failed[failed.size() - turns + i].answer == request->messages[1 + 2 * i].content);
      }
      const bool answered = *rc::gen::arbitrary<bool>();
      failed.push_back(
          {answered ? std::optional(std::to_string(failed.size())) : std::nullopt, ""});
    }
    RC_ASSERT(fresh == 1 + column.retries);
    RC_ASSERT(most_turns <= column.corrections);
    RC_ASSERT(failed.size() <= (1 + column.retries) * (1 + column.corrections));
  }));
}

TEST(IsSkipped, ReadsTheTemplate) {
  const std::tuple<std::string, bool> cases[] = {
      {"type: expression, value: x", false},
      {"type: expression, value: x, skip_if: '{{ b > 1 }}'", true},
      {"type: expression, value: x, skip_if: '{{ b > 2 }}'", false},
      {"type: expression, value: x, skip_if: ' true '", true},
      {"type: expression, value: x, skip_if: '{{ a }}'", false},
  };
  for (const auto& [fields, skipped] : cases) {
    EXPECT_EQ(is_skipped(one_column(fields), kRow).value(), skipped) << fields;
  }
}

}  // namespace
}  // namespace dovetail::pipeline
