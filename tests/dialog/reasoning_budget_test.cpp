// When a budget of reasoning closes it, whatever the tokens are cut from.
#include "dialog/reasoning_budget.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "dialog/families.h"
#include "grammar/vocabulary.h"

namespace dovetail::dialog {
namespace {

// Tokens of a text: its bytes, but for control tokens ("<|x|>"), which are one each.
std::vector<std::string> pieces_of(std::string_view text) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.substr(at).starts_with("<|") ? text.find("|>", at) : text.npos;
    const std::size_t size = end == text.npos ? 1 : end + 2 - at;
    out.emplace_back(text.substr(at, size));
    at += size;
  }
  return out;
}

// Ids of pieces: bytes are their own, control tokens follow.
TokenId id_of(const std::string& piece) {
  static std::vector<std::string> control;
  if (piece.size() == 1) return static_cast<unsigned char>(piece.front());
  auto found = std::ranges::find(control, piece);
  if (found == control.end()) found = control.insert(found, piece);
  return 256 + static_cast<TokenId>(found - control.begin());
}

std::vector<TokenId> encode_pieces(std::string_view text, bool special) {
  std::vector<TokenId> ids;
  if (!special) {
    for (const char byte : text) ids.push_back(static_cast<unsigned char>(byte));
    return ids;
  }
  for (const std::string& piece : pieces_of(text)) ids.push_back(id_of(piece));
  return ids;
}

DialogFormat reasoning_row(const std::string& row, bool reasons = true) {
  for (const test::Family& family : test::families()) {
    if (family.row != row) continue;
    DialogFormat format = test::detect(family);
    if ((format.reasoning() != nullptr) == reasons) return format;
  }
  throw std::runtime_error("no such family");
}

// What a model that wants to write `text` writes: where a token is forced, that one, which may be
// the one that it wanted; where its next one is forbidden, "!".
std::string written(const DialogFormat& format, std::string_view prompt, std::int32_t tokens,
                    const std::string& text, const std::string& message = {}) {
  ReasoningMeter meter(reasoning_budget(format, prompt, {tokens, message}, encode_pieces));
  const std::vector<std::string> wanted = pieces_of(text);
  std::string out;
  for (std::size_t at = 0; at < wanted.size();) {
    std::string piece = wanted[at];
    const auto forced = meter.forced();
    if (meter.forbidden() == id_of(piece)) piece = "!";
    if (forced && *forced != id_of(piece)) {
      piece = std::string(1, static_cast<char>(*forced));
      for (const char* name : {"<|end|>", "<|start|>", "<|channel|>", "<|message|>"})
        if (id_of(name) == *forced) piece = name;
    } else {
      ++at;
    }
    out += piece;
    meter.accept(id_of(piece), piece.size() == 1 ? piece : grammar::control_token(piece));
  }
  return out;
}

TEST(ReasoningBudget, ClosesWhatTheAnswerOpens) {
  const DialogFormat format = reasoning_row("hermes");
  const auto close = [&](std::int32_t tokens, const std::string& text) {
    return written(format, "ask", tokens, text);
  };
  EXPECT_EQ(close(3, "<think>abcdef</think>so"), "<think>abc</think>def</think>so");
  EXPECT_EQ(close(0, "<think>abc"), "<think></think>abc");
  EXPECT_EQ(close(3, " \n<think>abcdef"), " \n<think>abc</think>def");
  // Nothing where it is not spent; until what closes it is whole, its tokens count.
  EXPECT_EQ(close(10, "<think>ab</think>so"), "<think>ab</think>so");
  EXPECT_EQ(close(9, "<think>ab</think>so"), "<think>ab</think</think>so");
  // Once, and only ahead of an answer.
  EXPECT_EQ(close(3, "<think>ab</think>so <think>abcdef"), "<think>ab<</think>so <think>abcdef");
  EXPECT_EQ(close(3, "so <think>abcdef"), "so <think>abcdef");
  EXPECT_EQ(close(3, std::string(65, ' ') + "<think>abcdef"),
            std::string(65, ' ') + "<think>abcdef");
}

TEST(ReasoningBudget, ClosesWhatThePromptOpened) {
  const DialogFormat format = reasoning_row("hermes");
  EXPECT_EQ(written(format, "ask<think>\n", 3, "abcdef"), "abc</think>def");
  EXPECT_EQ(written(format, "ask<think>\n", 0, "abcdef"), "</think>abcdef");
  EXPECT_EQ(written(format, "ask<think>\n", 100, "ab</think>so"), "ab</think>so");
}

TEST(ReasoningBudget, ClosesWithAMessage) {
  const DialogFormat format = reasoning_row("hermes");
  const auto close = [&](std::int32_t tokens, const std::string& message) {
    return written(format, "ask<think>\n", tokens, "abcdef", message);
  };
  EXPECT_EQ(close(3, "! So:\n"), "abc! So:\n</think>def");
  // One that spells the close itself has come as a whole all the same.
  EXPECT_EQ(close(3, "</think>!"), "abc</think>!</think>def");
  // Not where nothing was to be thought, nor where the budget is not spent.
  EXPECT_EQ(close(0, "! So:\n"), "</think>abcdef");
  EXPECT_EQ(close(100, "! So:\n"), "abcdef");
  // Within the message that it ends; control tokens in its text are text.
  const DialogFormat channels = reasoning_row("harmony");
  const std::string think = "<|channel|>analysis<|message|>";
  EXPECT_EQ(written(channels, "<|start|>assistant", 2, think + "abcd", " So."),
            think + "ab So.<|end|><|start|>assistant<|channel|>cd");
  const auto spelled =
      reasoning_budget(channels, "<|start|>assistant", {2, "<|end|>"}, encode_pieces);
  EXPECT_EQ(spelled->closing.front(), id_of("<"));
}

TEST(ReasoningBudget, WaitsForTheEndOfACharacter) {
  const DialogFormat format = reasoning_row("hermes");
  const auto budget = reasoning_budget(format, "<think>", {1}, encode_pieces);
  ReasoningMeter meter(budget);
  for (int held = 1; held <= 2; ++held) {
    meter.accept(0xE2, "");
    EXPECT_FALSE(meter.forced()) << held;
  }
  meter.accept(0x82, "\u20AC");
  EXPECT_EQ(meter.forced(), id_of("<"));
  // What is held longer is no character.
  ReasoningMeter other(budget);
  for (int held = 1; held <= 3; ++held) {
    other.accept(0xE2, "");
    EXPECT_FALSE(other.forced()) << held;
  }
  other.accept(0xE2, "");
  EXPECT_EQ(other.forced(), id_of("<"));
}

// Their tokens add up, and after they are spent no message is reasoning.
TEST(ReasoningBudget, CountsMessagesOfAChannel) {
  const DialogFormat format = reasoning_row("harmony");
  const std::string think = "<|channel|>analysis<|message|>";
  const std::string next = "<|end|><|start|>assistant";
  const std::string final = "<|channel|>final<|message|>";
  const auto close = [&](std::int32_t tokens, const std::string& text) {
    return written(format, "<|start|>assistant", tokens, text);
  };
  const std::string fits = think + "ab" + next + think + "cd" + next + final + "so";
  EXPECT_EQ(close(4, fits), fits);
  EXPECT_EQ(close(3, fits),
            think + "ab" + next + think + "c" + next + "<|channel|>d" + next + final + "so");
  EXPECT_EQ(close(2, fits),
            think + "ab" + next + "<|channel|>!nalysis<|message|>cd" + next + final + "so");
  EXPECT_EQ(close(0, think + "ab"), "<|channel|>!nalysis<|message|>ab");
  EXPECT_EQ(written(format, "<|start|>assistant" + think, 1, "ab"), "a" + next + "<|channel|>b");
  // Answers and calls are none of it.
  const std::string others =
      final + "so much" + next + "<|channel|>commentary to=functions.f<|message|>{}";
  EXPECT_EQ(close(0, others), others);
  // A message of it that breaks off ends.
  const std::string broken = think + "ab<|start|>assistant" + final + "so much";
  EXPECT_EQ(close(3, broken), broken);
}

TEST(ReasoningBudget, IsNoneWhereTheModelDoesNotReason) {
  EXPECT_EQ(reasoning_budget(reasoning_row("llama", false), "ask", {3}, encode_pieces), nullptr);
  EXPECT_EQ(reasoning_budget(reasoning_row("hermes"), "ask", {-1}, encode_pieces), nullptr);
}

}  // namespace
}  // namespace dovetail::dialog
