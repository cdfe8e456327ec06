#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "pipeline/store/cell.h"
#include "pipeline/store/place.h"
#include "pipeline/store/postgres_handle.h"
#include "pipeline/store/row_reader.h"

namespace dovetail::pipeline {

// A connection that reads a run, with the functions of SqliteReader; one that was lost is made anew
// by the next call. One thread at a time.
class PostgresReader {
 public:
  static Result<PostgresReader> open(const PostgresPlace& place);

  Result<std::vector<ColumnSpec>> columns();
  Result<std::vector<Origin>> origins();
  Result<std::optional<std::string>> property(std::string_view name);
  Result<std::uint64_t> spent();
  Status for_each_cell(const RowReader::Sink& cell);
  Result<std::vector<CellResult>> read_records(std::uint64_t first, std::uint64_t end);
  Result<std::optional<std::string>> cached(const Hash128& key);

  bool connected() const { return connection_.good(); }

 private:
  PostgresReader() = default;
  Status connect();
  Status start_rows(std::string_view sealed_columns);

  PostgresPlace place_;
  PgConnection connection_;
  RowReader rows_;
};

}  // namespace dovetail::pipeline
