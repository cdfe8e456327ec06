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
  // Of a decode row: how many of its tokens, the last ones, are guesses (speculative decoding).
  std::uint32_t drafts = 0;
  // Of a prefill row: it ends with the last token that was known when the sequence was let in.
  bool final_chunk = false;
  // Its logits give new tokens: of final chunks and decode rows.
  bool sampled = false;
  // The block table, for first_position + tokens positions. Valid until the plan's commit.
  std::span<const kv::BlockId> blocks;

  // The last so many tokens of the row each have a row of logits.
  std::uint32_t logit_rows() const { return sampled ? drafts + 1 : 0; }
};

struct Admission {
  SequenceId sequence = 0;
  std::uint32_t slot = 0;
  std::uint32_t cached_tokens = 0;  // found in the prefix index, not computed again
  bool resumed = false;             // it was preempted before
};

// One step of the engine: rows in the order [prefill rows | decode rows], each part in the
// scheduler's order. Filled by Scheduler::plan(); reusing one keeps its memory.
struct StepPlan {
  std::uint64_t number = 0;  // of the step, from 0
  std::vector<Row> rows;
  std::uint32_t prefill_rows = 0;
  std::uint32_t tokens = 0;  // over all rows
  std::uint32_t prefill_tokens = 0;
  std::uint32_t drafts = 0;  // over all rows
  std::vector<Admission> admitted;
  std::vector<SequenceId> preempted;  // lost slot and blocks before this step

  std::uint32_t decode_rows() const {
    return static_cast<std::uint32_t>(rows.size()) - prefill_rows;
  }
  void clear();
};

// What became of a sampled row.
struct RowResult {
  std::uint32_t new_tokens = 1;  // 1 .. drafts + 1
  bool finished = false;         // the last of them is the sequence's end
  // How many guesses there are for the next step.
  std::uint32_t next_drafts = 0;
};

// What the engine says of a plan that was carried out.
struct StepResult {
  std::vector<RowResult> rows;  // one per sampled row, in the plan's order; of a sequence that has
                                // ended since the plan was made anything
  std::vector<std::int32_t> tokens;  // all new tokens of those rows, in order (new_tokens each).
                                     // Read with a prefix cache only
};

}  // namespace dovetail::schedule
