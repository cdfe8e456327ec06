#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "pipeline/store/batch.h"
#include "pipeline/store/cell.h"
#include "pipeline/store/place.h"
#include "pipeline/store/postgres_handle.h"

namespace dovetail::pipeline {

// The tables of a run in its schema, and what is in the small ones. The contents are those of the
// SQLite store (run_meta.h).
//
//   cells(key, body)                  record << 16 | slot, row_codec.h
//   meta(name, body)                  columns, properties, the epoch
//   origins(id, body)
//   responses(age, key, size, body)   by age, because the oldest goes first
//   ranges(number, state, token, worker, expires, lasts)   lease.h

// True: a run of this version is there; false: none. Anything else is an error that says what it
// is.
Result<bool> check_run(PgConnection& connection, const PostgresPlace& place);
// Inside a transaction.
Status create_run(PgConnection& connection, const PostgresPlace& place);

// Locks of the session or the transaction, by run. kWork is held, alone or shared, by those who
// make the run; kPlan by whoever changes its small tables, until the end of the transaction.
enum class RunKey : std::uint8_t { kWork, kPlan };
std::int64_t lock_number(const PostgresPlace& place, RunKey key);
// False: another session has it.
Result<bool> try_work_lock(PgConnection& connection, const PostgresPlace& place, bool alone);
Status drop_work_lock(PgConnection& connection, const PostgresPlace& place, bool alone);
Status wait_for_plan_lock(PgConnection& connection, const PostgresPlace& place);
// kUnavailable, with the names of those who have kWork.
Error held_by_others(PgConnection& connection, const PostgresPlace& place);

Result<std::optional<std::string>> read_meta(PgConnection& connection, const PostgresPlace& place,
                                             std::string_view name);
Status write_meta(PgConnection& connection, std::string_view name, std::string_view contents);

// A number that is drawn anew whenever a process takes the run for itself or its columns change:
// who was cut off meanwhile notices by it.
Result<std::uint64_t> read_epoch(PgConnection& connection, const PostgresPlace& place);
Status write_epoch(PgConnection& connection, std::uint64_t epoch);

// See Store::spend().
Result<std::uint64_t> read_spent(PgConnection& connection, const PostgresPlace& place);
// What it comes to. Inside a transaction that has kPlan, where the run is shared.
Result<std::uint64_t> add_spent(PgConnection& connection, const PostgresPlace& place,
                                std::uint64_t more);

// Nothing where no columns have been written yet.
Result<std::optional<std::vector<StoredColumn>>> read_columns(PgConnection& connection,
                                                              const PostgresPlace& place);
Result<std::vector<Origin>> read_origins(PgConnection& connection, const PostgresPlace& place);

}  // namespace dovetail::pipeline
