#include "pipeline/store/run_meta.h"

#include <utility>

#include "pipeline/store/meta_codec.h"

namespace dovetail::pipeline {
namespace {

constexpr std::string_view kCounters = "counters";

}  // namespace

Status create_schema(Connection& connection) {
  return connection.execute(
      fmt::format("PRAGMA application_id={};"
                  "PRAGMA user_version={};"
                  // key: record << 16 | slot; body: row_codec.h.
                  "CREATE TABLE cells(key INTEGER PRIMARY KEY, body BLOB NOT NULL);"
                  "CREATE TABLE meta(name TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID;"
                  "CREATE TABLE origins(id INTEGER PRIMARY KEY, body BLOB NOT NULL);"
                  // By age, because the oldest goes first; random keys touch the index only.
                  "CREATE TABLE responses(age INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, "
                  "body BLOB NOT NULL);",
                  kApplicationId, kSchemaVersion));
}

Result<bool> check_schema(Connection& connection) {
  const auto application = connection.number("PRAGMA application_id");
  if (!application) return fail(application.error());
  const auto version = connection.number("PRAGMA user_version");
  if (!version) return fail(version.error());
  if (*application == 0 && *version == 0) {
    const auto tables = connection.number("SELECT count(*) FROM sqlite_schema");
    if (!tables) return fail(tables.error());
    if (*tables == 0) return false;
  }
  if (*application != kApplicationId) {
    return fail(ErrorKind::kInvalid,
                "{}: the file is a database, but not that of a run; name the file that the run "
                "made, or another file for a new run",
                connection.file());
  }
  if (*version != kSchemaVersion) {
    return fail(ErrorKind::kUnsupported,
                "{}: the run was made by a version of Dovetail with layout {}, and this one reads "
                "layout {}; use that version, or start the run anew under another name",
                connection.file(), *version, kSchemaVersion);
  }
  return true;
}

Result<std::optional<std::string>> read_meta(Connection& connection, std::string_view name) {
  auto statement = connection.prepare("SELECT body FROM meta WHERE name=CAST(?1 AS TEXT)");
  if (!statement) return fail(std::move(statement.error()));
  statement->bind(1, name);
  auto row = statement->step();
  if (!row) return fail(std::move(row.error()));
  if (!*row) return std::nullopt;
  const auto contents = unseal_meta(name, statement->bytes(0));
  if (!contents) {
    return fail(damaged(connection.file(), fmt::format("{}: {}", name, contents.error().message)));
  }
  return std::string(*contents);
}

Status write_meta(Connection& connection, std::string_view name, std::string_view contents) {
  auto statement = connection.prepare("INSERT OR REPLACE INTO meta VALUES(CAST(?1 AS TEXT), ?2)");
  if (!statement) return fail(std::move(statement.error()));
  const std::string sealed = seal_meta(name, contents);
  statement->bind(1, name);
  statement->bind(2, sealed);
  return statement->run();
}

Result<Counters> read_counters(Connection& connection) {
  const auto contents = read_meta(connection, kCounters);
  if (!contents) return fail(contents.error());
  Counters counters;
  if (!*contents) return counters;
  std::string_view in = **contents;
  if (!take_number(in, counters.rows) || !take_number(in, counters.cache_bytes) ||
      !take_number(in, counters.spent) || !in.empty()) {
    return fail(damaged(connection.file(), "counters"));
  }
  return counters;
}

Status write_counters(Connection& connection, const Counters& counters) {
  std::string contents;
  append_number(contents, counters.rows);
  append_number(contents, counters.cache_bytes);
  append_number(contents, counters.spent);
  return write_meta(connection, kCounters, contents);
}

Result<std::optional<std::vector<StoredColumn>>> read_columns(Connection& connection) {
  const auto contents = read_meta(connection, kColumnsMeta);
  if (!contents) return fail(contents.error());
  if (!*contents) return std::nullopt;
  auto columns = decode_columns(**contents);
  if (!columns) return fail(damaged(connection.file(), "columns"));
  return columns;
}

Status write_columns(Connection& connection, const std::vector<StoredColumn>& columns) {
  return write_meta(connection, kColumnsMeta, encode_columns(columns));
}

Result<std::vector<Origin>> read_origins(Connection& connection) {
  auto statement = connection.prepare("SELECT id, body FROM origins ORDER BY id");
  if (!statement) return fail(std::move(statement.error()));
  std::vector<Origin> origins;
  for (;;) {
    const auto row = statement->step();
    if (!row) return fail(row.error());
    if (!*row) return origins;
    const auto id = static_cast<std::uint64_t>(statement->integer(0));
    auto origin = decode_origin(id, statement->bytes(1));
    if (!origin || id != origins.size() + 1) {
      return fail(damaged(connection.file(), fmt::format("origin {}", id)));
    }
    origins.push_back(*std::move(origin));
  }
}

}  // namespace dovetail::pipeline
