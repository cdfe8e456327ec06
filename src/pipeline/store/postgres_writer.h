#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "pipeline/store/batch.h"
#include "pipeline/store/open_mode.h"
#include "pipeline/store/place.h"
#include "pipeline/store/postgres_handle.h"
#include "pipeline/store/reconciliation.h"

namespace dovetail::pipeline {

// The connection that writes a run in PostgreSQL, with the functions of SqliteWriter. A lost
// connection is made anew by the next call, which takes up the run again if nobody else has taken
// it meanwhile. One thread at a time.
class PostgresWriter {
 public:
  // kCreate, kResume: takes the run for itself. kShare: one of several.
  static Result<PostgresWriter> open(const PostgresPlace& place, OpenMode mode,
                                     std::uint64_t cache_bytes);

  Result<Reconciliation> reconcile(std::span<const ColumnSpec> columns);
  const std::vector<StoredColumn>& columns() const { return columns_; }

  // As SqliteWriter::commit(). It may be repeated where it is not known whether it succeeded: the
  // same rows under the same keys. Puts whose lease belongs to another one now are left out, and
  // get their refusal.
  Status commit(Batch& batch);
  // Of the run, by all who work on it, as of the last commit that cost something.
  std::uint64_t spent() const { return spent_; }
  Result<std::uint32_t> add_origin(const Origin& origin);
  // Lets the oldest responses go where there are too many.
  void tidy();
  Status set_property(std::string_view name, std::string_view value);

  // False: the last error was that of a connection, which the next call makes anew.
  bool connected() const { return connection_.good(); }

 private:
  struct Row {
    RowKey key = 0;
    std::string_view body;
  };

  PostgresWriter() = default;
  Status begin(OpenMode mode);
  Status connect();
  Status attach();
  Status take_work_lock(bool alone);
  template <class Attempt>
  auto patiently(Attempt attempt) -> decltype(attempt());
  Result<Reconciliation> try_reconcile(std::span<const ColumnSpec> columns);
  Status change_columns(SlotPlan& plan);
  Result<std::uint64_t> remove_slots(const std::vector<bool>& gone);
  Result<std::uint64_t> remove_shared(const std::vector<bool>& gone);
  Status refuse_lost(Batch& batch);
  std::vector<Row> rows_of(const Batch& batch);
  Result<std::vector<Row>> one_row_per_key(std::vector<Row> rows);
  Status write_rows(std::span<const Row> rows);
  Status replace_rows(std::span<const Row> rows);
  Status write_spent(std::uint64_t more);
  Status write_responses(const Batch& batch);

  PostgresPlace place_;
  PgConnection connection_;
  bool shared_ = false;
  bool at_work_ = false;  // has the run's work lock, or had it when the connection was lost
  std::uint64_t epoch_ = 0;
  std::optional<std::uint64_t> next_epoch_;  // of columns that may have been changed
  std::vector<StoredColumn> columns_;
  std::uint64_t spent_ = 0;
  std::uint64_t cache_bytes_ = 0;
  std::uint64_t cached_since_ = 0;  // bytes of responses since the last tidy()
  std::deque<std::string> merged_;  // rows that one transaction made from several
};

}  // namespace dovetail::pipeline
