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
};

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
  struct NewOrigin {
    std::uint32_t id = 0;
    Origin origin;
  };
  struct Waiting {
    std::function<void(Status)> done;
    std::optional<Error> refusal;  // what was wrong with this one
  };

  std::string bytes;
  std::vector<Row> rows;
  std::vector<Response> responses;
  std::vector<NewOrigin> origins;
  std::vector<Waiting> waiting;
  std::size_t response_bytes = 0;

  // Encodes the cells. Nothing is added where one of them is refused.
  Status add(std::span<const CellResult> cells, std::span<const StoredColumn> columns);

  bool changes_nothing() const { return rows.empty() && responses.empty() && origins.empty(); }
  bool empty() const { return changes_nothing() && waiting.empty(); }
  // About the memory it takes.
  std::size_t size() const;
  void clear();

 private:
  void close_row(RowKey key, std::size_t start);
};

}  // namespace dovetail::pipeline
