// What is written is read back, wherever it is cut; what the structure lets through is read as
// calls of the tools.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

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
using test::random_arguments;
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
        &out.key_open, &out.key_close, &out.other_close, &out.value_close, &out.quote}) {
    *text = format.marked(*text);
  }
  return out;
}

// At every depth.
Json sorted_members(const Json& value) {
  if (!value.is_structured()) return value;
  Json out = value.is_object() ? with_sorted_members(value) : value;
  for (Json& each : out) each = sorted_members(each);
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
    text += "\n" + out.read.reasoning + "\n" + format.marked(format.reasoning()->close);
    if (format.content() == nullptr) text += "\n\n";
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
  } else if (format.content() != nullptr) {
    if (says || random.one_in(2)) text += format.marked(format.content()->open);
    text += out.read.content;
    if (says || random.one_in(2)) text += format.marked(format.content()->close);
  } else {
    text += out.read.content;
    if (says && calls) text += "\n";
  }
  Json list = Json::array();
  for (std::size_t i = calls ? 1 + (row.parallel ? random.below(3) : 0) : 0; i > 0; --i) {
    const Tool& tool = random.of(tools);
    const Json arguments = random_arguments(random, tool);
    const std::string id = fmt::format("abCdE{:04}", random.below(10000));
    list.push_back({{"id", id}, {"function", {{"name", tool.name}, {"arguments", arguments}}}});
    const bool in_text = write_calls(row, list).text.find(id) != std::string::npos;
    const bool sorted = row.style == ArgumentStyle::kBare;
    out.read.calls.push_back({.name = tool.name,
                              .arguments = (sorted ? sorted_members(arguments) : arguments).dump(),
                              .id = row.ids == IdRule::kNameIndex
                                        ? name_index_id(tool.name, list.size() - 1)
                                    : in_text ? id
                                              : "",
                              .ended = true});
  }
  if (calls) text += write_calls(row, list).text;
  if (format.content() != nullptr && random.one_in(2)) {
    text += format.marked(format.content()->end);
  }
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

// The first byte, or control token.
std::string_view unit(std::string_view text) {
  return text.substr(0, text.front() == kTokenOpen ? text.find(kTokenClose) + 1 : 1);
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
          << shown(in_one_spelling(whole)) << "\n is not\n"
          << shown(answer.read);
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

using Tokens = std::shared_ptr<const grammar::Vocabulary>;

// All bytes, the end, the family's control tokens, and pieces that bring texts to their end.
Tokens vocabulary_of(const test::Family& family, const CallFormat& row) {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  tokens.emplace_back("</s>");
  for (const std::string& token : family.control_tokens) {
    tokens.push_back(grammar::control_token(token));
  }
  for (const std::string& text :
       {row.value_close, row.key_open, row.close, row.section_open + row.open, row.open,
        family.reasoning_open, family.reasoning_close, std::string("</s>")}) {
    if (!text.empty() && text.find(kTokenOpen) == std::string::npos) tokens.push_back(text);
  }
  const std::vector<grammar::TokenId> ends = {256};
  return std::make_shared<const grammar::Vocabulary>(
      grammar::Vocabulary::create(tokens, ends).value());
}

grammar::Matcher matcher_of(const AnswerPlan& plan, const Tokens& tokens) {
  const auto grammar = grammar::Grammar::from_structure(Json::parse(plan.structure()));
  EXPECT_TRUE(grammar.has_value()) << grammar.error().message << "\n" << plan.structure();
  return grammar::Matcher(grammar::TokenMasks::create(*grammar, tokens).value());
}

TEST(AnswerReader, TheStructureTakesWhatTheTemplateWrites) {
  for (const test::Family& family : test::families()) {
    const DialogFormat format = test::detect(family);
    const Tokens tokens = vocabulary_of(family, marked_row(format));
    for (std::uint32_t seed = 0; seed < 8; ++seed) {
      Random random(seed);
      const std::vector<Tool> tools = test::random_tools(random);
      const bool opened =
          format.reasoning() != nullptr && !format.calls().channels && random.one_in(3);
      const AnswerPlan plan = plan_of(format, tools, ToolChoice::kAuto, opened);
      const grammar::Matcher start = matcher_of(plan, tokens);
      for (int round = 0; round < 4; ++round) {
        const Answer answer = write(format, random, tools, opened);
        if (!can_be_written(format, answer.read)) continue;
        grammar::Matcher matcher = start;
        std::size_t size = 0;
        while (size < answer.text.size()) {
          const std::string_view next = unit(std::string_view(answer.text).substr(size));
          if (!matcher.accept_bytes(next)) break;
          size += next.size();
        }
        EXPECT_TRUE(size == answer.text.size() && matcher.can_end())
            << family.row << " " << seed << ": " << visible(answer.text.substr(0, size)) << " >< "
            << visible(answer.text.substr(size)) << "\n"
            << plan.structure();
      }
    }
  }
}

// Random allowed tokens, then such as lead to an end; nothing where none was found.
std::optional<std::string> walk(grammar::Matcher matcher, Random& random, std::size_t steps) {
  const grammar::Vocabulary& vocabulary = matcher.masks().vocabulary();
  std::string text;
  for (std::size_t step = 0; step < 2500; ++step) {
    if (matcher.must_end() || (step > steps && matcher.can_end())) return text;
    std::vector<std::uint64_t> mask(vocabulary.words());
    matcher.allowed(mask);
    std::vector<grammar::TokenId> allowed, pieces, closing;
    for (std::size_t id = 0; id < vocabulary.size(); ++id) {
      if (((mask[id / 64] >> (id % 64)) & 1U) == 0) continue;
      const auto token = static_cast<grammar::TokenId>(id);
      const std::string_view bytes = vocabulary.bytes(token);
      if (vocabulary.is_end(token)) continue;
      allowed.push_back(token);
      if (bytes.size() > 1) pieces.push_back(token);
      if (bytes == "\"" || bytes == "}" || bytes == "]" || bytes == "'") closing.push_back(token);
    }
    if (allowed.empty()) return std::nullopt;
    const bool ends = step > steps;
    const auto& choices = !pieces.empty() && random.one_in(ends ? 2 : 12) ? pieces
                          : ends && !closing.empty() && !random.one_in(6) ? closing
                                                                          : allowed;
    const grammar::TokenId token = random.of(choices);
    if (!matcher.accept(token)) return std::nullopt;
    text += vocabulary.bytes(token);
  }
  return std::nullopt;
}

std::string without_space(std::string text) {
  std::erase_if(text, is_space);
  return text;
}

TEST(AnswerReader, ReadsWhatTheStructureLetsThrough) {
  std::size_t answers = 0;
  std::size_t calls = 0;
  for (const test::Family& family : test::families()) {
    const DialogFormat format = test::detect(family);
    const CallFormat row = marked_row(format);
    const Tokens tokens = vocabulary_of(family, row);
    for (std::uint32_t seed = 0; seed < 6; ++seed) {
      Random random(seed);
      const std::vector<Tool> tools = test::random_tools(random);
      const bool opened = format.reasoning() != nullptr && random.one_in(3);
      const ToolChoice choice = random.one_in(3) ? ToolChoice::kAuto : ToolChoice::kRequired;
      const AnswerPlan plan = plan_of(format, tools, choice, opened);
      const grammar::Matcher start = matcher_of(plan, tokens);
      for (int round = 0; round < 6; ++round) {
        const auto text = walk(start, random, random.below(80));
        if (!text) continue;
        SCOPED_TRACE(
            fmt::format("{} {}: {}\n{}", family.row, seed, visible(*text), plan.structure()));
        const Read whole = test::read(plan, *text, kWhole);
        ASSERT_EQ(test::read(plan, *text, kBytes), whole);
        ASSERT_EQ(test::read(plan, *text, {2, 1 + random.below(20)}), whole);
        ++answers;
        calls += whole.calls.size();
        ASSERT_TRUE(choice == ToolChoice::kAuto || !whole.calls.empty());
        for (const Read::Call& call : whole.calls) {
          ASSERT_TRUE(call.ended);
          const auto tool = std::ranges::find(tools, call.name, &Tool::name);
          ASSERT_NE(tool, tools.end());
          const Json arguments = Json::parse(call.arguments, nullptr, false);
          ASSERT_TRUE(arguments.is_object()) << call.arguments;
          ASSERT_TRUE(grammar::test::is_instance(tool->parameters, tool->parameters, arguments))
              << call.arguments << "\n"
              << tool->parameters.dump();
        }
        if (!whole.calls.empty() || row.channels) continue;
        // What is no mark is content or reasoning, in order.
        std::string rest = *text;
        if (format.reasoning() != nullptr) {
          const std::string open = format.marked(format.reasoning()->open);
          if (!opened && rest.starts_with(open)) rest.erase(0, open.size());
          const std::string close = format.marked(format.reasoning()->close);
          if (opened || rest.size() < text->size()) rest.erase(rest.find(close), close.size());
        }
        if (const ContentFormat* around = format.content(); around != nullptr) {
          for (const std::string& each : {around->open, around->close, around->end}) {
            const std::string marked = format.marked(each);
            const std::size_t at = marked.empty() ? std::string::npos : rest.find(marked);
            if (at != std::string::npos) rest.erase(at, marked.size());
          }
        }
        ASSERT_EQ(without_space(whole.reasoning + whole.content), without_space(rest));
      }
    }
  }
  EXPECT_GT(answers, 600U);
  EXPECT_GT(calls, 400U);
}

}  // namespace
}  // namespace dovetail::dialog
