#include "pipeline/store/sqlite_reader.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "pipeline/store/meta_codec.h"

namespace dovetail::pipeline {
namespace {

// A file name as SQLite's URIs want it.
std::string immutable_uri(const std::string& file) {
  std::string uri = "file:";
  for (const char c : file) {
    if (c == '?' || c == '#' || c == '%') {
      uri += fmt::format("%{:02x}", static_cast<unsigned>(c));
    } else {
      uri += c;
    }
  }
  return uri + "?immutable=1";
}

bool is_closed(const std::filesystem::path& file) {
  std::filesystem::path log = file;
  log += "-wal";
  std::error_code error;
  return !std::filesystem::exists(log, error);
}

}  // namespace

template <class Work>
Status SqliteReader::snapshot(Work&& work) {
  if (auto ok = begin_.run(); !ok) return ok;
  auto ok = work();
  auto ended = end_.run();
  return ok ? ended : ok;
}

Result<SqliteReader> SqliteReader::open(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::exists(file, error)) {
    return fail(ErrorKind::kNotFound,
                "{}: there is no run; name the file or the folder that a run made", file.string());
  }
  const auto attempt = [&](const std::string& name, int flags) -> Result<SqliteReader> {
    auto connection = Connection::open(name, file.string(), SQLITE_OPEN_READONLY | flags);
    if (!connection) return fail(std::move(connection.error()));
    SqliteReader reader;
    reader.connection_ = *std::move(connection);
    if (auto ok = reader.prepare(); !ok) return fail(std::move(ok.error()));
    return reader;
  };
  auto reader = attempt(file.string(), 0);
  // Beside its file SQLite keeps two more, which a read-only folder has no place for. Where the run
  // was closed properly they are not needed.
  if (!reader && reader.error().kind == ErrorKind::kIo && is_closed(file)) {
    if (auto again = attempt(immutable_uri(file.string()), SQLITE_OPEN_URI)) return again;
  }
  return reader;
}

Status SqliteReader::prepare() {
  sqlite3_busy_timeout(connection_.get(), 2000);
  if (auto ok = connection_.execute("PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON"); !ok) {
    return ok;
  }
  const auto run = check_schema(connection_);
  if (!run) return fail(run.error());
  if (!*run) {
    return fail(ErrorKind::kInvalid, "{}: there is no run in this file; name the file of a run",
                connection_.file());
  }
  for (const auto& [statement, text] :
       {std::pair{&begin_, "BEGIN"}, std::pair{&end_, "COMMIT"},
        std::pair{&records_,
                  "SELECT key, body FROM cells WHERE key BETWEEN ?1 AND ?2 ORDER BY key"},
        std::pair{&response_, "SELECT body FROM responses WHERE key=?1"}}) {
    auto made = connection_.prepare(text);
    if (!made) return fail(std::move(made.error()));
    *statement = *std::move(made);
  }
  return {};
}

Result<std::vector<ColumnSpec>> SqliteReader::columns() {
  auto columns = read_columns(connection_);
  if (!columns) return fail(std::move(columns.error()));
  std::vector<ColumnSpec> specs;
  if (!*columns) return specs;
  for (StoredColumn& column : **columns) specs.push_back(std::move(column.spec));
  return specs;
}

Status SqliteReader::start_rows() {
  auto columns = read_columns(connection_);
  if (!columns) return fail(std::move(columns.error()));
  auto ok = rows_.start(columns->value_or(std::vector<StoredColumn>{}));
  return ok ? ok : fail(broken(ok.error()));
}

Error SqliteReader::broken(const Error& error) const {
  return damaged(connection_.file(), error.message);
}

Result<std::vector<Origin>> SqliteReader::origins() { return read_origins(connection_); }

Result<std::optional<std::string>> SqliteReader::property(std::string_view name) {
  return read_meta(connection_, property_name(name));
}

Result<std::uint64_t> SqliteReader::spent() {
  const auto counters = read_counters(connection_);
  if (!counters) return fail(counters.error());
  return counters->spent;
}

Status SqliteReader::for_each_cell(const RowReader::Sink& cell) {
  return snapshot([&] { return scan(cell); });
}

Status SqliteReader::scan(const RowReader::Sink& cell) {
  if (auto ok = start_rows(); !ok) return ok;
  const auto counters = read_counters(connection_);
  if (!counters) return fail(counters.error());
  auto select = connection_.prepare("SELECT key, body FROM cells ORDER BY key");
  if (!select) return fail(std::move(select.error()));
  std::uint64_t seen = 0;
  for (;;) {
    const auto row = select->step();
    if (!row) return fail(row.error());
    const auto more =
        *row ? rows_.add(select->integer(0), select->bytes(1), cell) : rows_.end(cell);
    if (!more) return fail(broken(more.error()));
    if (!*more) return {};
    if (!*row) break;
    ++seen;
  }
  if (seen != counters->rows) {
    return fail(damaged(connection_.file(),
                        fmt::format("{} rows are there, {} were written", seen, counters->rows)));
  }
  return {};
}

Result<std::vector<CellResult>> SqliteReader::read_records(std::uint64_t first, std::uint64_t end) {
  std::vector<CellResult> found;
  end = std::min(end, kMaxRecord + 1);
  if (first >= end) return found;
  const auto append = append_to(found);
  auto ok = snapshot([&]() -> Status {
    if (auto started = start_rows(); !started) return started;
    records_.bind(1, row_key(first, kSharedSlot));
    records_.bind(2, row_key(end - 1, kMaxSlot));
    for (;;) {
      const auto row = records_.step();
      if (!row) return fail(row.error());
      const auto added =
          *row ? rows_.add(records_.integer(0), records_.bytes(1), append) : rows_.end(append);
      if (!added) {
        records_.reset();
        return fail(broken(added.error()));
      }
      if (!*row) return {};
    }
  });
  if (!ok) return fail(std::move(ok.error()));
  return found;
}

Result<std::optional<std::string>> SqliteReader::cached(const Hash128& key) {
  const std::string name = response_key(key);
  response_.bind(1, name);
  const auto row = response_.step();
  if (!row) return fail(row.error());
  if (!*row) return std::nullopt;
  const auto json = unseal_response(key, response_.bytes(0));
  std::optional<std::string> found;
  if (json) found = std::string(*json);
  response_.reset();
  if (!json) {
    return fail(damaged(connection_.file(), "a cached response: " + json.error().message));
  }
  return found;
}

}  // namespace dovetail::pipeline
