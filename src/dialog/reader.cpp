#include "dialog/reader.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "grammar/vocabulary.h"

namespace dovetail::dialog {

namespace {

using Kind = AnswerEvent::Kind;

std::vector<std::string> with_trimmed(const std::string& mark) {
  const std::string trimmed(trim_left(mark));
  if (trimmed == mark) return {mark};
  return {mark, trimmed};
}

// What ends a piece of content: calls, and what stands around content.
std::vector<std::string> marks_in_content(const AnswerPlan::Data& plan) {
  std::vector<std::string> out;
  if (plan.request.choice != ToolChoice::kNone) out = plan.call_marks;
  for (const std::string* text : {&plan.content.open, &plan.content.close, &plan.content.end}) {
    if (!text->empty()) out.push_back(*text);
  }
  return out;
}

}  // namespace

AnswerReader::State::State(AnswerPlan plan_read)
    : plan(std::move(plan_read)),
      data_(plan.data()),
      reasoning_end_(data_.reasoning.close.empty()
                         ? std::vector<std::string>()
                         : std::vector<std::string>{data_.reasoning.close}),
      calls_begin_(marks_in_content(data_)),
      value_end_(data_.format.value_close.empty() ? std::vector<std::string>()
                                                  : with_trimmed(data_.format.value_close)),
      message_end_({grammar::control_token("<|end|>"), grammar::control_token("<|start|>"),
                    grammar::control_token("<|channel|>"), grammar::control_token("<|call|>"),
                    grammar::control_token("<|return|>")}) {
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
  taken += std::exchange(at, 0);
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

void AnswerReader::State::drop_begun_call() {
  if (mode_ != Mode::kHead && mode_ != Mode::kBetween) return;
  at = text.size();
  begin_free(Mode::kContent, Kind::kContent, true);
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
    case Mode::kBare:
      return bare();
    case Mode::kElementKey:
      return element_key();
    case Mode::kElement:
      return element();
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
  const std::string& mark = until.mark(*found.mark);
  const bool may_call = std::ranges::find(data_.call_marks, mark) != data_.call_marks.end();
  if (next == Mode::kHead && may_call) {
    mark_size_ = mark.size();
    mode_ = Mode::kHead;
  } else {
    at += mark.size();
    begin_free(Mode::kContent, Kind::kContent, true);
  }
  return true;
}

// A mark whose call does not follow is content.
bool AnswerReader::State::head() {
  std::size_t tool = 0;
  const Matched found = match_head(data_.format.section_open + data_.format.open, tool);
  if (found.match == Match::kMore) return false;
  if (found.match == Match::kYes) {
    if (!calls_at) calls_at = taken + at;
    at = found.end;
    begin_call(tool, found.id);
    return true;
  }
  mode_ = Mode::kContent;
  const std::string_view mark = rest().substr(0, mark_size_);
  give_free(mark.substr(0, mark.find(kTokenOpen)));
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
    Matched middle =
        match_text(text, end, data_.format.middle,
                   data_.format.style == ArgumentStyle::kJson ? Trailing::kNone : Trailing::kExact);
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
    const std::string_view key = std::string_view(text).substr(open.end, end - open.end);
    if (close.match != Match::kYes || key.find(kTokenOpen) != std::string_view::npos) {
      lose();
      return true;
    }
    const std::string name(trim_left(trim_right(key)));
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

bool AnswerReader::State::bare() {
  std::string out;
  const std::size_t size = bare_.take(rest(), out);
  at += size;
  if (!out.empty()) give(Kind::kArguments, std::move(out));
  if (bare_.done()) mode_ = Mode::kClose;
  return bare_.done();
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
  at += close >= kMaxName ? 1 : close + 1;
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
  const CallFormat& format = data_.format;
  if (format.ids == IdRule::kNameIndex) {
    id = "functions." + name + ":" + id;
  } else if ((format.open + format.middle).find(kIdPlace) == std::string::npos) {
    id.clear();  // a number is no id
  }
  give(Kind::kCallBegin, name, std::move(id));
  begun_ = false;
  scanner_ = {};
  python_ = {};
  bare_ = BareReader(data_.format.quote);
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
    case ArgumentStyle::kBare:
      mode_ = Mode::kBare;
      break;
    case ArgumentStyle::kElements:
      mode_ = Mode::kElementKey;
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
  state_->read();
  state_->drop_begun_call();
  state_->last = true;
  state_->read();
  state_->end();
  return std::exchange(state_->events, {});
}

std::size_t AnswerReader::calls() const { return state_->calls; }
std::optional<std::size_t> AnswerReader::calls_at() const { return state_->calls_at; }

}  // namespace dovetail::dialog
