#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dialog/elements.h"
#include "dialog/free_text.h"
#include "dialog/plan.h"
#include "dialog/texts.h"
#include "dialog/values.h"

namespace dovetail::dialog {

struct AnswerReader::State {
  explicit State(AnswerPlan plan);

  void read();  // as far as the text goes
  void end();   // gives what is held back
  // What may be the beginning of a call, and now is none: no text of the answer.
  void drop_begun_call();

  AnswerPlan plan;
  std::string text;
  std::size_t at = 0;
  std::size_t taken = 0;                // bytes of the answer ahead of `text`
  std::optional<std::size_t> calls_at;  // of the answer
  bool last = false;                    // no more text comes
  std::vector<AnswerEvent> events;
  std::size_t calls = 0;

 private:
  enum class Mode {
    kStart,      // reasoning or content
    kReasoning,  // up to its close
    kContent,    // up to a call
    kHead,       // what follows a mark, up to the arguments
    kJson,       // the arguments
    kPython,
    kBare,
    kElementKey,  // of an element, or the end of the call
    kElement,     // its value
    kKey,         // of a tagged parameter, or the end of the call
    kValueText,   // a string as it stands
    kValueJson,   // an object or a list
    kValue,       // any other value, up to its close
    kClose,       // of a call
    kBetween,     // calls of a section
    kHeader,      // of a message with a channel
    kBody,
  };

  // Each returns whether it came further.
  bool step();
  bool start();
  bool free_text(const FreeText& until, Mode next);
  bool head();
  bool json();
  bool python();
  bool bare();
  bool element_key();
  bool element();
  bool key();
  bool value_text();
  bool value_json();
  bool value();
  bool close();
  bool between();
  bool header();
  bool body();

  std::string_view rest() const { return std::string_view(text).substr(at); }
  bool skip_space();
  bool drop_token();
  Matched match(std::string_view literal, Trailing trailing = Trailing::kNone) const;
  Matched match_head(std::string_view open, std::size_t& tool) const;
  void give(AnswerEvent::Kind kind, std::string text, std::string id = {});
  void give_free(std::string_view text);
  void begin_free(Mode mode, AnswerEvent::Kind kind, bool skip);
  void begin_call(std::size_t tool, std::string id);
  void begin_arguments();
  void lose();
  bool may_be_string() const;
  const Parameter* parameter_of(std::string_view name) const;

  const AnswerPlan::Data& data_;
  Mode mode_ = Mode::kStart;
  FreeText reasoning_end_;
  FreeText calls_begin_;
  FreeText value_end_;
  FreeText message_end_;
  Trimmer trimmer_;
  AnswerEvent::Kind free_kind_ = AnswerEvent::Kind::kContent;
  std::size_t mark_size_ = 0;  // of the mark that a head begins with
  std::size_t tool_ = 0;
  const Parameter* parameter_ = nullptr;  // null: the tool has none of this name
  bool value_is_text_ = false;            // as its tag says
  bool begun_ = false;                    // the JSON, or a parameter
  std::string value_so_far_;
  JsonScanner scanner_;
  PythonReader python_;
  BareReader bare_;
  ElementScanner element_;
  std::string element_name_;
};

}  // namespace dovetail::dialog
