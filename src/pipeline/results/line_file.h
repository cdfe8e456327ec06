#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace dovetail::pipeline {

// Where lines end: behind every LF, or, in CSV, behind those outside of quotes.
enum class LineEnds : std::uint8_t { kEvery, kOutsideQuotes };

// A file that is written in whole lines, and written again from its beginning when a run is
// resumed: lines that are in the file already are compared, not written; from the first that
// differs on the file is cut and written anew. Not thread-safe.
class LineFile {
 public:
  // A new file; one that is there must be empty.
  static Result<LineFile> create(const std::filesystem::path& path);
  // One that may be there. What follows its last whole line is cut off at once.
  static Result<LineFile> reopen(const std::filesystem::path& path, LineEnds ends);

  LineFile(LineFile&& other) noexcept;
  LineFile& operator=(LineFile&& other) noexcept;
  ~LineFile();

  // The next line, with its end. It is kept until write(), or until many lines are. After an error
  // the file has the lines of before, and this one has not been taken.
  Status append(std::string_view line);
  // The lines that were kept, in one write. An error leaves the file as it was before, with whole
  // lines, and keeps the others: it may be called again. kNotFound: the path does not lead to this
  // file any more (it was deleted, moved or replaced), so that what is written would be lost.
  Status write();
  // Cuts what is left behind the last line.
  Status cut();
  // What was appended survives a loss of power, the file's name included.
  Status sync();

  const std::filesystem::path& path() const { return path_; }
  // Of lines, in bytes, from the beginning, those that are kept included.
  std::uint64_t size() const { return position_ + kept_.size(); }

 private:
  LineFile(std::filesystem::path path, int descriptor, std::uint64_t size)
      : path_(std::move(path)), descriptor_(descriptor), size_(size) {}
  Result<std::uint64_t> end_of_whole_lines(LineEnds ends) const;
  Result<bool> holds(std::string_view line);
  Status truncate(std::uint64_t size);
  Status check_place() const;

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;      // of the file
  std::uint64_t position_ = 0;  // behind the last line that is in the file; <= size_
  std::string kept_;            // what follows it, not written yet; then position_ == size_
  std::vector<char> ahead_;     // read from the file: what stands at ahead_at_
  std::uint64_t ahead_at_ = 0;
};

}  // namespace dovetail::pipeline
