#include "dialog/reader.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace dovetail::dialog {

namespace {

using Kind = AnswerEvent::Kind;

constexpr std::size_t kMaxHeld = 64;    // bytes of white space that may turn out to be none's
constexpr std::size_t kMaxName = 1024;  // bytes of a key, a header, a control token

std::vector<std::string> with_trimmed(const std::string& mark) {
  const std::string trimmed(trim_left(mark));
  if (trimmed == mark) return {mark};
  return {mark, trimmed};
}

std::string token(std::string_view spelling) {
  return kTokenOpen + std::string(spelling) + kTokenClose;
}

}  // namespace

FreeText::Found FreeText::scan(std::string_view text, std::size_t at, bool last) const {
  for (std::size_t i = at; i < text.size(); ++i) {
    const char c = text[i];
    bool may_begin = c == kTokenOpen;
    for (const std::string& mark : marks_) may_begin = may_begin || mark.front() == c;
    if (!may_begin) continue;
    const std::string_view here = text.substr(i);
    for (std::size_t mark = 0; mark < marks_.size(); ++mark) {
      if (here.starts_with(marks_[mark])) return {.end = i, .mark = mark};
    }
    const bool is_begin = std::ranges::any_of(
        marks_, [&](const std::string& mark) { return mark.starts_with(here); });
    if (is_begin && !last) return {.end = i};
    if (c == kTokenOpen) {
      const std::size_t close = here.find(kTokenClose);
      if (close != std::string_view::npos && close < kMaxName) {
        return {.end = i, .dropped = close + 1};
      }
      if (here.size() < kMaxName && !last) return {.end = i};
      return {.end = i, .dropped = here.size() < kMaxName ? here.size() : 1};
    }
  }
  return {.end = text.size()};
}

std::string Trimmer::add(std::string_view text) {
  if (skip_) {
    text = trim_left(text);
    if (text.empty()) return {};
    skip_ = false;
  }
  const std::string_view solid = trim_right(text);
  std::string out;
  if (!solid.empty()) {
    out = std::exchange(held_, {});
    out += solid;
  }
  held_ += text.substr(solid.size());
  if (held_.size() > kMaxHeld) {
    out += held_.substr(0, held_.size() - kMaxHeld);
    held_.erase(0, held_.size() - kMaxHeld);
  }
  return out;
}

AnswerReader::State::State(AnswerPlan plan_read)
    : plan(std::move(plan_read)),
      data_(plan.data()),
      reasoning_end_(data_.reasoning.close.empty()
                         ? std::vector<std::string>()
                         : std::vector<std::string>{data_.reasoning.close}),
      calls_begin_(data_.request.choice == ToolChoice::kNone ? std::vector<std::string>()
                                                             : data_.call_marks),
      value_end_(data_.format.value_close.empty() ? std::vector<std::string>()
                                                  : with_trimmed(data_.format.value_close)),
      message_end_({token("<|end|>"), token("<|start|>"), token("<|channel|>"), token("<|call|>"),
                    token("<|return|>")}) {
  if (data_.request.reasoning_opened && !data_.reasoning.open.empty()) {
    begin_free(data_.format.channels ? Mode::kBody : Mode::kReasoning, Kind::kReasoning, true);
  } else if (data_.format.channels) {
    mode_ = Mode::kHeader;
  }
}

void AnswerReader::State::read() {
  while (step()) {
  }
  text.erase(0, at);
  at = 0;
}

void AnswerReader::State::end() {
  if (mode_ == Mode::kReasoning || mode_ == Mode::kContent || mode_ == Mode::kBody) {
    if (std::string out = trimmer_.flush(); !out.empty()) give(free_kind_, std::move(out));
  } else if (mode_ == Mode::kValue && !value_so_far_.empty()) {
    std::string out;
    if (may_be_string()) out += '"';
    append_escaped(out, value_so_far_);
    give(Kind::kArguments, std::move(out));
  }
}

bool AnswerReader::State::step() {
  switch (mode_) {
    case Mode::kStart:
      return start();
    case Mode::kReasoning:
      return free_text(reasoning_end_, Mode::kContent);
    case Mode::kContent:
      return free_text(calls_begin_, Mode::kHead);
    case Mode::kHead:
      return head();
    case Mode::kJson:
      return json();
    case Mode::kPython:
      return python();
    case Mode::kKey:
      return key();
    case Mode::kValueText:
      return value_text();
    case Mode::kValueJson:
      return value_json();
    case Mode::kValue:
      return value();
    case Mode::kClose:
      return close();
    case Mode::kBetween:
      return between();
    case Mode::kHeader:
      return header();
    case Mode::kBody:
      return body();
  }
  return false;
}

bool AnswerReader::State::start() {
  const std::string_view open = data_.reasoning.open;
  if (!open.empty()) {
    const std::string_view solid = trim_left(rest());
    const bool is_near = rest().size() - solid.size() <= kMaxHeld;
    if (is_near && solid.starts_with(trim_right(open))) {
      at = text.size() - solid.size() + trim_right(open).size();
      begin_free(Mode::kReasoning, Kind::kReasoning, true);
      return true;
    }
    if (is_near && !last && trim_right(open).starts_with(solid)) return false;
  }
  begin_free(Mode::kContent, Kind::kContent, false);
  return true;
}

bool AnswerReader::State::free_text(const FreeText& until, Mode next) {
  const FreeText::Found found = until.scan(text, at, last);
  give_free(std::string_view(text).substr(at, found.end - at));
  const bool further = found.end > at || found.mark || found.dropped > 0;
  at = found.end + found.dropped;
  if (!found.mark) return further && at < text.size();
  if (next == Mode::kHead) {
    mark_size_ = until.mark(*found.mark).size();
    mode_ = Mode::kHead;
  } else {
    at += until.mark(*found.mark).size();
    begin_free(next, Kind::kContent, true);
  }
  return true;
}

// A mark whose call does not follow is content.
bool AnswerReader::State::head() {
  std::size_t tool = 0;
  const Matched found = match_head(data_.format.section_open + data_.format.open, tool);
  if (found.match == Match::kMore) return false;
  if (found.match == Match::kYes) {
    at = found.end;
    begin_call(tool, found.id);
    return true;
  }
  mode_ = Mode::kContent;
  if (text[at] != kTokenOpen) give_free(std::string_view(text).substr(at, mark_size_));
  at += mark_size_;
  return true;
}

// The longest of the tools' names counts that the rest of the head follows.
Matched AnswerReader::State::match_head(std::string_view open, std::size_t& tool) const {
  const Matched begin = match(open, Trailing::kAll);
  if (begin.match != Match::kYes) return begin;
  const std::string_view named = std::string_view(text).substr(begin.end);
  Matched out;
  std::size_t longest = 0;
  for (std::size_t i = 0; i < data_.request.tools.size(); ++i) {
    const std::string& name = data_.request.tools[i].name;
    if (name.starts_with(named) && !last) return {.match = Match::kMore};
    if (!named.starts_with(name) || name.size() < longest) continue;
    const std::size_t end = begin.end + name.size();
    Matched middle = match_text(text, end, data_.format.middle,
                                data_.format.style == ArgumentStyle::kJson ? Trailing::kNone
                                                                           : Trailing::kExact);
    // Where nothing follows a name, white space or a tag must.
    if (data_.format.middle.empty() && end < text.size() &&
        (is_name_char(text[end]) || text[end] == '.' || text[end] == ':')) {
      continue;
    }
    if (data_.format.middle.empty() && end == text.size() && !last) {
      return {.match = Match::kMore};
    }
    if (middle.match == Match::kMore && !last) return {.match = Match::kMore};
    if (middle.match != Match::kYes) continue;
    longest = name.size();
    tool = i;
    out = std::move(middle);
    if (out.id.empty()) out.id = begin.id;
  }
  return out;
}

bool AnswerReader::State::json() {
  if (!begun_) {
    skip_space();
    if (rest().empty()) return false;
    if (drop_token()) return true;
    if (rest().front() == kTokenOpen && !last) return false;
    if (rest().front() != '{') {
      lose();
      return true;
    }
    begun_ = true;
  }
  if (rest().empty()) return false;
  const std::size_t size = scanner_.take(rest().substr(0, rest().find(kTokenOpen)));
  if (size > 0) give(Kind::kArguments, text.substr(at, size));
  at += size;
  if (!scanner_.done()) return drop_token();
  if (data_.format.channels) {
    give(Kind::kCallEnd, {});
    begin_free(Mode::kBody, Kind::kContent, true);
  } else {
    mode_ = Mode::kClose;
  }
  return true;
}

bool AnswerReader::State::python() {
  std::string out;
  const std::size_t size = python_.take(rest().substr(0, rest().find(kTokenOpen)), out);
  at += size;
  if (!out.empty()) give(Kind::kArguments, std::move(out));
  if (!python_.done()) return drop_token();
  mode_ = Mode::kClose;
  return true;
}

bool AnswerReader::State::key() {
  skip_space();
  const CallFormat& format = data_.format;
  const Matched open = match(format.key_open, Trailing::kNone);
  if (open.match == Match::kYes) {
    // A key ends where the text that closes it begins.
    const std::string_view closing = trim_left(format.key_close);
    const std::size_t end = text.find(closing.front(), open.end);
    if (end == std::string::npos && !last && text.size() - open.end <= kMaxName) return false;
    if (end == std::string::npos || end - open.end > kMaxName) {
      lose();
      return true;
    }
    Matched close = match_text(text, end, format.key_close, Trailing::kExact);
    bool as_text = !format.other_close.empty() && close.match == Match::kYes;
    if (close.match == Match::kNo && !format.other_close.empty()) {
      close = match_text(text, end, format.other_close, Trailing::kExact);
    }
    if (close.match == Match::kMore && !last) return false;
    if (close.match != Match::kYes) {
      lose();
      return true;
    }
    const std::string name(trim_left(trim_right(std::string_view(text).substr(open.end, end - open.end))));
    parameter_ = parameter_of(name);
    value_is_text_ = as_text || (format.other_close.empty() && parameter_ != nullptr &&
                                 parameter_->strings == Strings::kOnly);
    std::string out = begun_ ? ",\"" : "{\"";
    append_escaped(out, name);
    out += value_is_text_ ? "\":\"" : "\":";
    give(Kind::kArguments, std::move(out));
    begun_ = true;
    at = close.end;
    value_so_far_.clear();
    scanner_ = {};
    mode_ = value_is_text_ ? Mode::kValueText : Mode::kValue;
    return true;
  }
  const Matched end = match(format.close);
  if (end.match == Match::kYes) {
    give(Kind::kArguments, begun_ ? "}" : "{}");
    mode_ = Mode::kClose;
    return true;
  }
  if (open.match == Match::kMore || end.match == Match::kMore) return false;
  if (drop_token()) return true;
  if (!rest().empty() && rest().front() == kTokenOpen && !last) return false;
  lose();
  return true;
}

bool AnswerReader::State::value_text() {
  const FreeText::Found found = value_end_.scan(text, at, last);
  std::string out;
  append_escaped(out, std::string_view(text).substr(at, found.end - at));
  if (found.mark) out += '"';
  const bool further = found.end > at || found.dropped > 0;
  if (!out.empty()) give(Kind::kArguments, std::move(out));
  at = found.end + found.dropped;
  if (!found.mark) return further && at < text.size();
  at += value_end_.mark(*found.mark).size();
  mode_ = Mode::kKey;
  return true;
}

// An object or a list may hold the text that closes a value, in a string.
bool AnswerReader::State::value_json() {
  if (rest().empty()) return false;
  const std::size_t size = scanner_.take(rest().substr(0, rest().find(kTokenOpen)));
  if (size > 0) give(Kind::kArguments, text.substr(at, size));
  at += size;
  if (!scanner_.done()) return drop_token();
  const Matched end = match(data_.format.value_close);
  if (end.match == Match::kMore) return false;
  if (end.match == Match::kYes) {
    at = end.end;
    mode_ = Mode::kKey;
  } else {
    lose();
  }
  return true;
}

bool AnswerReader::State::value() {
  if (value_so_far_.empty() && !may_be_string()) {
    skip_space();
    if (rest().starts_with('{') || rest().starts_with('[')) {
      mode_ = Mode::kValueJson;
      return true;
    }
  }
  const FreeText::Found found = value_end_.scan(text, at, last);
  value_so_far_ += std::string_view(text).substr(at, found.end - at);
  const bool further = found.end > at || found.dropped > 0;
  at = found.end + found.dropped;
  if (!found.mark) return further && at < text.size();
  const Json& document = data_.request.tools[tool_].parameters;
  const Json anything = true;
  const Json* schema = parameter_ == nullptr ? &anything : value_at(document, parameter_->at);
  const bool is_json = may_be_string() ? is_other_value(document, *schema, value_so_far_)
                                       : Json::accept(value_so_far_);
  std::string out;
  if (is_json) {
    out = trim_left(trim_right(value_so_far_));
  } else {
    out = '"';
    append_escaped(out, value_so_far_);
    out += '"';
  }
  give(Kind::kArguments, std::move(out));
  at += value_end_.mark(*found.mark).size();
  mode_ = Mode::kKey;
  return true;
}

bool AnswerReader::State::close() {
  const Matched end = match_text(text, at, data_.format.close);
  if (end.match == Match::kMore) return false;
  if (end.match == Match::kYes) at = end.end;
  give(Kind::kCallEnd, {}, end.id);
  if (data_.format.section_open.empty()) {
    begin_free(Mode::kContent, Kind::kContent, true);
  } else {
    mode_ = Mode::kBetween;
  }
  return true;
}

bool AnswerReader::State::between() {
  skip_space();
  std::size_t tool = 0;
  Matched next;
  Matched end;
  if (!data_.format.section_close.empty()) end = match(data_.format.section_close);
  if (end.match != Match::kYes) next = match_head(data_.format.between + data_.format.open, tool);
  if (next.match == Match::kYes) {
    at = next.end;
    begin_call(tool, next.id);
    return true;
  }
  const bool more = end.match == Match::kMore || next.match == Match::kMore;
  if (end.match != Match::kYes && more && !last) return false;
  if (end.match == Match::kYes) at = end.end;
  begin_free(Mode::kContent, Kind::kContent, true);
  return true;
}

bool AnswerReader::State::skip_space() {
  const std::size_t before = at;
  while (at < text.size() && is_space(text[at])) ++at;
  return at > before;
}

// A control token that nothing expects, where one stands whole.
bool AnswerReader::State::drop_token() {
  if (!rest().starts_with(kTokenOpen)) return false;
  const std::size_t close = rest().find(kTokenClose);
  if (close == std::string_view::npos && rest().size() < kMaxName) {
    if (last) at = text.size();
    return false;
  }
  at += close == std::string_view::npos || close >= kMaxName ? 1 : close + 1;
  return true;
}

Matched AnswerReader::State::match(std::string_view literal, Trailing trailing) const {
  Matched out = match_text(text, at, literal, trailing);
  if (out.match == Match::kMore && last) out.match = Match::kNo;
  return out;
}

void AnswerReader::State::give(Kind kind, std::string piece, std::string id) {
  if (!events.empty() && events.back().kind == kind && kind != Kind::kCallBegin &&
      kind != Kind::kCallEnd) {
    events.back().text += piece;
    return;
  }
  const bool of_call = kind != Kind::kReasoning && kind != Kind::kContent;
  events.push_back({kind, std::move(piece), of_call ? calls - 1 : 0, std::move(id)});
}

void AnswerReader::State::give_free(std::string_view piece) {
  std::string out = trimmer_.add(piece);
  if (!out.empty()) give(free_kind_, std::move(out));
}

// `skip`: white space ahead is left out.
void AnswerReader::State::begin_free(Mode mode, Kind kind, bool skip) {
  mode_ = mode;
  free_kind_ = kind;
  trimmer_.begin(skip);
}

void AnswerReader::State::begin_call(std::size_t tool, std::string id) {
  tool_ = tool;
  ++calls;
  const std::string& name = data_.request.tools[tool].name;
  if (data_.format.ids == IdRule::kNameIndex) id = "functions." + name + ":" + id;
  give(Kind::kCallBegin, name, std::move(id));
  begun_ = false;
  scanner_ = {};
  python_ = {};
  trimmer_.begin(false);
  switch (data_.format.style) {
    case ArgumentStyle::kJson:
      mode_ = Mode::kJson;
      break;
    case ArgumentStyle::kTagged:
      mode_ = Mode::kKey;
      break;
    case ArgumentStyle::kPythonic:
      mode_ = Mode::kPython;
      break;
  }
}

// The call does not go on as it should: what follows is content, up to the next call.
void AnswerReader::State::lose() {
  begin_free(data_.format.channels ? Mode::kBody : Mode::kContent, Kind::kContent, true);
}

// Whether a value without quotes can be meant as a string.
bool AnswerReader::State::may_be_string() const {
  return data_.format.other_close.empty() &&
         (parameter_ == nullptr || parameter_->strings != Strings::kNone);
}

const Parameter* AnswerReader::State::parameter_of(std::string_view name) const {
  const auto& known = data_.parameters[tool_];
  const auto found = std::ranges::find(known, name, &Parameter::name);
  return found == known.end() ? nullptr : &*found;
}

// Headers: " to=functions.NAME<|channel|>commentary json", "<|channel|>final", ...
bool AnswerReader::State::header() {
  static const std::string kMessage = token("<|message|>");
  const std::size_t end = text.find(kMessage, at);
  if (end == std::string::npos && rest().size() <= kMaxName) return false;
  if (end == std::string::npos || end + kMessage.size() - at > kMaxName) {
    begin_free(Mode::kBody, Kind::kContent, false);
    return true;
  }
  const std::string_view head = std::string_view(text).substr(at, end - at);
  at = end + kMessage.size();
  static constexpr std::string_view kTo = "to=functions.";
  if (const std::size_t to = head.find(kTo); to != std::string_view::npos) {
    const std::string_view named = head.substr(to + kTo.size());
    const std::string_view name = named.substr(0, named.find_first_of(" \n\t\xff"));
    const auto& tools = data_.request.tools;
    const auto tool = std::ranges::find(tools, name, &Tool::name);
    if (tool != tools.end() && data_.request.choice != ToolChoice::kNone) {
      begin_call(static_cast<std::size_t>(tool - tools.begin()), {});
      return true;
    }
  }
  const bool reasons = head.find("analysis") != std::string_view::npos;
  begin_free(Mode::kBody, reasons ? Kind::kReasoning : Kind::kContent, false);
  return true;
}

bool AnswerReader::State::body() {
  const FreeText::Found found = message_end_.scan(text, at, last);
  give_free(std::string_view(text).substr(at, found.end - at));
  const bool further = found.end > at || found.dropped > 0;
  at = found.end + found.dropped;
  if (!found.mark) return further && at < text.size();
  if (std::string out = trimmer_.flush(); !out.empty()) give(free_kind_, std::move(out));
  mode_ = Mode::kHeader;
  return true;
}

AnswerReader::AnswerReader(AnswerPlan plan) : state_(std::make_unique<State>(std::move(plan))) {}
AnswerReader::~AnswerReader() = default;
AnswerReader::AnswerReader(AnswerReader&&) noexcept = default;
AnswerReader& AnswerReader::operator=(AnswerReader&&) noexcept = default;

std::vector<AnswerEvent> AnswerReader::feed(std::string_view piece) {
  state_->text += piece;
  state_->read();
  return std::exchange(state_->events, {});
}

std::vector<AnswerEvent> AnswerReader::finish() {
  state_->last = true;
  state_->read();
  state_->end();
  return std::exchange(state_->events, {});
}

std::size_t AnswerReader::calls() const { return state_->calls; }

}  // namespace dovetail::dialog
