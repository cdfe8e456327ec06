#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "dialog/format.h"
#include "dialog/tool.h"

namespace dovetail::dialog {

// What an answer may be, for one request on one model: a language for the grammar module, and the
// way to read it. Immutable; copies share.
class AnswerPlan {
 public:
  // Errors: kInvalid or kUnsupported, where a tool's schema asks for what cannot be written in this
  // format, naming the tool and the JSON pointer. (What the grammar module cannot keep, it says
  // when it compiles the structure.)
  static Result<AnswerPlan> create(const DialogFormat& format, AnswerRequest request);

  // The language as GrammarKind::kStructure takes it; empty: any text, no grammar is needed.
  const std::string& structure() const;
  // Whether the engine must write control tokens into the text for the reader
  // (Request::mark_control_tokens).
  bool marks() const;

  struct Data;
  const Data& data() const { return *data_; }

 private:
  std::shared_ptr<const Data> data_;
};

// One piece of an answer. Of one kind, texts of consecutive events add up.
struct AnswerEvent {
  enum class Kind : std::uint8_t { kReasoning, kContent, kCallBegin, kArguments, kCallEnd };
  Kind kind = Kind::kContent;
  std::string text;      // kCallBegin: the function's name; kArguments: a piece of the JSON object
  std::size_t call = 0;  // which call, from 0
  std::string id;        // the id that the text gives the call; empty: none. Of kCallBegin, or of
                         // kCallEnd where it stands behind the arguments
};

// Turns the text of one answer, as it comes in pieces, into events. What it gives does not depend
// on the cut into pieces. A text outside of the plan's language, which only a model without a
// grammar gives, is read as content where it is not clear. One thread at a time.
class AnswerReader {
 public:
  explicit AnswerReader(AnswerPlan plan);
  ~AnswerReader();
  AnswerReader(AnswerReader&&) noexcept;
  AnswerReader& operator=(AnswerReader&&) noexcept;

  std::vector<AnswerEvent> feed(std::string_view piece);
  // At the end of the text: what was held back. A call that was cut has its begin and the arguments
  // so far, and no end.
  std::vector<AnswerEvent> finish();
  // Calls begun so far.
  std::size_t calls() const;
  // Where in the text the first of them begins, with what opens it; not set: there is none. Of a
  // message with a channel: behind its role.
  std::optional<std::size_t> calls_at() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dovetail::dialog
