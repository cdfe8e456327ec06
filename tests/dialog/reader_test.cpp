// What is written is read back, wherever it is cut; what the structure lets through is read as
// calls of the tools.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "dialog/families.h"
#include "dialog/random_calls.h"
#include "dialog/texts.h"
#include "grammar/grammar.h"
#include "grammar/json_validator.h"
#include "grammar/matcher.h"
#include "grammar/token_masks.h"
#include "grammar/vocabulary.h"

namespace dovetail::dialog {
namespace {

using test::Random;
using test::Read;
using testing::HasSubstr;

const std::vector<std::size_t> kWhole = {1U << 20U};
const std::vector<std::size_t> kBytes = {1};

// An answer as a model writes it: reasoning, content and calls.
struct Answer {
  std::string text;  // marked
  Read read;
};

CallFormat marked_row(const DialogFormat& format) {
  CallFormat out = format.calls();
  for (std::string* text :
       {&out.section_open, &out.section_close, &out.between, &out.open, &out.middle, &out.close,
        &out.key_open, &out.key_close, &out.other_close, &out.value_close}) {
    *text = format.marked(*text);
  }
  return out;
}

Answer write(const DialogFormat& format, Random& random, const std::vector<Tool>& tools,
             bool opened) {
  const CallFormat row = marked_row(format);
  Answer out;
  std::string text;
  if (format.reasoning() != nullptr && !row.channels && (opened || random.one_in(2))) {
    out.read.reasoning = "so a\n <tool_call> b";
    if (!opened) text += format.marked(format.reasoning()->open);
    text += "\n" + out.read.reasoning + "\n" + format.marked(format.reasoning()->close) + "\n\n";
  }
  if (row.channels && random.one_in(2)) {
    out.read.reasoning = "so a";
    text += format.marked("<|channel|>analysis<|message|>so a<|end|><|start|>assistant");
  }
  const bool says = random.one_in(2);
  const bool calls = !says || !random.one_in(3);
  if (says) out.read.content = "Well <b>, {\"a\": [1]} é";
  if (row.channels && says) {
    text += format.marked(calls ? "<|channel|>commentary<|message|>" + out.read.content +
                                      "<|end|><|start|>assistant"
                                : "<|channel|>final<|message|>" + out.read.content);
  } else {
    text += out.read.content;
    if (says && calls) text += "\n";
  }
  Json list = Json::array();
  for (std::size_t i = calls ? 1 + (row.parallel ? random.below(3) : 0) : 0; i > 0; --i) {
    const Tool& tool = random.of(tools);
    const Json arguments = random_arguments(random, tool);
    const std::string id = fmt::format("abCdE{:04}", random.below(10000));
    list.push_back(
        {{"id", id}, {"function", {{"name", tool.name}, {"arguments", arguments}}}});
    const bool in_text = write_calls(row, list).find(id) != std::string::npos;
    const std::string index_id = fmt::format("functions.{}:{}", tool.name, list.size() - 1);
    const std::string index = fmt::format("{}", list.size() - 1);
    out.read.calls.push_back({.name = tool.name,
                              .arguments = arguments.dump(),
                              .id = row.ids == IdRule::kNameIndex ? index_id
                                    : in_text                     ? id
                                    : row.name == "command"       ? index
                                                                  : "",
                              .ended = true});
  }
  if (calls) text += write_calls(row, list);
  out.text = text;
  return out;
}

// Arguments as values, so that white space says nothing.
Read in_one_spelling(Read read) {
  for (Read::Call& call : read.calls) {
    const Json value = Json::parse(call.arguments, nullptr, false);
    if (!value.is_discarded()) call.arguments = value.dump();
  }
  return read;
}

AnswerPlan plan_of(const DialogFormat& format, std::vector<Tool> tools, ToolChoice choice,
                   bool opened = false) {
  AnswerRequest request;
  request.tools = std::move(tools);
  request.choice = choice;
  request.reasoning_opened = opened;
  auto plan = AnswerPlan::create(format, std::move(request));
  EXPECT_TRUE(plan.has_value()) << plan.error().message;
  return *plan;
}

// With control tokens in brackets.
std::string visible(std::string text) {
  for (char& c : text) {
    if (c == kTokenOpen) c = '{';
    if (c == kTokenClose) c = '}';
  }
  return text;
}

std::string shown(const Read& read) {
  std::string out = fmt::format("content {} reasoning {}", read.content, read.reasoning);
  for (const Read::Call& call : read.calls) {
    out += fmt::format("\ncall {} {} {} {}", call.name, call.arguments, call.id, call.ended);
  }
  return out;
}

// Where a mixed parameter's or a raw one's text holds what closes it, it cannot be written.
bool can_be_written(const DialogFormat& format, const Read& read) {
  const CallFormat& row = format.calls();
  if (row.style != ArgumentStyle::kTagged) return true;
  for (const Read::Call& call : read.calls) {
    const Json arguments = Json::parse(call.arguments);
    for (const Json& value : arguments) {
      if (value.is_string() &&
          value.get<std::string>().find(trim_left(row.value_close)) != std::string::npos) {
        return false;
      }
    }
  }
  return true;
}

TEST(AnswerReader, ReadsBackWhatIsWritten) {
  for (const test::Family& family : test::families()) {
    const DialogFormat format = test::detect(family);
    for (std::uint32_t seed = 0; seed < 200; ++seed) {
      Random random(seed);
      const std::vector<Tool> tools = test::random_tools(random);
      const bool opened =
          format.reasoning() != nullptr && !format.calls().channels && random.one_in(3);
      const AnswerPlan plan = plan_of(format, tools, ToolChoice::kAuto, opened);
      const Answer answer = write(format, random, tools, opened);
      if (!can_be_written(format, answer.read)) continue;
      SCOPED_TRACE(fmt::format("{} {}: {}", family.row, seed, visible(answer.text)));
      const Read whole = test::read(plan, answer.text, kWhole);
      ASSERT_EQ(in_one_spelling(whole), answer.read)
          << shown(in_one_spelling(whole)) << "\n is not\n" << shown(answer.read);
      ASSERT_EQ(test::read(plan, answer.text, kBytes), whole);
      ASSERT_EQ(test::read(plan, answer.text, {1 + random.below(9), 1 + random.below(30)}), whole);
      // Cut, it is a begin of it.
      const Read cut = test::read(
          plan, std::string_view(answer.text).substr(0, random.below(answer.text.size() + 1)),
          kBytes);
      ASSERT_LE(cut.calls.size(), whole.calls.size());
      for (std::size_t i = 0; i < cut.calls.size(); ++i) {
        ASSERT_EQ(cut.calls[i].name, whole.calls[i].name);
        if (i + 1 < cut.calls.size()) {
          ASSERT_EQ(cut.calls[i], whole.calls[i]);
        }
      }
    }
  }
}

TEST(AnswerReader, TheStructureTakesWhatTheTemplateWrites) {
  for (const test::Family& family : test::families()) {
    const DialogFormat format = test::detect(family);
    std::vector<std::string> tokens;
    for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
    tokens.emplace_back("</s>");
    for (const std::string& token : family.control_tokens) {
      tokens.push_back(grammar::control_token(token));
    }
    const std::vector<grammar::TokenId> ends = {256};
    const auto vocabulary = std::make_shared<const grammar::Vocabulary>(
        grammar::Vocabulary::create(tokens, ends).value());
    for (std::uint32_t seed = 0; seed < 12; ++seed) {
      Random random(seed);
      const std::vector<Tool> tools = test::random_tools(random);
      const bool opened =
          format.reasoning() != nullptr && !format.calls().channels && random.one_in(3);
      const AnswerPlan plan = plan_of(format, tools, ToolChoice::kAuto, opened);
      const auto grammar = grammar::Grammar::from_structure(Json::parse(plan.structure()));
      ASSERT_TRUE(grammar.has_value()) << family.row << ": " << grammar.error().message << "\n"
                                       << plan.structure();
      const auto masks = grammar::TokenMasks::create(*grammar, vocabulary);
      ASSERT_TRUE(masks.has_value()) << masks.error().message;
      for (int round = 0; round < 4; ++round) {
        const Answer answer = write(format, random, tools, opened);
        if (!can_be_written(format, answer.read)) continue;
        grammar::Matcher matcher(*masks);
        std::size_t size = 0;
        while (size < answer.text.size() &&
               matcher.accept_bytes(std::string_view(answer.text).substr(size, 1))) {
          ++size;
        }
        EXPECT_TRUE(size == answer.text.size() && matcher.can_end())
            << family.row << " " << seed << ": " << visible(answer.text.substr(0, size)) << " >< "
            << visible(answer.text.substr(size)) << "\n"
            << plan.structure();
      }
    }
  }
}

}  // namespace
}  // namespace dovetail::dialog
