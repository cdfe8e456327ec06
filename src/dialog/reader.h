#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dialog/plan.h"
#include "dialog/texts.h"
#include "dialog/values.h"

namespace dovetail::dialog {

// What stands between marks: free text that goes on.
class FreeText {
 public:
  explicit FreeText(std::vector<std::string> marks) : marks_(std::move(marks)) {}

  struct Found {
    std::size_t end = 0;           // the text goes to here
    std::optional<std::size_t> mark = {};  // the mark that follows it
    std::size_t dropped = 0;       // bytes of a control token that nothing expects
  };
  // In `text` from `at` on. What may be the begin of a mark is not part of it unless `last`.
  Found scan(std::string_view text, std::size_t at, bool last) const;
  const std::string& mark(std::size_t index) const { return marks_[index]; }

 private:
  std::vector<std::string> marks_;
};

// Events of free text, of which white space at its begin and end is left out where a call or the
// end of reasoning follows.
class Trimmer {
 public:
  void begin(bool skip) {
    skip_ = skip;
    held_.clear();
  }
  // What can be given of the text so far.
  std::string add(std::string_view text);
  std::string flush() { return std::exchange(held_, {}); }

 private:
  bool skip_ = false;
  std::string held_;
};

struct AnswerReader::State {
  explicit State(AnswerPlan plan);

  void read();  // as far as the text goes
  void end();   // gives what is held back

  AnswerPlan plan;
  std::string text;
  std::size_t at = 0;
  bool last = false;  // no more text comes
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
    kKey,        // of a tagged parameter, or the end of the call
    kValueText,  // a string as it stands
    kValueJson,  // an object or a list
    kValue,      // any other value, up to its close
    kClose,      // of a call
    kBetween,    // calls of a section
    kHeader,     // of a message with a channel
    kBody,
  };

  // Each returns whether it came further.
  bool step();
  bool start();
  bool free_text(const FreeText& until, Mode next);
  bool head();
  bool json();
  bool python();
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
  bool begun_ = false;  // the JSON, or a parameter
  std::string value_so_far_;
  JsonScanner scanner_;
  PythonReader python_;
};

}  // namespace dovetail::dialog
