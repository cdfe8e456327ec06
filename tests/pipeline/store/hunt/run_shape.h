#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pipeline/store/cell.h"

namespace dovetail::pipeline {

// The run that the hunt writes and the tests check: two small columns, two of text. What a cell
// holds follows from its place.
inline std::vector<ColumnSpec> run_columns(std::uint64_t print_of_c) {
  return {{"a", {1, 1}, true},
          {"b", {1, 2}, true},
          {"c", {1, print_of_c}, false},
          {"d", {1, 4}, false}};
}

inline CellResult run_cell(std::uint64_t record, std::uint32_t column) {
  CellResult cell;
  cell.record = record;
  cell.column = column;
  const std::uint64_t mixed = (record * 8 + column) * 0x9e3779b97f4a7c15ULL;
  cell.state = static_cast<CellState>(mixed >> 62);
  cell.json = std::to_string(mixed);
  if (column >= 2) {
    cell.json.append(mixed % 700, static_cast<char>('a' + mixed % 26));
    cell.provenance.attempts = 1;
    cell.provenance.latency_us = mixed >> 20;
  }
  return cell;
}

inline bool is_run_cell(const CellView& cell) {
  return CellResult{cell.record, cell.column, cell.state, std::string(cell.json),
                    cell.provenance} == run_cell(cell.record, cell.column);
}

}  // namespace dovetail::pipeline
