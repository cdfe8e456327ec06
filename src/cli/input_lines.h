#pragma once

#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"

namespace dovetail::cli {

// The lines of a file that is read more than once, in constant memory.
class InputLines {
 public:
  struct Line {
    std::size_t number = 0;  // from 1
    std::string text;        // without its end
  };

  static constexpr std::size_t kLongestLine = std::size_t{16} << 20;  // bytes, its end included

  // "-" is the standard input. What cannot be rewound (pipes) is copied to a temporary file first.
  static Result<InputLines> open(const std::string& path);

  // The next line that is not blank; nothing at the end.
  Result<std::optional<Line>> next();
  // Back to the first line.
  Status rewind();

  const std::string& name() const { return name_; }  // for messages

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  using File = std::unique_ptr<std::FILE, Close>;

  InputLines(std::string name, File file) : name_(std::move(name)), file_(std::move(file)) {}
  static Result<File> spool(const std::string& name, std::FILE* from);

  std::string name_;
  File file_;
  std::size_t line_ = 0;
};

}  // namespace dovetail::cli
