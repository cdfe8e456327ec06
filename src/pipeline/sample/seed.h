#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "pipeline/sample/record_index.h"
#include "pipeline/sample/seed_file.h"
#include "pipeline/sample/seed_spec.h"
#include "pipeline/sample/stream.h"

namespace dovetail::pipeline {

// The rows of a seed by number, in the order that its description asks for. Holds no rows: CSV and
// JSON lines take 8 bytes each, single files their names. Immutable; rows may be asked for from
// several threads at once, in any order.
class SeedSource {
 public:
  // Rows there are: after filter and range, before they come again.
  std::uint64_t count() const { return count_; }
  const std::vector<std::string>& columns() const { return columns_; }
  // The row of a record, an object with the columns. kInvalid where there are fewer rows and `wrap`
  // is off, where a file has changed since open_seed(), or where a single file is no UTF-8.
  Result<nlohmann::ordered_json> row(std::uint64_t index) const;
  // A hash that tells this seed's rows from others': of all bytes of CSV and JSON lines, of names,
  // sizes and times of change of single files.
  std::uint64_t fingerprint() const { return fingerprint_; }

 private:
  friend Result<std::unique_ptr<SeedSource>> open_seed(const SeedSpec& spec,
                                                       const std::filesystem::path& base_dir,
                                                       std::uint64_t run_seed);
  SeedSource() = default;

  Status filter(const Condition& condition);
  Result<nlohmann::ordered_json> stored_row(std::uint64_t number) const;
  Result<nlohmann::ordered_json> file_row(const SeedFile& file) const;

  std::variant<std::vector<SeedFile>, RecordIndex> rows_;
  std::string path_;
  std::vector<std::string> columns_;
  bool all_columns_ = true;
  bool content_ = true;
  bool shuffled_ = false;
  bool wrap_ = false;
  std::uint64_t run_seed_ = 0;
  std::uint64_t begin_ = 0, count_ = 0;     // the range of stored rows
  std::optional<Permutation> first_order_;  // of the rows' first use
  std::uint64_t fingerprint_ = 0;
};

// Finds and checks the files (relative paths start at base_dir), and makes what finds their rows.
// Reads CSV and JSON lines once; memory stays bounded by the number of rows and the longest one.
// Errors name file, line and column, or the column that is missing.
Result<std::unique_ptr<SeedSource>> open_seed(const SeedSpec& spec,
                                              const std::filesystem::path& base_dir,
                                              std::uint64_t run_seed);

}  // namespace dovetail::pipeline
