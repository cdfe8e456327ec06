#include <algorithm>
#include <string_view>

#include "dialog/reader.h"
#include "grammar/vocabulary.h"

namespace dovetail::dialog {

// Headers: " to=functions.NAME<|channel|>commentary json", "<|channel|>final", ...
bool AnswerReader::State::header() {
  static const std::string kMessage = grammar::control_token("<|message|>");
  const std::size_t end = text.find(kMessage, at);
  if (end == std::string::npos && rest().size() <= kMaxName) return false;
  if (end == std::string::npos || end + kMessage.size() - at > kMaxName) {
    begin_free(Mode::kBody, AnswerEvent::Kind::kContent, false);
    return true;
  }
  const std::string_view head = std::string_view(text).substr(at, end - at);
  // Templates write what makes a message a call behind its role, which the first one lacks. What
  // begins a message may have ended the one before it.
  static const std::string kStart = grammar::control_token("<|start|>");
  static constexpr std::string_view kRole = "assistant";
  std::size_t role_end = head.starts_with(kStart) ? kStart.size() : 0;
  if (head.substr(role_end).starts_with(kRole)) role_end += kRole.size();
  const std::size_t begin = taken + at + role_end;
  at = end + kMessage.size();
  static constexpr std::string_view kTo = "to=functions.";
  if (const std::size_t to = head.find(kTo); to != std::string_view::npos) {
    const std::string_view named = head.substr(to + kTo.size());
    const std::string_view name = named.substr(0, named.find_first_of(" \n\t\xff"));
    const auto& tools = data_.request.tools;
    const auto tool = std::ranges::find(tools, name, &Tool::name);
    if (tool != tools.end() && data_.request.choice != ToolChoice::kNone) {
      if (!calls_at) calls_at = begin;
      begin_call(static_cast<std::size_t>(tool - tools.begin()), {});
      return true;
    }
  }
  const bool reasons = head.find("analysis") != std::string_view::npos;
  begin_free(Mode::kBody, reasons ? AnswerEvent::Kind::kReasoning : AnswerEvent::Kind::kContent,
             false);
  return true;
}

bool AnswerReader::State::body() {
  const FreeText::Found found = message_end_.scan(text, at, last);
  give_free(std::string_view(text).substr(at, found.end - at));
  const bool further = found.end > at || found.dropped > 0;
  at = found.end + found.dropped;
  if (!found.mark) return further && at < text.size();
  if (std::string out = trimmer_.flush(); !out.empty()) give(free_kind_, std::move(out));
  at += message_end_.mark(*found.mark).size();
  mode_ = Mode::kHeader;
  return true;
}

}  // namespace dovetail::dialog
