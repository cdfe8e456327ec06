#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "pipeline/store/batch.h"
#include "pipeline/store/reconciliation.h"
#include "pipeline/store/run_lock.h"
#include "pipeline/store/run_meta.h"
#include "pipeline/store/sqlite_handle.h"

namespace dovetail::pipeline {

// The one connection that writes a run. One thread at a time.
class SqliteWriter {
 public:
  // Takes the run's lock. `resume`: continue what is there, else there must be no run yet.
  static Result<SqliteWriter> open(const std::filesystem::path& file, bool resume,
                                   std::uint64_t cache_bytes);

  // As Store::reconcile().
  Result<Reconciliation> reconcile(std::span<const ColumnSpec> columns);
  const std::vector<StoredColumn>& columns() const { return columns_; }

  // One durable transaction. After a failure nothing of it counts, and it may be tried again.
  Status commit(const Batch& batch);
  // Of the run, as of the last commit.
  std::uint64_t spent() const { return counters_.spent; }
  // The number of an origin, durable on return.
  Result<std::uint32_t> add_origin(const Origin& origin);
  // Work that may wait until those who wait have their answer: moves what was committed from the
  // log into the database where the log has grown long. Loses nothing where it fails.
  void tidy();
  Status set_property(std::string_view name, std::string_view value);

 private:
  SqliteWriter() = default;
  Status prepare(bool resume);
  Status write(const Batch& batch, Counters& counters);
  Status write_row(RowKey key, std::string_view sealed, Counters& counters);
  Status write_responses(const Batch& batch, Counters& counters);
  Result<std::uint64_t> remove_slots(const std::vector<bool>& gone, Counters& counters);
  template <class Work>
  Status transaction(Work&& work);
  // Whether the path still names the file that is open.
  Status is_there();

  RunLock lock_;  // given back after the connection is closed
  std::unique_ptr<int> log_pages_ = std::make_unique<int>(0);
  Connection connection_;
  Statement begin_, commit_, rollback_, insert_, select_, update_;
  std::vector<StoredColumn> columns_;
  std::vector<Origin> origins_;
  Counters counters_;
  std::uint64_t cache_bytes_ = 0;
};

}  // namespace dovetail::pipeline
