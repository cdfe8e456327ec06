#include "pipeline/store/sqlite_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <system_error>
#include <utility>

#include "pipeline/store/meta_codec.h"
#include "pipeline/store/mutation.h"
#include "pipeline/store/reconciliation.h"

namespace dovetail::pipeline {
namespace {

// Of 4, 8 and 16 KiB the fastest by a tenth, for text and for many small rows.
constexpr int kPageBytes = 8192;
// Log pages after which they are moved into the database: seldom enough that it costs little.
constexpr int kLogPages = 8192;

// A new file is durable when its entry in the folder is.
void sync_folder(const std::filesystem::path& file) {
  const auto folder = file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
  const int handle = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (handle < 0) return;
  ::fsync(handle);
  ::close(handle);
}

}  // namespace

template <class Work>
Status SqliteWriter::transaction(Work&& work) {
  auto ok = begin_.run();
  if (ok) {
    ok = work();
    if (ok) ok = commit_.run();
    // A file that was unlinked takes commits as well, and loses them with the process.
    if (ok) ok = is_there();
  }
  // Some failures end the transaction by themselves.
  if (!ok && sqlite3_get_autocommit(connection_.get()) == 0) (void)rollback_.run();
  return ok;
}

Result<SqliteWriter> SqliteWriter::open(const std::filesystem::path& file, bool resume,
                                        std::uint64_t cache_bytes) {
  std::error_code error;
  const bool there = std::filesystem::exists(file, error);
  if (resume && !there) {
    return fail(ErrorKind::kNotFound,
                "{}: there is no run to resume; name its file or folder, or start anew",
                file.string());
  }
  if (there && !std::filesystem::is_regular_file(file, error)) {
    return fail(ErrorKind::kInvalid, "{}: is not a file; name the file of a run", file.string());
  }
  auto lock = RunLock::take(file);
  if (!lock) return fail(std::move(lock.error()));
  auto connection = Connection::open(file.string(), file.string(),
                                     SQLITE_OPEN_READWRITE | (resume ? 0 : SQLITE_OPEN_CREATE));
  if (!connection) return fail(std::move(connection.error()));
  SqliteWriter writer;
  writer.lock_ = *std::move(lock);
  writer.connection_ = *std::move(connection);
  writer.cache_bytes_ = cache_bytes;
  if (sqlite3_db_readonly(writer.connection_.get(), "main") == 1) {
    return fail(sqlite_error(file.string(), SQLITE_READONLY, 0, "no permission to write"));
  }
  if (auto ok = writer.prepare(resume); !ok) return fail(std::move(ok.error()));
  if (!there) sync_folder(file);
  return writer;
}

Status SqliteWriter::prepare(bool resume) {
  sqlite3_busy_timeout(connection_.get(), 2000);
  if (auto ok = connection_.execute("PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON"); !ok) {
    return ok;
  }
  const auto run = check_schema(connection_);
  if (!run) return fail(run.error());
  if (!*run) {
    if (auto ok = connection_.execute(fmt::format("PRAGMA page_size={}", kPageBytes)); !ok) {
      return ok;
    }
  }
  auto mode = connection_.prepare("PRAGMA journal_mode=WAL");
  if (!mode) return fail(std::move(mode.error()));
  const auto answered = mode->step();
  if (!answered) return fail(answered.error());
  if (!*answered || mode->bytes(0) != "wal") {
    return fail(ErrorKind::kUnsupported,
                "{}: the file system cannot keep a write-ahead log (a network drive?); choose a "
                "folder on a local disk",
                connection_.file());
  }
  mode->reset();
  // FULL: each commit waits until the log is on the disk (README.md says why less is not enough).
  // The log is moved into the database by tidy(), after those who wait have their answer.
  const std::string_view synchronous = mutated(StoreMutant::kSyncSeldom) ? "NORMAL" : "FULL";
  if (auto ok = connection_.execute(
          fmt::format("PRAGMA synchronous={}; PRAGMA fullfsync=ON;"
                      "PRAGMA checkpoint_fullfsync=ON; PRAGMA wal_autocheckpoint=0;"
                      "PRAGMA temp_store=MEMORY; PRAGMA cache_size=-65536",
                      synchronous));
      !ok) {
    return ok;
  }
  sqlite3_wal_hook(
      connection_.get(),
      [](void* pages, sqlite3*, const char*, int count) {
        *static_cast<int*>(pages) = count;
        return SQLITE_OK;
      },
      log_pages_.get());
  for (const auto& [statement, text] :
       {std::pair{&begin_, "BEGIN IMMEDIATE"}, std::pair{&commit_, "COMMIT"},
        std::pair{&rollback_, "ROLLBACK"}}) {
    auto made = connection_.prepare(text);
    if (!made) return fail(std::move(made.error()));
    *statement = *std::move(made);
  }
  if (!*run) {
    if (auto ok = transaction([&] { return create_schema(connection_); }); !ok) return ok;
  }
  for (const auto& [statement, text] :
       {std::pair{&insert_, "INSERT OR IGNORE INTO cells VALUES(?1, ?2)"},
        std::pair{&select_, "SELECT body FROM cells WHERE key=?1"},
        std::pair{&update_, "UPDATE cells SET body=?2 WHERE key=?1"}}) {
    auto made = connection_.prepare(text);
    if (!made) return fail(std::move(made.error()));
    *statement = *std::move(made);
  }
  auto columns = read_columns(connection_);
  if (!columns) return fail(std::move(columns.error()));
  auto counters = read_counters(connection_);
  if (!counters) return fail(std::move(counters.error()));
  auto origins = read_origins(connection_);
  if (!origins) return fail(std::move(origins.error()));
  // A run whose columns have not been written yet holds nothing.
  if (*columns && !resume) {
    return fail(ErrorKind::kInvalid,
                "{}: there is a run in this file already; go on with it by `dovetail pipeline "
                "resume`, or name another folder (--output) or file for a new run",
                connection_.file());
  }
  if (!*columns && *counters != Counters{}) {
    return fail(damaged(connection_.file(), "it has no columns"));
  }
  if (*columns) columns_ = **std::move(columns);
  counters_ = *counters;
  origins_ = *std::move(origins);
  return {};
}

Result<Reconciliation> SqliteWriter::reconcile(std::span<const ColumnSpec> columns) {
  auto plan = plan_slots(columns_, columns);
  if (!plan) return fail(std::move(plan.error()));
  Counters counters = counters_;
  auto ok = transaction([&]() -> Status {
    if (plan->deletes) {
      auto removed = remove_slots(plan->gone, counters);
      if (!removed) return fail(std::move(removed.error()));
      plan->found.deleted_cells = *removed;
    }
    if (auto written = write_columns(connection_, plan->next); !written) return written;
    return write_counters(connection_, counters);
  });
  if (!ok) return fail(std::move(ok.error()));
  columns_ = std::move(plan->next);
  counters_ = counters;
  tidy();
  return std::move(plan->found);
}

Result<std::uint64_t> SqliteWriter::remove_slots(const std::vector<bool>& gone,
                                                 Counters& counters) {
  auto select = connection_.prepare(
      fmt::format("SELECT key, CASE WHEN key & {0} = {1} THEN body END FROM cells "
                  "WHERE key > ?1 ORDER BY key LIMIT 4096",
                  kMaxSlot, kSharedSlot));
  if (!select) return fail(std::move(select.error()));
  auto remove = connection_.prepare("DELETE FROM cells WHERE key=?1");
  if (!remove) return fail(std::move(remove.error()));
  std::uint64_t removed = 0;
  std::vector<std::pair<RowKey, std::string>> changes;  // an empty row goes
  std::string rest;
  // Reads some rows, then changes them: what a query sees of its own changes is not defined.
  RowKey last = -1;
  for (bool more = true; more;) {
    changes.clear();
    select->bind(1, last);
    more = false;
    for (;;) {
      const auto row = select->step();
      if (!row) return fail(row.error());
      if (!*row) break;
      more = true;
      last = select->integer(0);
      if (slot_of(last) != kSharedSlot) {
        if (gone[slot_of(last)]) {
          changes.emplace_back(last, "");
          ++removed;
        }
        continue;
      }
      const auto dropped = drop_slots(select->bytes(1), last, gone, rest);
      if (!dropped) {
        return fail(damaged(connection_.file(), fmt::format("record {}: {}", record_of(last),
                                                            dropped.error().message)));
      }
      if (*dropped > 0) changes.emplace_back(last, rest);
      removed += *dropped;
    }
    for (const auto& [key, row] : changes) {
      Statement& change = row.empty() ? *remove : update_;
      change.bind(1, key);
      if (row.empty()) {
        --counters.rows;
      } else {
        change.bind(2, row);
      }
      if (auto ok = change.run(); !ok) return fail(std::move(ok.error()));
    }
  }
  return removed;
}

Status SqliteWriter::is_there() {
  int moved = 0;
  sqlite3_file_control(connection_.get(), "main", SQLITE_FCNTL_HAS_MOVED, &moved);
  if (moved == 0) return {};
  std::error_code unknown;
  const auto folder = std::filesystem::path(connection_.file()).parent_path();
  if (!folder.empty() && !std::filesystem::exists(folder, unknown)) {
    return fail(ErrorKind::kNotFound,
                "{}: its folder was deleted or moved while the run was going on; `dovetail "
                "pipeline resume` goes on in the folder's new place",
                connection_.file());
  }
  return fail(ErrorKind::kNotFound,
              "{}: the file was removed or replaced while the run was going on, and what the run "
              "made is lost with it; start the run anew, or resume it from a copy of the file",
              connection_.file());
}

Status SqliteWriter::commit(const Batch& batch) {
  if (batch.changes_nothing()) return {};
  Counters counters = counters_;
  auto ok = transaction([&]() -> Status {
    if (auto written = write(batch, counters); !written) return written;
    counters.spent += batch.spent;
    return counters == counters_ ? Status{} : write_counters(connection_, counters);
  });
  if (ok) counters_ = counters;
  return ok;
}

Status SqliteWriter::write(const Batch& batch, Counters& counters) {
  const std::string_view bytes = batch.bytes;
  for (const Batch::Row& row : batch.rows) {
    if (auto ok = write_row(row.key, bytes.substr(row.offset, row.size), counters); !ok) return ok;
  }
  return batch.responses.empty() ? Status{} : write_responses(batch, counters);
}

Status SqliteWriter::write_row(RowKey key, std::string_view sealed, Counters& counters) {
  insert_.bind(1, key);
  insert_.bind(2, sealed);
  if (auto ok = insert_.run(); !ok) return ok;
  if (sqlite3_changes(connection_.get()) == 1) {
    ++counters.rows;
    return {};
  }
  std::string merged;
  if (slot_of(key) == kSharedSlot) {
    select_.bind(1, key);
    const auto row = select_.step();
    if (!row) return fail(row.error());
    if (!*row) return fail(damaged(connection_.file(), "a row is there and is not"));
    auto both = merge_rows(select_.bytes(0), sealed, key);
    select_.reset();
    if (!both) {
      return fail(damaged(connection_.file(),
                          fmt::format("record {}: {}", record_of(key), both.error().message)));
    }
    merged = *std::move(both);
    sealed = merged;
  }
  update_.bind(1, key);
  update_.bind(2, sealed);
  return update_.run();
}

Status SqliteWriter::write_responses(const Batch& batch, Counters& counters) {
  auto insert = connection_.prepare("INSERT OR IGNORE INTO responses(key, body) VALUES(?1, ?2)");
  if (!insert) return fail(std::move(insert.error()));
  for (const Batch::Response& response : batch.responses) {
    if (response.json.size() > cache_bytes_) continue;
    const std::string sealed = seal_response(response.key, response.json);
    const std::string key = response_key(response.key);
    insert->bind(1, key);
    insert->bind(2, sealed);
    if (auto ok = insert->run(); !ok) return ok;
    if (sqlite3_changes(connection_.get()) == 1) counters.cache_bytes += response.json.size();
  }
  if (counters.cache_bytes <= cache_bytes_) return {};
  auto oldest = connection_.prepare(
      "DELETE FROM responses WHERE age=(SELECT min(age) FROM responses) RETURNING length(body)");
  if (!oldest) return fail(std::move(oldest.error()));
  while (counters.cache_bytes > cache_bytes_) {
    const auto row = oldest->step();
    if (!row) return fail(row.error());
    if (!*row) {
      counters.cache_bytes = 0;
      return {};
    }
    const auto size = static_cast<std::uint64_t>(
        std::max<std::int64_t>(0, oldest->integer(0) - std::int64_t{kSealBytes}));
    counters.cache_bytes -= std::min(counters.cache_bytes, size);
    if (auto ok = oldest->run(); !ok) return ok;
  }
  return {};
}

void SqliteWriter::tidy() {
  if (*log_pages_ < kLogPages) return;
  // What a reader still needs stays in the log, and so does what finds no room: next time, then.
  if (sqlite3_wal_checkpoint_v2(connection_.get(), nullptr, SQLITE_CHECKPOINT_PASSIVE, nullptr,
                                nullptr) == SQLITE_OK) {
    *log_pages_ = 0;
  }
}

Result<std::uint32_t> SqliteWriter::add_origin(const Origin& origin) {
  const auto place = std::find(origins_.begin(), origins_.end(), origin);
  const auto id = static_cast<std::uint32_t>(place - origins_.begin()) + 1;
  if (place != origins_.end()) return id;
  auto ok = transaction([&]() -> Status {
    auto insert = connection_.prepare("INSERT INTO origins VALUES(?1, ?2)");
    if (!insert) return fail(std::move(insert.error()));
    const std::string body = encode_origin(id, origin);
    insert->bind(1, std::int64_t{id});
    insert->bind(2, body);
    return insert->run();
  });
  if (!ok) return fail(std::move(ok.error()));
  origins_.push_back(origin);
  return id;
}

Status SqliteWriter::set_property(std::string_view name, std::string_view value) {
  return transaction([&] { return write_meta(connection_, property_name(name), value); });
}

}  // namespace dovetail::pipeline
