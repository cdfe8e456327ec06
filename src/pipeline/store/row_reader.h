#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "pipeline/store/batch.h"
#include "pipeline/store/cell.h"
#include "pipeline/store/row_codec.h"

namespace dovetail::pipeline {

// Turns the rows of a database, which come in the order of their keys, into cells by record, then
// column. Errors say what is wrong with the rows, not where they are from.
class RowReader {
 public:
  using Sink = std::function<bool(const CellView&)>;  // false: no more, please

  // Forgets what it was given before.
  Status start(std::vector<StoredColumn> columns);
  // Hands out the cells of the record before where a new one begins; false as from the sink.
  Result<bool> add(RowKey key, std::string_view body, const Sink& sink);
  // Hands out those of the last record.
  Result<bool> end(const Sink& sink);

 private:
  std::vector<StoredColumn> columns_;
  std::vector<std::uint32_t> column_of_slot_;
  // The rows of one record, copied because a row lives until the next one; the strings are reused.
  std::vector<std::string> rows_;
  std::vector<RowKey> keys_;
  std::optional<RowKey> last_;
  std::vector<SlotCell> cells_;
};

// All cells, for readers of one record.
inline RowReader::Sink append_to(std::vector<CellResult>& cells) {
  return [&cells](const CellView& cell) {
    cells.push_back(
        {cell.record, cell.column, cell.state, std::string(cell.json), cell.provenance});
    return true;
  };
}

}  // namespace dovetail::pipeline
