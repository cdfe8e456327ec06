#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "pipeline/store/cell.h"
#include "pipeline/store/row_codec.h"

namespace dovetail::pipeline {

// Where the cells of a column are kept: under its own slot, or in the row that small ones share.
struct StoredColumn {
  ColumnSpec spec;
  std::uint32_t slot = 0;
  friend bool operator==(const StoredColumn&, const StoredColumn&) = default;
};

// A range of records that one of several machines works on, and the number under which it was given
// to it: what a machine does under an older number does not count.
struct Lease {
  std::int64_t range = 0;  // `size` records each
  std::int64_t token = 0;
  std::int64_t size = 0;
  friend bool operator==(const Lease&, const Lease&) = default;
};

// kTimeout.
Error lease_lost(const Lease& lease);

// What goes into one transaction, as encoded rows, so that the queue holds little and the writer
// has little to do. One buffer, used again and again.
struct Batch {
  struct Row {
    RowKey key = 0;
    std::size_t offset = 0;  // of the sealed row in `bytes`
    std::size_t size = 0;
  };
  struct Response {
    Hash128 key;
    std::string json;
  };
  // One put. Its rows and leases are those up to its ends, from the ends of the one before.
  struct Waiting {
    std::function<void(Status)> done;
    std::optional<Error> refusal;  // what was wrong with this one
    std::size_t rows_end = 0;
    std::size_t leases_end = 0;
  };

  std::string bytes;
  std::vector<Row> rows;
  std::vector<Response> responses;
  std::vector<Lease> leases;     // under which the cells were made, where machines share the run
  std::vector<Waiting> waiting;  // all puts, where machines share the run, else those with `done`
  std::size_t response_bytes = 0;
  std::uint64_t spent = 0;

  // Encodes the cells. Nothing is added where one of them is refused.
  Status add(std::span<const CellResult> cells, std::span<const StoredColumn> columns);

  // Takes a put's `done` and how it began.
  void wait(std::function<void(Status)> done, std::optional<Error> refusal);

  bool changes_nothing() const { return rows.empty() && responses.empty() && spent == 0; }
  bool empty() const { return changes_nothing() && waiting.empty(); }
  // About the memory it takes.
  std::size_t size() const;
  void clear();

 private:
  void close_row(RowKey key, std::size_t start);
};

}  // namespace dovetail::pipeline
