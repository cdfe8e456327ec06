#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "pipeline/results/line_file.h"

namespace dovetail::pipeline {

enum class ResultsFormat : std::uint8_t { kJsonLines, kCsv };

// By the suffix: .jsonl, .ndjson, .json (JSON lines), .csv, in any case. kInvalid for others.
Result<ResultsFormat> results_format(const std::filesystem::path& file);

struct ResultsOptions {
  std::filesystem::path file;
  std::optional<ResultsFormat> format;  // absent: by the suffix
  std::vector<std::string> columns;     // of a row, in order; CSV has these and its header
  // Dropped records as JSON lines; made when the first is dropped. Empty: they are only counted.
  std::filesystem::path dropped_file;
  // The run is resumed: the files may be there. Otherwise ones that are not empty are an error.
  bool resume = false;
};

// Writes the records of a run, in order, to a file that can be read while it grows, in writes of
// whole lines. A resumed run hands over its records from the first again; the files end up with the
// bytes of an uninterrupted one. Not thread-safe. Errors (kIo, kNotFound, kInvalid) name the file;
// after one from add() or write() the files hold whole records and the same call may be tried
// again.
class ResultsWriter {
 public:
  static Result<ResultsWriter> open(ResultsOptions options);

  // The next record. `row` is an object by column. `reason`: why it was dropped; empty: it was not.
  // It may be kept until write().
  Status add(std::uint64_t record, const Json& row, std::string_view reason);

  // What was added is in the files, where anybody can read it.
  Status write();
  // What was added is durable. Leaves what a resumed run has not come to yet.
  Status sync();
  // There are no further records: cuts what older lines there may be behind the last, and syncs.
  Status finish();

  std::uint64_t accepted() const { return accepted_; }
  std::uint64_t dropped() const { return dropped_; }

 private:
  ResultsWriter(ResultsOptions options, ResultsFormat format, LineFile file)
      : options_(std::move(options)), format_(format), file_(std::move(file)) {}

  Status open_dropped();

  ResultsOptions options_;
  ResultsFormat format_;
  LineFile file_;
  std::optional<LineFile> dropped_file_;
  std::string line_;
  std::uint64_t accepted_ = 0, dropped_ = 0;
};

}  // namespace dovetail::pipeline
