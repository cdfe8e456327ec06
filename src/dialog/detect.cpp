#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "dialog/answer.h"
#include "dialog/format.h"
#include "dialog/texts.h"

namespace dovetail::dialog {

namespace {

// A chat that no template writes by itself: what stands between the question and the result is how
// the template writes the calls.
constexpr std::string_view kQuestion = "What will the weather in Ulm be like?";
constexpr std::string_view kResult = "Seventeen degrees.";
constexpr std::string_view kDescription = "Looks up the forecast of a place.";
constexpr std::string_view kInstruction = "Be brief about the weather.";
constexpr std::string_view kFunction = "look_up";
constexpr std::string_view kFirstId = "callA0001";
constexpr std::string_view kSecondId = "callB0002";

Json probe_arguments() { return {{"city", "Ulm"}, {"days", 17}}; }

Json probe_parameters() {
  return {{"type", "object"},
          {"properties",
           {{"city", {{"type", "string"}, {"description", "The city."}}},
            {"days", {{"type", "integer"}, {"description", "How many days."}}}}},
          {"required", {"city", "days"}}};
}

Json probe_tools() {
  return Json::array({{{"type", "function"},
                       {"function",
                        {{"name", kFunction},
                         {"description", kDescription},
                         {"parameters", probe_parameters()}}}}});
}

struct Probe {
  bool named_ids = false;  // as IdRule::kNameIndex has them
  bool arguments_as_text = false;
  bool content_as_null = false;
  std::size_t calls = 2;
};

Json question() { return {{"role", "user"}, {"content", kQuestion}}; }

Json question_variables(const std::string& tools) {
  return {{"messages", Json::array({question()})},
          {tools, probe_tools()},
          {"add_generation_prompt", true}};
}

Json probe_variables(const Probe& probe, const std::string& tools) {
  Json calls = Json::array();
  Json results = Json::array();
  for (std::size_t i = 0; i < probe.calls; ++i) {
    std::string id(i == 0 ? kFirstId : kSecondId);
    if (probe.named_ids) id = name_index_id(kFunction, i);
    Json arguments = probe_arguments();
    if (probe.arguments_as_text) arguments = R"({"city": "Ulm", "days": 17})";
    calls.push_back({{"id", id},
                     {"type", "function"},
                     {"function", {{"name", kFunction}, {"arguments", std::move(arguments)}}}});
    results.push_back(
        {{"role", "tool"}, {"tool_call_id", id}, {"name", kFunction}, {"content", kResult}});
  }
  Json messages = Json::array({question()});
  messages.push_back({{"role", "assistant"},
                      {"content", probe.content_as_null ? Json() : Json("")},
                      {"tool_calls", std::move(calls)}});
  for (Json& result : results) messages.push_back(std::move(result));
  Json out = question_variables(tools);
  out["messages"] = std::move(messages);
  return out;
}

// In the order of trying.
std::vector<Probe> probes() {
  std::vector<Probe> out;
  for (const bool named_ids : {false, true}) {
    for (const bool as_text : {false, true}) {
      for (const bool as_null : {false, true}) {
        for (const std::size_t calls : {std::size_t{2}, std::size_t{1}}) {
          out.push_back({named_ids, as_text, as_null, calls});
        }
      }
    }
  }
  return out;
}

// Reads calls of the probe in a rendered text by a row's texts, and keeps them as they stand there.
class Learner {
 public:
  Learner(const CallFormat& row, std::string_view text) : row_(row), text_(text) {}

  std::optional<CallFormat> learn(std::size_t begin, std::size_t calls) {
    at_ = begin;
    format_ = row_;
    format_.parallel = calls > 1;
    bool good = take(row_.section_open, &format_.section_open, Trailing::kAll);
    for (std::size_t i = 0; good && i < calls; ++i) {
      const bool first = i == 0;
      const auto keep = [&](std::string& field) { return first ? &field : nullptr; };
      if (!first) good = take(row_.between, &format_.between, Trailing::kAll);
      good = good && take(row_.open, keep(format_.open), Trailing::kAll) &&
             take(kFunction, nullptr, Trailing::kNone) &&
             take(row_.middle, keep(format_.middle),
                  row_.style == ArgumentStyle::kTagged ? Trailing::kNone : Trailing::kAll) &&
             arguments(first) && take(row_.close, keep(format_.close), Trailing::kNone);
    }
    if (!good || !take(row_.section_close, &format_.section_close, Trailing::kNone)) return {};
    return format_;
  }

  std::size_t end() const { return at_; }

 private:
  bool take(std::string_view literal, std::string* as_read, Trailing trailing) {
    // White space around nothing belongs to what follows, but for that between calls.
    if (literal.empty()) return true;
    const Matched matched = match_text(text_, at_, literal, trailing);
    if (matched.match != Match::kYes) return false;
    at_ = matched.end;
    if (as_read != nullptr) *as_read = matched.as_read;
    return true;
  }

  bool arguments(bool first) {
    switch (row_.style) {
      case ArgumentStyle::kJson:
        return take(probe_arguments().dump(), nullptr, Trailing::kNone);
      case ArgumentStyle::kPythonic:
        return take("city=\"Ulm\", days=17", nullptr, Trailing::kNone) ||
               take("city='Ulm', days=17", nullptr, Trailing::kNone);
      case ArgumentStyle::kElements:
        return element("city", "Ulm") && element("days", "17");
      case ArgumentStyle::kBare:
        return take(fmt::format("city:{}Ulm{},days:17", row_.quote, row_.quote), nullptr,
                    Trailing::kNone);
      case ArgumentStyle::kTagged:
        break;
    }
    const bool typed = !row_.other_close.empty();
    const auto keep = [&](std::string& field) { return first ? &field : nullptr; };
    return take(row_.key_open, keep(format_.key_open), Trailing::kAll) &&
           take("city", nullptr, Trailing::kNone) &&
           take(row_.key_close, keep(format_.key_close), Trailing::kAll) &&
           take("Ulm", nullptr, Trailing::kNone) &&
           take(row_.value_close, keep(format_.value_close), Trailing::kNone) &&
           take(row_.key_open, nullptr, Trailing::kAll) && take("days", nullptr, Trailing::kNone) &&
           take(typed ? row_.other_close : row_.key_close,
                first && typed ? &format_.other_close : nullptr, Trailing::kAll) &&
           take("17", nullptr, Trailing::kNone) && take(row_.value_close, nullptr, Trailing::kNone);
  }

  // Its texts stay the row's: nothing stands between an element and what it holds.
  bool element(std::string_view name, std::string_view value) {
    const auto of = [&](const std::string& open) {
      return take(open, nullptr, Trailing::kNone) && take(name, nullptr, Trailing::kNone) &&
             take(row_.key_close, nullptr, Trailing::kNone);
    };
    return of(row_.key_open) && take(value, nullptr, Trailing::kNone) && of(row_.value_close);
  }

  const CallFormat& row_;
  std::string_view text_;
  std::size_t at_ = 0;
  CallFormat format_;
};

// Whether a reader gives the probe's calls back.
bool reads_back(const DialogFormat& format, std::string_view text, std::size_t calls) {
  AnswerRequest request;
  request.tools.push_back({.name = std::string(kFunction),
                           .description = std::string(kDescription),
                           .parameters = probe_parameters()});
  request.choice = ToolChoice::kRequired;
  auto plan = AnswerPlan::create(format, std::move(request));
  if (!plan) return false;
  AnswerReader reader(*plan);
  std::vector<AnswerEvent> events =
      reader.feed(plan->marks() ? format.marked(text) : std::string(text));
  for (AnswerEvent& event : reader.finish()) events.push_back(std::move(event));
  std::string arguments;
  std::size_t ended = 0;
  for (const AnswerEvent& event : events) {
    switch (event.kind) {
      case AnswerEvent::Kind::kCallBegin:
        if (event.text != kFunction) return false;
        arguments.clear();
        break;
      case AnswerEvent::Kind::kArguments:
        arguments += event.text;
        break;
      case AnswerEvent::Kind::kCallEnd:
        if (Json::parse(arguments, nullptr, false) != probe_arguments()) return false;
        ++ended;
        break;
      default:
        return false;
    }
  }
  return ended == calls;
}

// The control tokens and tags, from '<' or '[' to the next '>' or ']', that a row's calls have.
std::vector<std::string_view> tags_of(const CallFormat& row) {
  std::vector<std::string_view> out;
  for (const std::string_view text :
       {std::string_view(row.section_open), std::string_view(row.open),
        std::string_view(row.key_open), std::string_view(row.close),
        std::string_view(row.section_close)}) {
    for (std::size_t at = text.find('<'); at != std::string_view::npos;
         at = text.find('<', at + 1)) {
      const std::size_t end = text.find_first_of(">= \n", at);
      out.push_back(text.substr(at, end == std::string_view::npos ? end : end + 1 - at));
    }
  }
  return out;
}

bool holds(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// A template that lists the tools and writes no calls still tells, or its control tokens do, how
// the model writes them.
bool tells(const TemplateFacts& facts, const CallFormat& row, const auto& is_control) {
  const auto tags = tags_of(row);
  if (tags.empty()) return false;
  if (std::ranges::all_of(tags, is_control)) return true;
  const bool shows_object = holds(facts.source, "{\"name") || holds(facts.source, "{\\\"name");
  if (row.style == ArgumentStyle::kJson && !shows_object) return false;
  return std::ranges::all_of(
      tags, [&](std::string_view tag) { return is_control(tag) || holds(facts.source, tag); });
}

}  // namespace

DialogFormat DialogFormat::detect(const TemplateFacts& facts) {
  DialogFormat out;
  out.control_tokens_ = facts.control_tokens;
  std::erase(out.control_tokens_, std::string());
  std::ranges::sort(out.control_tokens_,
                    [](const auto& a, const auto& b) { return a.size() > b.size(); });
  const auto system = facts.render(
      {{"messages", Json::array({{{"role", "system"}, {"content", kInstruction}}, question()})},
       {"tools", nullptr},
       {"add_generation_prompt", true}});
  out.takes_system_ = system && holds(*system, kInstruction);
  out.find_calls(facts);
  out.find_texts_around(facts);
  return out;
}

bool DialogFormat::is_control(std::string_view spelling) const {
  return std::ranges::find(control_tokens_, spelling) != control_tokens_.end();
}

void DialogFormat::find_calls(const TemplateFacts& facts) {
  for (const char* variable : {"tools", "xml_tools"}) {
    const auto listed = facts.render(question_variables(variable));
    writes_tools_ = listed && holds(*listed, kDescription);
    if (!writes_tools_) continue;
    tools_variable_ = variable;
    break;
  }
  if (find_rendered_calls(facts)) {
    writes_calls_ = true;
    return;
  }
  arguments_as_text_ = false;
  content_as_null_ = false;
  for (const CallFormat& row : call_formats()) {
    if (row.style == ArgumentStyle::kBare && !is_control(row.quote)) continue;
    if (writes_tools_ && tells(facts, row, [&](auto tag) { return is_control(tag); })) {
      calls_ = row;
      return;
    }
  }
  writes_tools_ = false;
  writes_results_ = false;
  const auto rows = call_formats();
  calls_ = *std::ranges::find(rows, "hermes", &CallFormat::name);
}

bool DialogFormat::find_rendered_calls(const TemplateFacts& facts) {
  const auto prompt = facts.render(question_variables(tools_variable_));
  for (const Probe& probe : probes()) {
    const auto rendered = facts.render(probe_variables(probe, tools_variable_));
    if (!rendered) continue;
    const std::string_view text = *rendered;
    const std::size_t question_at = text.rfind(kQuestion);
    if (question_at == std::string_view::npos) continue;
    const std::size_t begin = question_at + kQuestion.size();
    const std::size_t result_at = text.find(kResult, begin);
    if (result_at == std::string_view::npos) {
      if (!holds(text, kResult)) continue;
    } else {
      writes_results_ = true;
    }
    const std::string_view span = text.substr(0, std::min(result_at, text.size()));
    for (const CallFormat& row : call_formats()) {
      if (row.style == ArgumentStyle::kBare && !is_control(row.quote)) continue;
      // A call without a mark may be part of another form: it must stand where the answer begins.
      const bool marked = !call_mark(row).empty() && !call_mark(row).starts_with('{');
      const std::string_view head = row.section_open.empty() ? row.open : row.section_open;
      const bool begins_with_space = !head.empty() && is_space(head.front());
      for (std::size_t at = begin; at < span.size(); ++at) {
        if (is_space(span[at]) != begins_with_space) continue;
        if (!marked && !(prompt && trim_right(*prompt) == trim_right(span.substr(0, at)))) continue;
        Learner learner(row, span);
        auto learned = learner.learn(at, probe.calls);
        if (!learned) continue;
        calls_ = *std::move(learned);
        arguments_as_text_ = probe.arguments_as_text;
        content_as_null_ = probe.content_as_null;
        if (reads_back(*this, span.substr(at, learner.end() - at), probe.calls)) return true;
      }
    }
  }
  return false;
}

void DialogFormat::find_texts_around(const TemplateFacts& facts) {
  // A template may put the spelling together.
  Json messages = Json::array({question()});
  messages.push_back({{"role", "assistant"}, {"content", kResult}, {"reasoning_content", kResult}});
  messages.push_back(question());
  const auto chat = facts.render(
      {{"messages", std::move(messages)}, {"tools", nullptr}, {"add_generation_prompt", true}});
  for (const ContentFormat& row : content_formats()) {
    if (chat && holds(*chat, row.open + std::string(kResult) + row.close)) content_ = &row;
  }
  for (const ReasoningFormat& row : reasoning_formats()) {
    const bool is_channel = &row == reasoning_formats().data();
    if (is_channel != calls_.channels) continue;
    if (is_channel || is_control(row.close) || holds(facts.source, row.close) ||
        (chat && holds(*chat, row.close))) {
      reasoning_ = &row;
      return;
    }
  }
}

std::string DialogFormat::description() const {
  const std::string_view note = native()        ? ""
                                : writes_tools_ ? " (calls in a history written as text)"
                                : writes_calls_ ? " (tools listed in a system message)"
                                                : " (not the template's: explained in a system "
                                                  "message)";
  return fmt::format("tools: {}{}; reasoning: {}", calls_.name, note,
                     reasoning_ == nullptr ? "none" : trim_right(reasoning_->open));
}

bool DialogFormat::opens_reasoning(std::string_view prompt) const {
  return reasoning_ != nullptr && trim_right(prompt).ends_with(trim_right(reasoning_->open));
}

std::string DialogFormat::marked(std::string_view text) const {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const auto token = std::ranges::find_if(control_tokens_, [&](const std::string& spelling) {
      return text.substr(at).starts_with(spelling);
    });
    if (token == control_tokens_.end()) {
      out += text[at++];
      continue;
    }
    out += kTokenOpen + *token + kTokenClose;
    at += token->size();
  }
  return out;
}

}  // namespace dovetail::dialog
