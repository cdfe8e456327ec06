#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace dovetail::pipeline {

// What is wrong with a document: each mistake is one line, whatever of the document it shows.
class Mistakes {
 public:
  void add(const Error& one);
  // Of a status(), or nothing.
  void add(const Status& several);

  bool empty() const { return lines_.empty(); }
  std::size_t size() const { return lines_.size(); }
  // An error of the first one's kind, whose message has a line for each, in the order of add().
  Status status() const;

 private:
  std::vector<std::string> lines_;
  ErrorKind kind_ = ErrorKind::kInvalid;
};

// The mistakes of a status()'s message. Views of it.
std::vector<std::string_view> lines_of(std::string_view message);

// For the end of an error message: "valid: a, b, c", with " (did you mean 'b'?)" where one is near.
// More than 20 candidates are cut.
std::string valid_names(std::string_view word, std::span<const std::string_view> candidates);
std::string valid_names(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace dovetail::pipeline
