#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dovetail::dialog {

// The longest key, header or control token in bytes.
inline constexpr std::size_t kMaxName = 1024;
// White space that may turn out to stand between two parts of an answer, in bytes.
inline constexpr std::size_t kMaxHeld = 64;

// What stands between marks: free text that goes on.
class FreeText {
 public:
  explicit FreeText(std::vector<std::string> marks) : marks_(std::move(marks)) {}

  struct Found {
    std::size_t end = 0;                   // the text goes to here
    std::optional<std::size_t> mark = {};  // the mark that follows it
    std::size_t dropped = 0;               // bytes of a control token that nothing expects
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

}  // namespace dovetail::dialog
