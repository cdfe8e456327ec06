#include "pipeline/store/sqlite_reader.h"

#include <algorithm>
#include <limits>
#include <system_error>
#include <utility>

namespace dovetail::pipeline {
namespace {

constexpr std::uint32_t kNoColumn = std::numeric_limits<std::uint32_t>::max();

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
    return fail(ErrorKind::kNotFound, "{}: there is no run; name the file that a run made",
                file.string());
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
        std::pair{&record_, "SELECT key, body FROM cells WHERE key BETWEEN ?1 AND ?2 ORDER BY key"},
        std::pair{&response_, "SELECT body FROM responses WHERE key=?1"}}) {
    auto made = connection_.prepare(text);
    if (!made) return fail(std::move(made.error()));
    *statement = *std::move(made);
  }
  return {};
}

Status SqliteReader::load_columns() {
  auto columns = read_columns(connection_);
  if (!columns) return fail(std::move(columns.error()));
  columns_ = columns->has_value() ? **std::move(columns) : std::vector<StoredColumn>{};
  column_of_slot_.clear();
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const std::size_t slot = columns_[i].slot;
    if (slot >= column_of_slot_.size()) column_of_slot_.resize(slot + 1, kNoColumn);
    if (column_of_slot_[slot] != kNoColumn) {
      return fail(damaged(connection_.file(), "two columns in one place"));
    }
    column_of_slot_[slot] = static_cast<std::uint32_t>(i);
  }
  return {};
}

Result<std::vector<ColumnSpec>> SqliteReader::columns() {
  if (auto ok = load_columns(); !ok) return fail(std::move(ok.error()));
  std::vector<ColumnSpec> specs;
  for (const StoredColumn& column : columns_) specs.push_back(column.spec);
  return specs;
}

Result<std::vector<Origin>> SqliteReader::origins() { return read_origins(connection_); }

Result<std::optional<std::string>> SqliteReader::property(std::string_view name) {
  return read_meta(connection_, property_name(name));
}

Result<bool> SqliteReader::emit(const std::vector<std::string>& rows,
                                const std::vector<RowKey>& keys,
                                const std::function<bool(const CellView&)>& cell) {
  const auto broken = [&](std::string_view what) {
    return fail(
        damaged(connection_.file(), fmt::format("record {}: {}", record_of(keys[0]), what)));
  };
  cells_.clear();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (auto ok = decode_row(rows[i], keys[i], cells_); !ok) return broken(ok.error().message);
  }
  for (SlotCell& found : cells_) {
    if (found.slot >= column_of_slot_.size() || column_of_slot_[found.slot] == kNoColumn) {
      return broken("a cell of no column");
    }
    found.slot = column_of_slot_[found.slot];
  }
  const auto by_column = [](const SlotCell& a, const SlotCell& b) { return a.slot < b.slot; };
  if (!std::is_sorted(cells_.begin(), cells_.end(), by_column)) {
    std::sort(cells_.begin(), cells_.end(), by_column);
  }
  for (std::size_t i = 1; i < cells_.size(); ++i) {
    if (cells_[i - 1].slot == cells_[i].slot) return broken("a cell is there twice");
  }
  for (const SlotCell& found : cells_) {
    if (!cell({record_of(keys[0]), found.slot, found.state, found.json, found.provenance})) {
      return false;
    }
  }
  return true;
}

Status SqliteReader::for_each_cell(const std::function<bool(const CellView&)>& cell) {
  return snapshot([&] { return scan(cell); });
}

Status SqliteReader::scan(const std::function<bool(const CellView&)>& cell) {
  if (auto ok = load_columns(); !ok) return ok;
  const auto counters = read_counters(connection_);
  if (!counters) return fail(counters.error());
  auto select = connection_.prepare("SELECT key, body FROM cells ORDER BY key");
  if (!select) return fail(std::move(select.error()));
  // The rows of a record, copied because the next step takes a row away; the strings are reused.
  std::vector<std::string> rows;
  std::vector<RowKey> keys;
  std::uint64_t seen = 0;
  RowKey last = -1;
  for (;;) {
    const auto row = select->step();
    if (!row) return fail(row.error());
    const RowKey key = *row ? select->integer(0) : 0;
    if (*row && key <= last) return fail(damaged(connection_.file(), "rows out of order"));
    if (!keys.empty() && (!*row || record_of(key) != record_of(keys[0]))) {
      const auto more = emit(rows, keys, cell);
      if (!more) return fail(more.error());
      if (!*more) return {};
      keys.clear();
    }
    if (!*row) break;
    if (rows.size() == keys.size()) rows.emplace_back();
    rows[keys.size()].assign(select->bytes(1));
    keys.push_back(key);
    last = key;
    ++seen;
  }
  if (seen != counters->rows) {
    return fail(damaged(connection_.file(),
                        fmt::format("{} rows are there, {} were written", seen, counters->rows)));
  }
  return {};
}

Result<std::vector<CellResult>> SqliteReader::read_record(std::uint64_t record) {
  std::vector<CellResult> found;
  if (record > kMaxRecord) return found;
  auto ok = snapshot([&]() -> Status {
    if (auto loaded = load_columns(); !loaded) return loaded;
    std::vector<std::string> rows;
    std::vector<RowKey> keys;
    record_.bind(1, row_key(record, kSharedSlot));
    record_.bind(2, row_key(record, kMaxSlot));
    for (;;) {
      const auto row = record_.step();
      if (!row) return fail(row.error());
      if (!*row) break;
      keys.push_back(record_.integer(0));
      rows.emplace_back(record_.bytes(1));
      if (record_of(keys.back()) != record) {
        record_.reset();
        return fail(damaged(connection_.file(), "rows out of order"));
      }
    }
    if (keys.empty()) return {};
    const auto emitted = emit(rows, keys, [&](const CellView& cell) {
      found.push_back(
          {cell.record, cell.column, cell.state, std::string(cell.json), cell.provenance});
      return true;
    });
    return emitted ? Status{} : fail(emitted.error());
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
  const auto json = unseal(response_.bytes(0), key.high ^ key.low);
  std::optional<std::string> found;
  if (json) found = std::string(*json);
  response_.reset();
  if (!json) {
    return fail(damaged(connection_.file(), "a cached response: " + json.error().message));
  }
  return found;
}

}  // namespace dovetail::pipeline
