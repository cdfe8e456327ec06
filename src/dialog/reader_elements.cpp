#include <nlohmann/json.hpp>

#include "dialog/reader.h"

namespace dovetail::dialog {

bool AnswerReader::State::element_key() {
  skip_space();
  const CallFormat& format = data_.format;
  const Matched end = match(format.close);
  if (end.match == Match::kYes) {
    give(AnswerEvent::Kind::kArguments, begun_ ? "}" : "{}");
    mode_ = Mode::kClose;
    return true;
  }
  const Matched open = match(format.key_open);
  if (end.match == Match::kMore || open.match == Match::kMore) return false;
  if (open.match == Match::kNo) {
    if (drop_token()) return true;
    if (!rest().empty() && rest().front() == kTokenOpen && !last) return false;
    lose();
    return true;
  }
  const std::size_t name_end = text.find(format.key_close, open.end);
  if (name_end == std::string::npos && !last && text.size() - open.end <= kMaxName) return false;
  if (name_end == std::string::npos || name_end - open.end > kMaxName) {
    lose();
    return true;
  }
  element_name_ = text.substr(open.end, name_end - open.end);
  std::string out = begun_ ? ",\"" : "{\"";
  append_escaped(out, element_name_);
  give(AnswerEvent::Kind::kArguments, out + "\":");
  begun_ = true;
  at = name_end + format.key_close.size();
  parameter_ = parameter_of(element_name_);
  element_ = {};
  mode_ = Mode::kElement;
  return true;
}

// A value is given when it is there: whether it is a text, the end tells.
bool AnswerReader::State::element() {
  const CallFormat& format = data_.format;
  const auto end = element_.find_end(rest(), format);
  if (!end) return false;
  const Matched close =
      match_text(text, at + *end, format.value_close + element_name_ + format.key_close);
  if (close.match == Match::kMore && !last) return false;
  if (close.match != Match::kYes) {
    lose();
    return true;
  }
  const std::optional<std::string> schema =
      parameter_ == nullptr ? std::nullopt : std::optional(parameter_->at);
  const Json value =
      read_element(format, data_.request.tools[tool_].parameters, schema, rest().substr(0, *end));
  give(AnswerEvent::Kind::kArguments, value.dump(-1, ' ', false, Json::error_handler_t::replace));
  at = close.end;
  mode_ = Mode::kElementKey;
  return true;
}

}  // namespace dovetail::dialog
