#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "pipeline/store/cell.h"
#include "pipeline/store/row_reader.h"
#include "pipeline/store/run_meta.h"
#include "pipeline/store/sqlite_handle.h"

namespace dovetail::pipeline {

// A connection that reads what is durable; it keeps no lock between calls. One thread at a time.
class SqliteReader {
 public:
  static Result<SqliteReader> open(const std::filesystem::path& file);

  Result<std::vector<ColumnSpec>> columns();
  Result<std::vector<Origin>> origins();
  Result<std::optional<std::string>> property(std::string_view name);
  Result<std::uint64_t> spent();
  Status for_each_cell(const RowReader::Sink& cell);
  Result<std::vector<CellResult>> read_records(std::uint64_t first, std::uint64_t end);
  Result<std::optional<std::string>> cached(const Hash128& key);

 private:
  SqliteReader() = default;
  Status prepare();
  Status start_rows();
  Status scan(const RowReader::Sink& cell);
  Error broken(const Error& error) const;
  template <class Work>
  Status snapshot(Work&& work);

  Connection connection_;
  Statement begin_, end_, records_, response_;
  RowReader rows_;
};

}  // namespace dovetail::pipeline
