#pragma once

#include <cstdint>
#include <vector>

namespace dovetail::pipeline {

using RecordId = std::uint64_t;  // counted from 0
using ColumnId = std::uint32_t;  // in an order in which columns depend on earlier ones only
using QueueId = std::uint32_t;

struct Cell {
  RecordId record = 0;
  ColumnId column = 0;
  bool operator==(const Cell&) const = default;
};

// What the frontier knows of a column.
struct ColumnPlan {
  std::vector<ColumnId> needs;  // columns before it whose cells must have ended
  QueueId queue = 0;            // where its cells wait for whoever makes them
  std::int32_t priority = 0;    // lower goes first
};

// Per column the longest way, in columns, to one that nobody needs.
std::vector<std::uint32_t> depths_from_sink(const std::vector<ColumnPlan>& columns);

}  // namespace dovetail::pipeline
