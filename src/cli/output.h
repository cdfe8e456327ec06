#pragma once

#include <cstddef>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

// Where the program writes, and in what order.
namespace dovetail::cli {

// The standard output, or a file in its place. Errors of writing are noticed and name the file.
class OutputFile {
 public:
  // The standard output where `path` is empty or "-"; a file is emptied first.
  static Result<OutputFile> open(const std::string& path);

  ~OutputFile();
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;

  // Writes at once, so that readers see whole lines; goes on where a signal interrupts it.
  Status write(std::string_view text);
  // The same of a text that came from a model or a file: to a terminal as visible_text() has it.
  // Whole characters.
  Status show(std::string_view text);
  // Closes a file; later writes are not allowed.
  Status close();

 private:
  OutputFile(std::string name, std::FILE* file) : name_(std::move(name)), file_(file) {}

  std::string name_;
  std::FILE* file_;  // nullptr: closed
};

// Puts what comes in any order into the order of its index: an item is written as soon as all
// before it are. One thread.
class OrderedWriter {
 public:
  using Write = std::function<Status(std::string_view)>;

  explicit OrderedWriter(Write write) : write_(std::move(write)) {}

  // Each index once, from 0. An error is that of the writing.
  Status put(std::size_t index, std::string text);

  // Writes what waits behind a gap, in order; nothing may come afterwards.
  Status finish();

  std::size_t written() const { return next_; }  // the items before the first gap

 private:
  Write write_;
  std::size_t next_ = 0;
  std::map<std::size_t, std::string> waiting_;
};

// Writes `line` and a line end to standard error, to a terminal as visible_text() has it. Where
// that has lost its reader, the line is lost and nothing else. Any thread.
void notice(std::string_view line);
void dimmed_notice(std::string_view line);

}  // namespace dovetail::cli
