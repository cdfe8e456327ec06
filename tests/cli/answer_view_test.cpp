#include "cli/answer_view.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "dialog/format.h"

namespace dovetail::cli {
namespace {

constexpr ChatLook kColours = {true, true, true}, kPlainTerminal = {true, true, false}, kPiped = {};

// Of a model that thinks between <think> and </think>.
dialog::AnswerPlan thinking(bool opened = false) {
  const auto render = [](const Json&) -> Result<std::string> { return std::string("text"); };
  const auto format = dialog::DialogFormat::detect({"<think></think>", render, {}});
  dialog::AnswerRequest asked;
  asked.reasoning_opened = opened;
  return dialog::AnswerPlan::create(format, std::move(asked)).value();
}

struct Shown {
  std::string out, content, reasoning;
};

Shown show(std::string_view text, const ChatLook& look,
           const std::optional<dialog::AnswerPlan>& plan, std::size_t piece) {
  AnswerView view(plan, look);
  Shown shown;
  for (std::size_t at = 0; at < text.size(); at += piece)
    view.push(text.substr(at, piece), shown.out);
  view.finish(shown.out);
  shown.content = view.content();
  shown.reasoning = view.reasoning();
  return shown;
}

TEST(AnswerView, DimsReasoning) {
  constexpr std::string_view kText = "<think>\nOne and one.\n</think>\n\nIt is **2**.";
  for (const std::size_t piece : {std::size_t{1}, std::size_t{3}, kText.size()}) {
    const Shown coloured = show(kText, kColours, thinking(), piece);
    EXPECT_EQ(coloured.out, "\x1b[2mOne and one.\x1b[0m\n\nIt is \x1b[0;1m**2**\x1b[0m.");
    EXPECT_EQ(coloured.content, "It is **2**.");
    EXPECT_EQ(coloured.reasoning, "One and one.");
    EXPECT_EQ(show(kText, kPlainTerminal, thinking(), piece).out,
              "[reasoning]\nOne and one.\n\n[answer]\nIt is **2**.");
    const Shown piped = show(kText, kPiped, thinking(), piece);
    EXPECT_EQ(piped.out, "It is **2**.");
    EXPECT_EQ(piped.reasoning, "One and one.");
  }
}

TEST(AnswerView, ReasoningThatThePromptOpensMayBeCut) {
  const Shown cut = show("One and", kColours, thinking(true), 4);
  EXPECT_EQ(cut.out, "\x1b[2mOne and\x1b[0m");
  EXPECT_EQ(cut.content, "");
  EXPECT_EQ(show("a</think>b", kColours, thinking(true), 1).out, "\x1b[2ma\x1b[0m\n\nb");
  EXPECT_EQ(show("<think>a</think>b", kPiped, std::nullopt, 1).out, "<think>a</think>b");
}

TEST(AnswerView, ATerminalGetsNoControlCharacters) {
  constexpr std::string_view kText = "<think>\x1b[2J</think>a\x1b]0;title\a\u202E`\x1b[8m`";
  const std::string shown = show(kText, kColours, thinking(), kText.size()).out;
  EXPECT_EQ(shown, "\x1b[2m␛[2J\x1b[0m\n\na␛]0;title␇<U+202E>\x1b[0;36m`␛[8m`\x1b[0m");
  const Shown plain = show(kText, kPlainTerminal, thinking(), kText.size());
  EXPECT_EQ(plain.out.find('\x1b'), std::string::npos);
  // What is remembered is what the model said.
  EXPECT_EQ(plain.content, "a\x1b]0;title\a\u202E`\x1b[8m`");
  EXPECT_EQ(show(kText, kPiped, thinking(), kText.size()).out, plain.content);
}

}  // namespace
}  // namespace dovetail::cli
