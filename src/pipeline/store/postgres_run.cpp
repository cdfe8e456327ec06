#include "pipeline/store/postgres_run.h"

#include <xxhash.h>

#include <utility>

#include "pipeline/store/meta_codec.h"
#include "pipeline/store/row_codec.h"

namespace dovetail::pipeline {
namespace {

constexpr std::string_view kLayoutMeta = "layout";
constexpr std::string_view kEpochMeta = "epoch";
constexpr std::string_view kSpentMeta = "spent";
constexpr std::uint64_t kLayout = 1;

Result<std::optional<std::uint64_t>> read_number(PgConnection& connection,
                                                 const PostgresPlace& place,
                                                 std::string_view name) {
  const auto contents = read_meta(connection, place, name);
  if (!contents) return fail(contents.error());
  if (!*contents) return std::nullopt;
  std::string_view in = **contents;
  std::uint64_t number = 0;
  if (!take_number(in, number) || !in.empty()) return fail(damaged(place, name));
  return number;
}

Status write_number(PgConnection& connection, std::string_view name, std::uint64_t number) {
  std::string contents;
  append_number(contents, number);
  return write_meta(connection, name, contents);
}

}  // namespace

Result<bool> check_run(PgConnection& connection, const PostgresPlace& place) {
  const auto there = connection.run("SELECT to_regclass('meta') IS NOT NULL");
  if (!there) return fail(there.error());
  if (there->integer(0, 0) == 0) return false;
  const auto layout = read_number(connection, place, kLayoutMeta);
  if (!layout) return fail(layout.error());
  if (*layout != kLayout) {
    return fail(ErrorKind::kUnsupported,
                "{}: the run was made by a version of Dovetail with layout {}, and this one reads "
                "layout {}; use that version, or start the run anew under another name",
                place.shown, layout->value_or(0), kLayout);
  }
  return true;
}

Status create_run(PgConnection& connection, const PostgresPlace& place) {
  const auto schema = connection.run(
      "SELECT to_regnamespace(quote_ident(convert_from($1, 'UTF8')))"
      " IS NOT NULL",
      PgParams().bytes(place.schema));
  if (!schema) return fail(schema.error());
  // A role that may not make schemas can be given one.
  if (schema->integer(0, 0) == 0) {
    if (auto ok = connection.execute(fmt::format("CREATE SCHEMA \"{}\"", place.schema)); !ok) {
      return ok;
    }
  }
  auto ok = connection.execute(
      "CREATE TABLE meta(name bytea PRIMARY KEY, body bytea NOT NULL);"
      "CREATE TABLE cells(key bigint PRIMARY KEY, body bytea NOT NULL);"
      "CREATE TABLE origins(id bigint PRIMARY KEY, body bytea NOT NULL);"
      "CREATE TABLE responses(age bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
      " key bytea NOT NULL UNIQUE, size bigint NOT NULL, body bytea NOT NULL);"
      "CREATE TABLE ranges(number bigint PRIMARY KEY, state bigint NOT NULL DEFAULT 0,"
      " token bigint NOT NULL DEFAULT 0, worker text NOT NULL DEFAULT '',"
      " expires timestamptz NOT NULL DEFAULT '-infinity', lasts bigint NOT NULL DEFAULT 0);"
      "CREATE INDEX ranges_open ON ranges(number) WHERE state < 2");
  if (ok) ok = write_epoch(connection, 0);
  return ok ? write_number(connection, kLayoutMeta, kLayout) : ok;
}

std::int64_t lock_number(const PostgresPlace& place, RunKey key) {
  const std::uint64_t hash = XXH3_64bits(place.schema.data(), place.schema.size());
  return static_cast<std::int64_t>((hash & ~std::uint64_t{1}) | static_cast<std::uint64_t>(key));
}

Result<bool> try_work_lock(PgConnection& connection, const PostgresPlace& place, bool alone) {
  const auto got = connection.run(
      alone ? "SELECT pg_try_advisory_lock($1)" : "SELECT pg_try_advisory_lock_shared($1)",
      PgParams().integer(lock_number(place, RunKey::kWork)));
  if (!got) return fail(got.error());
  return got->integer(0, 0) != 0;
}

Status drop_work_lock(PgConnection& connection, const PostgresPlace& place, bool alone) {
  const auto dropped = connection.run(
      alone ? "SELECT pg_advisory_unlock($1)" : "SELECT pg_advisory_unlock_shared($1)",
      PgParams().integer(lock_number(place, RunKey::kWork)));
  return dropped ? Status{} : fail(dropped.error());
}

Status wait_for_plan_lock(PgConnection& connection, const PostgresPlace& place) {
  const auto got = connection.run("SELECT pg_advisory_xact_lock($1)",
                                  PgParams().integer(lock_number(place, RunKey::kPlan)));
  return got ? Status{} : fail(got.error());
}

Error held_by_others(PgConnection& connection, const PostgresPlace& place) {
  const auto names = connection.run(
      "SELECT coalesce(string_agg(DISTINCT application_name, ', '), '') "
      "FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE locktype = 'advisory' AND granted "
      "AND pid <> pg_backend_pid() AND objsubid = 1 "
      "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
      "AND (classid::bigint << 32 | objid::bigint) = $1",
      PgParams().integer(lock_number(place, RunKey::kWork)));
  const std::string holders =
      names && !names->bytes(0, 0).empty() ? std::string(names->bytes(0, 0)) : "unknown";
  return {ErrorKind::kUnavailable,
          fmt::format("{}: the run is being worked on by another process ({}); wait until it has "
                      "ended, or end it",
                      place.shown, holders)};
}

Result<std::optional<std::string>> read_meta(PgConnection& connection, const PostgresPlace& place,
                                             std::string_view name) {
  const auto rows = connection.run("SELECT body FROM meta WHERE name = $1", PgParams().bytes(name));
  if (!rows) return fail(rows.error());
  if (rows->count() == 0) return std::nullopt;
  const auto contents = unseal_meta(name, rows->bytes(0, 0));
  if (!contents) {
    return fail(damaged(place, fmt::format("{}: {}", name, contents.error().message)));
  }
  return std::string(*contents);
}

Status write_meta(PgConnection& connection, std::string_view name, std::string_view contents) {
  const std::string sealed = seal_meta(name, contents);
  const auto done = connection.run(
      "INSERT INTO meta VALUES($1, $2) ON CONFLICT (name) DO UPDATE SET body = excluded.body",
      PgParams().bytes(name).bytes(sealed));
  return done ? Status{} : fail(done.error());
}

Result<std::uint64_t> read_epoch(PgConnection& connection, const PostgresPlace& place) {
  const auto epoch = read_number(connection, place, kEpochMeta);
  if (!epoch) return fail(epoch.error());
  if (!*epoch) return fail(damaged(place, "it has no epoch"));
  return **epoch;
}

Status write_epoch(PgConnection& connection, std::uint64_t epoch) {
  return write_number(connection, kEpochMeta, epoch);
}

Result<std::uint64_t> read_spent(PgConnection& connection, const PostgresPlace& place) {
  const auto spent = read_number(connection, place, kSpentMeta);
  if (!spent) return fail(spent.error());
  return spent->value_or(0);
}

Result<std::uint64_t> add_spent(PgConnection& connection, const PostgresPlace& place,
                                std::uint64_t more) {
  const auto spent = read_spent(connection, place);
  if (!spent) return fail(spent.error());
  const std::uint64_t all = *spent + more;
  if (auto ok = write_number(connection, kSpentMeta, all); !ok) return fail(ok.error());
  return all;
}

Result<std::optional<std::vector<StoredColumn>>> read_columns(PgConnection& connection,
                                                              const PostgresPlace& place) {
  const auto contents = read_meta(connection, place, kColumnsMeta);
  if (!contents) return fail(contents.error());
  if (!*contents) return std::nullopt;
  auto columns = decode_columns(**contents);
  if (!columns) return fail(damaged(place, kColumnsMeta));
  return columns;
}

Result<std::vector<Origin>> read_origins(PgConnection& connection, const PostgresPlace& place) {
  const auto rows = connection.run("SELECT id, body FROM origins ORDER BY id");
  if (!rows) return fail(rows.error());
  std::vector<Origin> origins;
  for (int row = 0; row < rows->count(); ++row) {
    const auto id = static_cast<std::uint64_t>(rows->integer(row, 0));
    auto origin = decode_origin(id, rows->bytes(row, 1));
    if (!origin || id != origins.size() + 1) {
      return fail(damaged(place, fmt::format("origin {}", id)));
    }
    origins.push_back(*std::move(origin));
  }
  return origins;
}

}  // namespace dovetail::pipeline
