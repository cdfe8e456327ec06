#include "pipeline/store/batch.h"

#include <utility>

namespace dovetail::pipeline {
namespace {

// The database's own limit for a row is a thousand million bytes.
constexpr std::size_t kMaxText = std::size_t{256} << 20;

Status check(const CellResult& cell, std::span<const StoredColumn> columns) {
  if (cell.record > kMaxRecord) {
    return fail(ErrorKind::kInvalid, "record {}: the store holds records 0 to {}", cell.record,
                kMaxRecord);
  }
  if (cell.column >= columns.size()) {
    return fail(ErrorKind::kInvalid, "record {}: column {}: the run has {} columns", cell.record,
                cell.column, columns.size());
  }
  if (cell.json.size() > kMaxText) {
    return fail(ErrorKind::kInvalid,
                "record {}: column {}: a value of {} bytes; the store takes up to {}", cell.record,
                columns[cell.column].spec.name, cell.json.size(), kMaxText);
  }
  return {};
}

}  // namespace

Error lease_lost(const Lease& lease) {
  return {
      ErrorKind::kTimeout,
      fmt::format("records {} to {}: the lease on them ran out and went to another worker, which "
                  "makes them; what this one made of them meanwhile is not kept",
                  lease.range * lease.size, (lease.range + 1) * lease.size - 1)};
}

void Batch::close_row(RowKey key, std::size_t start) {
  seal_row(bytes, start, static_cast<std::uint64_t>(key));
  rows.push_back({key, start, bytes.size() - start});
}

Status Batch::add(std::span<const CellResult> cells, std::span<const StoredColumn> columns) {
  bool any_small = false;
  for (const CellResult& cell : cells) {
    if (auto ok = check(cell, columns); !ok) return ok;
    any_small = any_small || columns[cell.column].spec.small;
  }
  if (any_small) {
    // Runs of one record with ascending slots share a row; what does not fit begins another one,
    // which the database merges with the first.
    RowKey key = -1;
    std::uint32_t last = 0;
    std::size_t start = 0;
    for (const CellResult& cell : cells) {
      const StoredColumn& column = columns[cell.column];
      if (!column.spec.small) continue;
      const RowKey next = row_key(cell.record, kSharedSlot);
      if (next != key || column.slot <= last) {
        if (key >= 0) close_row(key, start);
        key = next;
        start = bytes.size();
        open_row(bytes);
      }
      last = column.slot;
      append_cell(bytes, {column.slot, cell.state, cell.json, cell.provenance});
    }
    close_row(key, start);
  }
  for (const CellResult& cell : cells) {
    const StoredColumn& column = columns[cell.column];
    if (column.spec.small) continue;
    const std::size_t start = bytes.size();
    open_row(bytes);
    append_cell(bytes, {column.slot, cell.state, cell.json, cell.provenance});
    close_row(row_key(cell.record, column.slot), start);
  }
  return {};
}

void Batch::wait(std::function<void(Status)> done, std::optional<Error> refusal) {
  waiting.push_back({std::move(done), std::move(refusal), rows.size(), leases.size()});
}

std::size_t Batch::size() const {
  return bytes.size() + rows.size() * sizeof(Row) + waiting.size() * sizeof(Waiting) +
         response_bytes + responses.size() * sizeof(Response);
}

void Batch::clear() {
  bytes.clear();
  rows.clear();
  responses.clear();
  leases.clear();
  waiting.clear();
  response_bytes = 0;
  spent = 0;
}

}  // namespace dovetail::pipeline
