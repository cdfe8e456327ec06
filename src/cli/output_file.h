#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include "base/result.h"

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
  // Closes a file; later writes are not allowed.
  Status close();

 private:
  OutputFile(std::string name, std::FILE* file) : name_(std::move(name)), file_(file) {}

  std::string name_;
  std::FILE* file_;  // nullptr: closed
};

}  // namespace dovetail::cli
