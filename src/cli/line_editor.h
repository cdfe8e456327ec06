#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace dovetail::cli {

struct TypedLine {
  std::optional<std::string> text;  // nothing: the end of the input, or interrupted
  bool interrupted = false;         // by a signal: InterruptGuard::signal() has its number
  bool cleared = false;             // interrupted while something was typed, which is gone
};

// Lines of the standard input as they come, without their ends.
TypedLine read_plain_line();

// Reads lines from a terminal by libedit, with keys as Emacs and ~/.editrc have them: a history,
// completion by Tab, line breaks by Alt-Enter. What is pasted keeps its line breaks (bracketed
// paste). UTF-8 in and out. While read() waits an InterruptGuard must live.
class LineEditor {
 public:
  // `lines`: what Tab completes a line to, a word at a time. Null where the standard input or
  // output is no terminal, or one that cannot move its cursor. At most one at a time.
  static std::unique_ptr<LineEditor> create(std::vector<std::string> lines);

  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  TypedLine read(std::string_view prompt);

  // What the arrow keys and Ctrl-R find.
  void add_history(const std::string& entry);

 private:
  struct Impl;
  explicit LineEditor(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dovetail::cli
