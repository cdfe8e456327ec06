#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kv/block_pool.h"

namespace dovetail::schedule {

using SequenceId = std::uint64_t;

// What one sequence computes in one step: the tokens at positions [first_position, first_position +
// tokens).
struct Row {
  SequenceId sequence = 0;
  std::uint32_t slot = 0;  // of the step's max_num_seqs; the sequence keeps it while it runs
  std::uint32_t first_position = 0;
  std::uint32_t tokens = 0;
  // The row ends with the sequence's last known token: its logits give the next one. False for
  // every chunk of a prompt but the final one.
  bool sampled = false;
  std::uint32_t table_begin =
      0;  // its block table is block_tables[table_begin .. table_begin + table_size)
  std::uint32_t table_size = 0;  // enough for first_position + tokens positions
};

// One step of the engine: rows in the order [prefill rows | decode rows], each part by arrival.
struct StepPlan {
  std::vector<Row> rows;
  std::uint32_t prefill_rows = 0;
  std::uint32_t tokens = 0;  // over all rows
  std::vector<kv::BlockId> block_tables;
  std::vector<SequenceId> admitted;   // got a slot in this step
  std::vector<SequenceId> preempted;  // lost theirs, and their blocks

  std::span<const kv::BlockId> block_table(const Row& row) const {
    return std::span(block_tables).subspan(row.table_begin, row.table_size);
  }
};

// What the engine says of a plan that was carried out: of each sampled row, in the plan's order,
// whether its sequence is at its end with the new token.
struct StepResult {
  std::vector<bool> finished;
};

}  // namespace dovetail::schedule
