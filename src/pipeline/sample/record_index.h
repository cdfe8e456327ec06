#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "pipeline/sample/csv.h"
#include "pipeline/sample/seed_file.h"
#include "pipeline/sample/seed_spec.h"

namespace dovetail::pipeline {

// The records of CSV or JSON-lines files: where each one starts (8 bytes a record), and nothing of
// what they hold. Files are read once from end to end when the index is made, so that whatever is
// wrong with them is said before anything else starts, with file, line and column.
class RecordIndex {
 public:
  // Bounds on what one record may be; beyond them the file is refused.
  static constexpr std::size_t kLongestRecord = std::size_t{64} << 20U;
  static constexpr std::size_t kMostColumns = 4096;
  static constexpr int kDeepestJson = 64;

  // `files` in the order of their records; at least one. `spec` gives format, delimiter and types.
  static Result<RecordIndex> make(std::vector<SeedFile> files, const SeedSpec& spec);

  std::uint64_t count() const { return starts_.size(); }
  // CSV: those of the header, which all files share. JSON lines: all keys, in order of appearance.
  const std::vector<std::string>& columns() const { return columns_; }
  // A hash of all bytes of all files.
  std::uint64_t fingerprint() const { return fingerprint_; }

  // An object with all columns, null where a JSON line lacks one. kInvalid where the file has
  // changed. May be called from several threads at once.
  Result<nlohmann::ordered_json> row(std::uint64_t number) const;

  // Keeps only the records for which keep[i] is set.
  void keep_only(const std::vector<bool>& keep);

 private:
  struct Source {
    SeedFile file;
    std::uint64_t first_byte = 0;  // behind a byte order mark
  };
  class Scan;

  RecordIndex() = default;

  nlohmann::ordered_json csv_row(const CsvRecord& record) const;

  SeedFormat format_ = SeedFormat::kCsv;
  char delimiter_ = ',';
  std::vector<Source> sources_;
  std::vector<std::uint64_t> starts_;  // number of the file in the upper 16 bits, offset below
  std::vector<std::string> columns_;
  std::vector<SeedType> types_;  // of CSV columns
  std::size_t longest_ = 0;      // record, in bytes with its line end
  std::size_t usual_ = 0;        // about the average one
  std::uint64_t fingerprint_ = 0;
};

}  // namespace dovetail::pipeline
