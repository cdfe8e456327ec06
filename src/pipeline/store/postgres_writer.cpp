#include "pipeline/store/postgres_writer.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <thread>
#include <unordered_map>
#include <utility>

#include "pipeline/store/meta_codec.h"
#include "pipeline/store/mutation.h"
#include "pipeline/store/postgres_run.h"
#include "pipeline/store/row_codec.h"

namespace dovetail::pipeline {
namespace {

// One statement takes less than a gigabyte.
constexpr std::size_t kStatementBytes = std::size_t{64} << 20;
constexpr std::size_t kStatementRows = 65'536;
constexpr auto kLockPatience = std::chrono::seconds{2};

std::uint64_t new_epoch() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

Status done(Result<PgRows> rows) { return rows ? Status{} : fail(std::move(rows.error())); }

}  // namespace

Result<PostgresWriter> PostgresWriter::open(const PostgresPlace& place, OpenMode mode,
                                            std::uint64_t cache_bytes) {
  PostgresWriter writer;
  writer.place_ = place;
  writer.shared_ = mode == OpenMode::kShare;
  writer.cache_bytes_ = cache_bytes;
  writer.cached_since_ = cache_bytes;
  auto ok = writer.patiently([&] { return writer.begin(mode); });
  if (!ok) return fail(std::move(ok.error()));
  return writer;
}

// The server takes a moment to notice that a process was killed, and gives its locks back then.
template <class Attempt>
auto PostgresWriter::patiently(Attempt attempt) -> decltype(attempt()) {
  const auto give_up = std::chrono::steady_clock::now() + kLockPatience;
  for (;;) {
    auto result = attempt();
    if (result || result.error().kind != ErrorKind::kUnavailable || !connected() ||
        std::chrono::steady_clock::now() > give_up) {
      return result;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{50});
  }
}

Status PostgresWriter::begin(OpenMode mode) {
  auto connection = PgConnection::open(place_);
  if (!connection) return fail(std::move(connection.error()));
  connection_ = *std::move(connection);
  auto status = connection_.transaction("BEGIN", [&]() -> Status {
    if (auto ok = wait_for_plan_lock(connection_, place_); !ok) return ok;
    const auto there = check_run(connection_, place_);
    if (!there) return fail(there.error());
    if (!*there && mode == OpenMode::kResume) {
      return fail(ErrorKind::kNotFound,
                  "{}: there is no run to resume; name it as it was named, or start anew",
                  place_.shown);
    }
    if (!*there) {
      if (auto ok = create_run(connection_, place_); !ok) return ok;
    }
    auto columns = read_columns(connection_, place_);
    if (!columns) return fail(std::move(columns.error()));
    // A run whose columns have not been written yet holds nothing.
    if (*columns && mode == OpenMode::kCreate) {
      return fail(ErrorKind::kInvalid,
                  "{}: there is a run of this name already; go on with it by `dovetail pipeline "
                  "resume`, or "
                  "choose another name for a new run",
                  place_.shown);
    }
    if (*columns) columns_ = **std::move(columns);
    const auto epoch = read_epoch(connection_, place_);
    if (!epoch) return fail(epoch.error());
    epoch_ = *epoch;
    if (shared_) return {};
    if (auto ok = take_work_lock(true); !ok) return ok;
    epoch_ = new_epoch();
    return write_epoch(connection_, epoch_);
  });
  at_work_ = status && !shared_;
  return status;
}

Status PostgresWriter::connect() {
  if (connection_.good()) return {};
  auto connection = PgConnection::open(place_);
  if (!connection) return fail(std::move(connection.error()));
  connection_ = *std::move(connection);
  auto ok = attach();
  if (!ok) connection_ = {};
  return ok;
}

Status PostgresWriter::attach() {
  if (!at_work_) return {};
  return connection_.transaction("BEGIN", [&]() -> Status {
    if (auto ok = wait_for_plan_lock(connection_, place_); !ok) return ok;
    if (auto ok = take_work_lock(!shared_); !ok) return ok;
    const auto epoch = read_epoch(connection_, place_);
    if (!epoch) return fail(epoch.error());
    // It may not be known whether the columns were changed.
    if (next_epoch_ && *epoch == *next_epoch_) epoch_ = *next_epoch_;
    next_epoch_.reset();
    if (*epoch == epoch_) return {};
    return fail(ErrorKind::kInvalid,
                "{}: while the database could not be reached, another process took over the run or "
                "changed its columns; this one ends, and may be started again",
                place_.shown);
  });
}

Status PostgresWriter::take_work_lock(bool alone) {
  const auto got = try_work_lock(connection_, place_, alone);
  if (!got) return fail(got.error());
  return *got ? Status{} : fail(held_by_others(connection_, place_));
}

Result<Reconciliation> PostgresWriter::reconcile(std::span<const ColumnSpec> columns) {
  return patiently([&] { return try_reconcile(columns); });
}

Result<Reconciliation> PostgresWriter::try_reconcile(std::span<const ColumnSpec> columns) {
  if (auto ok = connect(); !ok) return fail(std::move(ok.error()));
  SlotPlan plan;
  bool alone = false;   // has the lock alone, for the time of the change
  bool joined = false;  // has come to share it
  auto ok = connection_.transaction("BEGIN", [&]() -> Status {
    if (auto locked = wait_for_plan_lock(connection_, place_); !locked) return locked;
    auto stored = read_columns(connection_, place_);
    if (!stored) return fail(std::move(stored.error()));
    const auto epoch = read_epoch(connection_, place_);
    if (!epoch) return fail(epoch.error());
    epoch_ = *epoch;
    columns_ = stored->value_or(std::vector<StoredColumn>{});
    auto made = plan_slots(columns_, columns);
    if (!made) return fail(std::move(made.error()));
    plan = *std::move(made);
    const bool changed = !*stored || plan.next != columns_;
    if (changed && shared_) {
      if (auto taken = take_work_lock(true); !taken) {
        taken.error().message += "; with the columns that they work on, this process can join them";
        return taken;
      }
      alone = true;
    }
    if (changed) {
      if (auto written = change_columns(plan); !written) return written;
    }
    if (shared_ && !at_work_) {
      if (auto taken = take_work_lock(false); !taken) return taken;
      joined = true;
    }
    // Until the end of the transaction the plan lock keeps others out.
    if (!std::exchange(alone, false) || !shared_) return {};
    return drop_work_lock(connection_, place_, true);
  });
  if (!ok) {
    if (alone && connected()) (void)drop_work_lock(connection_, place_, true);
    if (joined && connected()) (void)drop_work_lock(connection_, place_, false);
    return fail(std::move(ok.error()));
  }
  at_work_ = at_work_ || joined;
  if (next_epoch_) epoch_ = *std::exchange(next_epoch_, std::nullopt);
  columns_ = std::move(plan.next);
  return std::move(plan.found);
}

Status PostgresWriter::change_columns(SlotPlan& plan) {
  if (plan.deletes) {
    const auto removed = remove_slots(plan.gone);
    if (!removed) return fail(removed.error());
    plan.found.deleted_cells = *removed;
  }
  if (auto ok = write_meta(connection_, kColumnsMeta, encode_columns(plan.next)); !ok) return ok;
  next_epoch_ = new_epoch();
  if (auto ok = write_epoch(connection_, *next_epoch_); !ok) return ok;
  // No range is complete any more.
  return connection_.execute(
      "UPDATE ranges SET state = 0, token = 0, worker = '', expires = '-infinity'");
}

Result<std::uint64_t> PostgresWriter::remove_slots(const std::vector<bool>& gone) {
  std::vector<std::int64_t> slots;
  bool shared = false;
  for (const StoredColumn& column : columns_) {
    if (!gone[column.slot]) continue;
    slots.push_back(std::int64_t{column.slot});
    shared = shared || column.spec.small;
  }
  const auto deleted = connection_.run("DELETE FROM cells WHERE (key & 65535) = ANY($1)",
                                       PgParams().integers(slots));
  if (!deleted) return fail(deleted.error());
  if (!shared) return deleted->changed();
  auto more = remove_shared(gone);
  if (!more) return more;
  return deleted->changed() + *more;
}

Result<std::uint64_t> PostgresWriter::remove_shared(const std::vector<bool>& gone) {
  std::uint64_t removed = 0;
  std::string rest;
  for (RowKey last = -1;;) {
    const auto rows = connection_.run(
        "SELECT key, body FROM cells WHERE (key & 65535) = 0 AND key > $1 ORDER BY key LIMIT 4096",
        PgParams().integer(last));
    if (!rows) return fail(rows.error());
    if (rows->count() == 0) return removed;
    std::vector<std::int64_t> empty;
    std::vector<std::int64_t> changed;
    std::vector<std::string> bodies;
    for (int row = 0; row < rows->count(); ++row) {
      last = rows->integer(row, 0);
      const auto dropped = drop_slots(rows->bytes(row, 1), last, gone, rest);
      if (!dropped) {
        return fail(damaged(
            place_, fmt::format("record {}: {}", record_of(last), dropped.error().message)));
      }
      removed += *dropped;
      if (*dropped > 0 && rest.empty()) empty.push_back(last);
      if (*dropped > 0 && !rest.empty()) {
        changed.push_back(last);
        bodies.push_back(rest);
      }
    }
    if (auto ok = done(
            connection_.run("DELETE FROM cells WHERE key = ANY($1)", PgParams().integers(empty)));
        !ok) {
      return fail(ok.error());
    }
    const std::vector<std::string_view> views(bodies.begin(), bodies.end());
    if (auto ok = done(connection_.run(
            "UPDATE cells SET body = new.body FROM unnest($1, $2) AS new(key, body) "
            "WHERE cells.key = new.key",
            PgParams().integers(changed).byte_strings(views)));
        !ok) {
      return fail(ok.error());
    }
  }
}

Status PostgresWriter::commit(Batch& batch) {
  if (batch.changes_nothing()) return {};
  if (auto ok = connect(); !ok) return ok;
  merged_.clear();
  return connection_.transaction("BEGIN", [&]() -> Status {
    if (!mutated(StoreMutant::kUnfenced)) {
      if (auto ok = refuse_lost(batch); !ok) return ok;
    }
    auto rows = one_row_per_key(rows_of(batch));
    if (!rows) return fail(std::move(rows.error()));
    for (std::span<const Row> left = *rows; !left.empty();) {
      std::size_t count = 0;
      std::size_t bytes = 0;
      while (count < left.size() && count < kStatementRows && bytes < kStatementBytes) {
        bytes += left[count++].body.size();
      }
      if (auto ok = write_rows(left.first(count)); !ok) return ok;
      left = left.subspan(count);
    }
    if (batch.spent > 0) {
      if (auto ok = write_spent(batch.spent); !ok) return ok;
    }
    return batch.responses.empty() ? Status{} : write_responses(batch);
  });
}

Status PostgresWriter::write_spent(std::uint64_t more) {
  if (shared_) {
    if (auto ok = wait_for_plan_lock(connection_, place_); !ok) return ok;
  }
  const auto spent = add_spent(connection_, place_, more);
  if (!spent) return fail(spent.error());
  spent_ = *spent;
  return {};
}

// Until this transaction has ended, nobody can take over the leases that are looked at here.
Status PostgresWriter::refuse_lost(Batch& batch) {
  if (batch.leases.empty()) return {};
  std::vector<std::int64_t> numbers;
  for (const Lease& lease : batch.leases) numbers.push_back(lease.range);
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  const auto rows = connection_.run(
      "SELECT number, token FROM ranges WHERE number = ANY($1) ORDER BY number FOR SHARE",
      PgParams().integers(numbers));
  if (!rows) return fail(rows.error());
  std::unordered_map<std::int64_t, std::int64_t> tokens;
  for (int row = 0; row < rows->count(); ++row) {
    tokens.emplace(rows->integer(row, 0), rows->integer(row, 1));
  }
  std::size_t lease = 0;
  for (Batch::Waiting& put : batch.waiting) {
    for (; lease < put.leases_end; ++lease) {
      const Lease& held = batch.leases[lease];
      const auto now = tokens.find(held.range);
      if (now != tokens.end() && now->second == held.token) continue;
      put.refusal = lease_lost(held);
    }
  }
  return {};
}

std::vector<PostgresWriter::Row> PostgresWriter::rows_of(const Batch& batch) {
  const std::string_view bytes = batch.bytes;
  std::vector<Row> rows;
  rows.reserve(batch.rows.size());
  const auto take = [&](std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to; ++i) {
      const Batch::Row& row = batch.rows[i];
      rows.push_back({row.key, bytes.substr(row.offset, row.size)});
    }
  };
  if (batch.leases.empty()) {
    take(0, batch.rows.size());
    return rows;
  }
  std::size_t begin = 0;
  for (const Batch::Waiting& put : batch.waiting) {
    if (!put.refusal) take(begin, put.rows_end);
    begin = put.rows_end;
  }
  return rows;
}

Result<std::vector<PostgresWriter::Row>> PostgresWriter::one_row_per_key(std::vector<Row> rows) {
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.key < b.key; });
  std::size_t kept = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (kept == 0 || rows[kept - 1].key != rows[i].key) {
      rows[kept++] = rows[i];
    } else if (slot_of(rows[i].key) != kSharedSlot) {
      rows[kept - 1] = rows[i];
    } else {
      auto both = merge_rows(rows[kept - 1].body, rows[i].body, rows[i].key);
      if (!both) return fail(ErrorKind::kInternal, "{}", both.error().message);
      rows[kept - 1].body = merged_.emplace_back(*std::move(both));
    }
  }
  rows.resize(kept);
  return rows;
}

Status PostgresWriter::write_rows(std::span<const Row> rows) {
  std::vector<std::int64_t> keys;
  std::vector<std::string_view> bodies;
  keys.reserve(rows.size());
  bodies.reserve(rows.size());
  for (const Row& row : rows) {
    keys.push_back(row.key);
    bodies.push_back(row.body);
  }
  const auto inserted =
      connection_.run("INSERT INTO cells SELECT * FROM unnest($1, $2) ON CONFLICT (key) DO NOTHING",
                      PgParams().integers(keys).byte_strings(bodies));
  if (!inserted) return fail(inserted.error());
  return inserted->changed() == rows.size() ? Status{} : replace_rows(rows);
}

// Some of the rows were there: their cells are replaced, one by one in rows of several.
Status PostgresWriter::replace_rows(std::span<const Row> rows) {
  std::vector<std::int64_t> several;
  for (const Row& row : rows) {
    if (slot_of(row.key) == kSharedSlot) several.push_back(row.key);
  }
  PgRows before;
  std::unordered_map<RowKey, std::string_view> bodies_before;
  if (!several.empty()) {
    auto read = connection_.run("SELECT key, body FROM cells WHERE key = ANY($1)",
                                PgParams().integers(several));
    if (!read) return fail(std::move(read.error()));
    before = *std::move(read);
    for (int row = 0; row < before.count(); ++row) {
      bodies_before.emplace(before.integer(row, 0), before.bytes(row, 1));
    }
  }
  std::vector<std::int64_t> keys;
  std::vector<std::string_view> bodies;
  for (const Row& row : rows) {
    keys.push_back(row.key);
    bodies.push_back(row.body);
    const auto place = bodies_before.find(row.key);
    if (place == bodies_before.end() || place->second == row.body) continue;
    auto both = merge_rows(place->second, row.body, row.key);
    if (!both) {
      return fail(
          damaged(place_, fmt::format("record {}: {}", record_of(row.key), both.error().message)));
    }
    bodies.back() = merged_.emplace_back(*std::move(both));
  }
  return done(
      connection_.run("UPDATE cells SET body = new.body FROM unnest($1, $2) AS new(key, body) "
                      "WHERE cells.key = new.key AND cells.body <> new.body",
                      PgParams().integers(keys).byte_strings(bodies)));
}

Status PostgresWriter::write_responses(const Batch& batch) {
  std::vector<std::int64_t> sizes;
  std::deque<std::string> made;
  std::vector<std::string_view> keys;
  std::vector<std::string_view> bodies;
  const auto send = [&]() -> Status {
    // Ordered, so that two machines never wait for each other.
    auto status = done(
        connection_.run("INSERT INTO responses(key, size, body) SELECT key, size, body "
                        "FROM unnest($1, $2, $3) WITH ORDINALITY AS new(key, size, body, place) "
                        "ORDER BY key, place ON CONFLICT (key) DO NOTHING",
                        PgParams().byte_strings(keys).integers(sizes).byte_strings(bodies)));
    sizes.clear();
    keys.clear();
    bodies.clear();
    made.clear();
    return status;
  };
  std::size_t bytes = 0;
  for (const Batch::Response& response : batch.responses) {
    if (response.json.size() > cache_bytes_) continue;
    if (bytes + response.json.size() > kStatementBytes && !keys.empty()) {
      if (auto ok = send(); !ok) return ok;
      bytes = 0;
    }
    bytes += response.json.size();
    cached_since_ += response.json.size();
    sizes.push_back(static_cast<std::int64_t>(response.json.size()));
    keys.push_back(made.emplace_back(response_key(response.key)));
    bodies.push_back(made.emplace_back(seal_response(response.key, response.json)));
  }
  return keys.empty() ? Status{} : send();
}

void PostgresWriter::tidy() {
  if (cached_since_ < cache_bytes_ / 16 || !connection_.good()) return;
  const auto ok = connection_.run(
      "DELETE FROM responses WHERE age <= (SELECT max(age) FROM (SELECT age, "
      "sum(size) OVER (ORDER BY age DESC) AS total FROM responses) AS ages WHERE total > $1)",
      PgParams().integer(static_cast<std::int64_t>(cache_bytes_)));
  if (ok) cached_since_ = 0;
}

Result<std::uint32_t> PostgresWriter::add_origin(const Origin& origin) {
  if (auto ok = connect(); !ok) return fail(std::move(ok.error()));
  std::uint32_t id = 0;
  auto ok = connection_.transaction("BEGIN", [&]() -> Status {
    if (auto locked = wait_for_plan_lock(connection_, place_); !locked) return locked;
    const auto origins = read_origins(connection_, place_);
    if (!origins) return fail(origins.error());
    const auto found = std::find(origins->begin(), origins->end(), origin);
    id = static_cast<std::uint32_t>(found - origins->begin()) + 1;
    if (found != origins->end()) return {};
    const std::string body = encode_origin(id, origin);
    return done(connection_.run("INSERT INTO origins VALUES($1, $2)",
                                PgParams().integer(std::int64_t{id}).bytes(body)));
  });
  if (!ok) return fail(std::move(ok.error()));
  return id;
}

Status PostgresWriter::set_property(std::string_view name, std::string_view value) {
  if (auto ok = connect(); !ok) return ok;
  return write_meta(connection_, property_name(name), value);
}

}  // namespace dovetail::pipeline
