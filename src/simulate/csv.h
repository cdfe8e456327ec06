#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace dovetail::simulate {

struct CsvRow {
  std::size_t line = 0;        // in the file, from 1
  std::vector<double> values;  // one per column of the table
};

struct CsvTable {
  std::vector<std::string_view> columns;  // those asked for, needed ones first
  std::vector<CsvRow> rows;
};

// Reads numbers from a CSV text whose first line names its columns, in any order; empty lines and
// lines that begin with # are left out. Optional columns that are missing are 0; others are an
// error. kInvalid names `name`, line and column. The columns' names must outlive the table.
Result<CsvTable> parse_csv(std::string_view text, std::string_view name,
                           std::initializer_list<std::string_view> needed,
                           std::initializer_list<std::string_view> optional);

// The text of a file of at most 4 GiB.
Result<std::string> read_csv_file(const std::string& path);

}  // namespace dovetail::simulate
