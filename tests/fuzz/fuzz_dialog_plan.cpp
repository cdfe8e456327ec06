// Any JSON as the parameters of a tool, and any choice: an error, or a plan whose reader reads what
// its structure lets through. The first bytes choose the format, what is asked, and how the text is
// cut; then comes the schema; its bytes choose the answer.

#include <nlohmann/json.hpp>
#include <utility>

#include "dialog/answer.h"
#include "dialog/families.h"
#include "fuzz/grammar_walk.h"

namespace {

using namespace dovetail;
using Kind = dialog::AnswerEvent::Kind;

// A format with a vocabulary of its control tokens.
struct Model {
  dialog::DialogFormat format;
  std::shared_ptr<const grammar::Vocabulary> tokens;
};

const std::vector<Model>& models() {
  static const std::vector<Model> out = [] {
    std::vector<Model> list;
    for (const dialog::test::Family& family : dialog::test::families()) {
      list.push_back({dialog::test::detect(family), fuzz::vocabulary(family.control_tokens)});
    }
    return list;
  }();
  return out;
}

// Of a text that the structure let through to its end: calls are whole, and arguments are JSON; so
// is content, where a schema was asked for.
void check_whole(const std::vector<dialog::AnswerEvent>& events, bool required, bool has_form) {
  std::string arguments, content;
  std::size_t begun = 0, ended = 0;
  for (const dialog::AnswerEvent& event : events) {
    if (required && event.kind == Kind::kContent) std::abort();
    if (event.kind == Kind::kContent) content += event.text;
    if (event.kind == Kind::kCallBegin) {
      if (event.text != "f" && event.text != "g") std::abort();
      ++begun;
      arguments.clear();
    } else if (event.kind == Kind::kArguments) {
      arguments += event.text;
    } else if (event.kind == Kind::kCallEnd) {
      ++ended;
      if (!Json::parse(arguments, nullptr, false).is_object()) std::abort();
    }
  }
  if (has_form && !content.empty() && !Json::accept(content)) std::abort();
  if (begun != ended || (required && begun == 0)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 3) return 0;
  const Model& model = models()[data[0] % models().size()];
  const unsigned bits = data[1];
  const std::string_view input(reinterpret_cast<const char*>(data) + 3, size - 3);
  Json schema = fuzz::parse(input);
  if (schema.is_discarded()) return 0;
  dialog::AnswerRequest asked;
  if ((bits & 1U) != 0) {
    asked.content = dialog::ContentForm{dialog::ContentForm::Kind::kJsonSchema, schema.dump(),
                                        (bits & 2U) != 0};
  }
  asked.tools.push_back({"f", "", std::move(schema), (bits & 2U) != 0});
  asked.tools.push_back({"g", "", nullptr, true});
  asked.choice = (bits & 4U) != 0 ? dialog::ToolChoice::kRequired : dialog::ToolChoice::kAuto;
  asked.parallel = (bits & 8U) != 0;
  asked.reasoning_opened = (bits & 16U) != 0;
  const bool has_form = asked.content.has_value();
  const bool required = asked.choice == dialog::ToolChoice::kRequired;
  const auto plan = dialog::AnswerPlan::create(model.format, std::move(asked));
  if (!plan) {
    if (plan.error().message.empty()) std::abort();
    return 0;
  }
  const auto grammar =
      grammar::Grammar::from_structure(Json::parse(plan->structure()), fuzz::stop_soon());
  if (!grammar) {
    if (grammar.error().message.empty()) std::abort();
    return 0;
  }
  const auto masks = grammar::TokenMasks::create(*grammar, model.tokens, 1U << 20U);
  if (!masks) return 0;
  const fuzz::Walk answer = fuzz::walk(*masks, input, 400);
  dialog::AnswerReader reader(*plan);
  std::vector<dialog::AnswerEvent> events;
  const std::size_t piece = 1U + data[2] % 64U;
  const auto take = [&](std::vector<dialog::AnswerEvent> more) {
    for (dialog::AnswerEvent& event : more) events.push_back(std::move(event));
  };
  for (std::size_t at = 0; at < answer.text.size(); at += piece)
    take(reader.feed(std::string_view(answer.text).substr(at, piece)));
  take(reader.finish());
  if (answer.ended) check_whole(events, required, has_form);
  return 0;
}
