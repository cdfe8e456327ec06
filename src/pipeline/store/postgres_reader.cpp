#include "pipeline/store/postgres_reader.h"

#include <algorithm>
#include <utility>

#include "pipeline/store/meta_codec.h"
#include "pipeline/store/postgres_run.h"

namespace dovetail::pipeline {
namespace {

// Before all keys: the row that carries the columns.
constexpr RowKey kColumnsKey = -1;

}  // namespace

Result<PostgresReader> PostgresReader::open(const PostgresPlace& place) {
  PostgresReader reader;
  reader.place_ = place;
  if (auto ok = reader.connect(); !ok) return fail(std::move(ok.error()));
  const auto there = check_run(reader.connection_, place);
  if (!there) return fail(there.error());
  if (!*there) {
    return fail(ErrorKind::kNotFound, "{}: there is no run of this name in the database",
                place.shown);
  }
  return reader;
}

Status PostgresReader::connect() {
  if (connection_.good()) return {};
  auto connection = PgConnection::open(place_);
  if (!connection) return fail(std::move(connection.error()));
  connection_ = *std::move(connection);
  return {};
}

Result<std::vector<ColumnSpec>> PostgresReader::columns() {
  if (auto ok = connect(); !ok) return fail(std::move(ok.error()));
  auto columns = read_columns(connection_, place_);
  if (!columns) return fail(std::move(columns.error()));
  std::vector<ColumnSpec> specs;
  if (!*columns) return specs;
  for (StoredColumn& column : **columns) specs.push_back(std::move(column.spec));
  return specs;
}

Result<std::vector<Origin>> PostgresReader::origins() {
  if (auto ok = connect(); !ok) return fail(std::move(ok.error()));
  return read_origins(connection_, place_);
}

Result<std::optional<std::string>> PostgresReader::property(std::string_view name) {
  if (auto ok = connect(); !ok) return fail(std::move(ok.error()));
  return read_meta(connection_, place_, property_name(name));
}

Result<std::uint64_t> PostgresReader::spent() {
  if (auto ok = connect(); !ok) return fail(std::move(ok.error()));
  return read_spent(connection_, place_);
}

Status PostgresReader::start_rows(std::string_view sealed_columns) {
  const auto contents = unseal_meta(kColumnsMeta, sealed_columns);
  auto columns = contents ? decode_columns(*contents) : std::nullopt;
  if (!columns) return fail(damaged(place_, kColumnsMeta));
  auto ok = rows_.start(*std::move(columns));
  return ok ? ok : fail(damaged(place_, ok.error().message));
}

Status PostgresReader::for_each_cell(const RowReader::Sink& cell) {
  if (auto ok = connect(); !ok) return ok;
  // One statement sees one moment: the columns and the cells fit together.
  if (auto ok = rows_.start({}); !ok) return ok;
  bool more = true;
  auto ok = connection_.stream(
      "SELECT -1::bigint AS key, body FROM meta WHERE name = 'columns' "
      "UNION ALL SELECT key, body FROM cells ORDER BY key",
      [&](const PgRows& row) -> Result<bool> {
        const RowKey key = row.integer(0, 0);
        if (key == kColumnsKey) {
          auto started = start_rows(row.bytes(0, 1));
          return started ? Result<bool>(true) : fail(std::move(started.error()));
        }
        auto added = rows_.add(key, row.bytes(0, 1), cell);
        if (!added) return fail(damaged(place_, added.error().message));
        more = *added;
        return more;
      });
  if (!ok || !more) return ok;
  const auto ended = rows_.end(cell);
  return ended ? Status{} : fail(damaged(place_, ended.error().message));
}

Result<std::vector<CellResult>> PostgresReader::read_records(std::uint64_t first,
                                                             std::uint64_t end) {
  std::vector<CellResult> found;
  end = std::min(end, kMaxRecord + 1);
  if (first >= end) return found;
  if (auto ok = connect(); !ok) return fail(std::move(ok.error()));
  const auto rows = connection_.run(
      "SELECT -1::bigint AS key, body FROM meta WHERE name = 'columns' "
      "UNION ALL SELECT key, body FROM cells WHERE key BETWEEN $1 AND $2 ORDER BY key",
      PgParams().integer(row_key(first, kSharedSlot)).integer(row_key(end - 1, kMaxSlot)));
  if (!rows) return fail(rows.error());
  if (rows->count() < 2) return found;
  if (auto ok = start_rows(rows->bytes(0, 1)); !ok) return fail(std::move(ok.error()));
  const auto append = append_to(found);
  Result<bool> ok = true;
  for (int row = 1; ok && row < rows->count(); ++row) {
    ok = rows_.add(rows->integer(row, 0), rows->bytes(row, 1), append);
  }
  if (ok) ok = rows_.end(append);
  if (!ok) return fail(damaged(place_, ok.error().message));
  return found;
}

Result<std::optional<std::string>> PostgresReader::cached(const Hash128& key) {
  if (auto ok = connect(); !ok) return fail(std::move(ok.error()));
  const std::string name = response_key(key);
  const auto rows =
      connection_.run("SELECT body FROM responses WHERE key = $1", PgParams().bytes(name));
  if (!rows) return fail(rows.error());
  if (rows->count() == 0) return std::nullopt;
  const auto json = unseal_response(key, rows->bytes(0, 0));
  if (!json) return fail(damaged(place_, "a cached response: " + json.error().message));
  return std::string(*json);
}

}  // namespace dovetail::pipeline
