#include "pipeline/store/run_meta.h"

#include <xxhash.h>

#include <utility>

namespace dovetail::pipeline {
namespace {

constexpr std::string_view kColumns = "columns";
constexpr std::string_view kCounters = "counters";

std::uint64_t seed(std::string_view name) { return XXH3_64bits(name.data(), name.size()); }

void append_text(std::string& out, std::string_view text) {
  append_number(out, text.size());
  out.append(text);
}

bool take_text(std::string_view& in, std::string& text) {
  std::uint64_t size = 0;
  if (!take_number(in, size) || size > in.size()) return false;
  text = in.substr(0, static_cast<std::size_t>(size));
  in.remove_prefix(static_cast<std::size_t>(size));
  return true;
}

void append_hash(std::string& out, const Hash128& hash) {
  append_number(out, hash.high);
  append_number(out, hash.low);
}

bool take_hash(std::string_view& in, Hash128& hash) {
  return take_number(in, hash.high) && take_number(in, hash.low);
}

bool take_column(std::string_view& in, StoredColumn& column) {
  std::uint64_t slot = 0;
  std::uint64_t small = 0;
  if (!take_text(in, column.spec.name) || !take_hash(in, column.spec.fingerprint) ||
      !take_number(in, small) || !take_number(in, slot) || small > 1 || slot == kSharedSlot ||
      slot > kMaxSlot) {
    return false;
  }
  column.spec.small = small == 1;
  column.slot = static_cast<std::uint32_t>(slot);
  return true;
}

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
  const auto contents = unseal(statement->bytes(0), seed(name));
  if (!contents) {
    return fail(damaged(connection.file(), fmt::format("{}: {}", name, contents.error().message)));
  }
  return std::string(*contents);
}

Status write_meta(Connection& connection, std::string_view name, std::string_view contents) {
  auto statement = connection.prepare("INSERT OR REPLACE INTO meta VALUES(CAST(?1 AS TEXT), ?2)");
  if (!statement) return fail(std::move(statement.error()));
  std::string sealed;
  open_row(sealed);
  sealed.append(contents);
  seal_row(sealed, 0, seed(name));
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
  if (!take_number(in, counters.rows) || !take_number(in, counters.cache_bytes) || !in.empty()) {
    return fail(damaged(connection.file(), "counters"));
  }
  return counters;
}

Status write_counters(Connection& connection, const Counters& counters) {
  std::string contents;
  append_number(contents, counters.rows);
  append_number(contents, counters.cache_bytes);
  return write_meta(connection, kCounters, contents);
}

Result<std::optional<std::vector<StoredColumn>>> read_columns(Connection& connection) {
  const auto contents = read_meta(connection, kColumns);
  if (!contents) return fail(contents.error());
  if (!*contents) return std::nullopt;
  std::vector<StoredColumn> columns;
  std::string_view in = **contents;
  while (!in.empty()) {
    if (!take_column(in, columns.emplace_back())) {
      return fail(damaged(connection.file(), "columns"));
    }
  }
  return columns;
}

Status write_columns(Connection& connection, const std::vector<StoredColumn>& columns) {
  std::string contents;
  for (const StoredColumn& column : columns) {
    append_text(contents, column.spec.name);
    append_hash(contents, column.spec.fingerprint);
    append_number(contents, column.spec.small ? 1 : 0);
    append_number(contents, column.slot);
  }
  return write_meta(connection, kColumns, contents);
}

std::string property_name(std::string_view name) { return fmt::format("property:{}", name); }

std::string response_key(const Hash128& key) {
  std::string bytes;
  for (const std::uint64_t half : {key.high, key.low}) {
    for (int shift = 56; shift >= 0; shift -= 8) {
      bytes.push_back(static_cast<char>(static_cast<std::uint8_t>(half >> shift)));
    }
  }
  return bytes;
}

std::string encode_origin(std::uint32_t id, const Origin& origin) {
  std::string sealed;
  open_row(sealed);
  append_text(sealed, origin.model);
  append_hash(sealed, origin.parameters);
  seal_row(sealed, 0, id);
  return sealed;
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
    auto contents = unseal(statement->bytes(1), id);
    if (!contents || id != origins.size() + 1 ||
        !take_text(*contents, origins.emplace_back().model) ||
        !take_hash(*contents, origins.back().parameters) || !contents->empty()) {
      return fail(damaged(connection.file(), fmt::format("origin {}", id)));
    }
  }
}

}  // namespace dovetail::pipeline
