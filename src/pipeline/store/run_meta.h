#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "pipeline/store/batch.h"
#include "pipeline/store/sqlite_handle.h"

namespace dovetail::pipeline {

inline constexpr std::int64_t kApplicationId = 0x44765461;
inline constexpr std::int64_t kSchemaVersion = 1;

// Kept beside the rows; the first, so that one that vanished from a damaged file is noticed.
struct Counters {
  std::uint64_t rows = 0;
  std::uint64_t cache_bytes = 0;
  std::uint64_t spent = 0;
  friend bool operator==(const Counters&, const Counters&) = default;
};

// Tables of a new run; inside a transaction.
Status create_schema(Connection& connection);

// What the database is: true for a run of this version, false for an empty one. Anything else is an
// error that says what it is.
Result<bool> check_schema(Connection& connection);

// Named records with a checksum. A missing one is nothing.
Result<std::optional<std::string>> read_meta(Connection& connection, std::string_view name);
Status write_meta(Connection& connection, std::string_view name, std::string_view contents);

Result<Counters> read_counters(Connection& connection);
Status write_counters(Connection& connection, const Counters& counters);

// Nothing where no columns have been written yet.
Result<std::optional<std::vector<StoredColumn>>> read_columns(Connection& connection);
Status write_columns(Connection& connection, const std::vector<StoredColumn>& columns);

Result<std::vector<Origin>> read_origins(Connection& connection);

}  // namespace dovetail::pipeline
