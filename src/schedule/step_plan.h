#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kv/kv_manager.h"

namespace dovetail::schedule {

using SequenceId = std::uint64_t;

// Tokens that one sequence computes in one step: positions [first_position, first_position +
// tokens).
struct Row {
  SequenceId sequence = 0;
  std::uint32_t slot = 0;  // of the step's max_num_seqs; the sequence keeps it while it runs
  std::uint32_t first_position = 0;
  std::uint32_t tokens = 0;
  // Draft tokens among them, the last ones (speculative decoding); decode rows only.
  std::uint32_t drafts = 0;
  // A prefill row that ends at the sequence's prefill_end.
  bool final_chunk = false;
  // Its logits give new tokens: final chunks and decode rows.
  bool sampled = false;
  // The block table, [block][group], for first_position + tokens positions; kNoBlock behind
  // windows. Valid until the plan's commit.
  std::span<const kv::BlockId> blocks;
  // For layers with states: the saved one that the row begins with, or kNoBlock; and those of
  // StepPlan::saves that it saves, in order of their positions.
  kv::BlockId load = kv::kNoBlock;
  std::uint32_t first_save = 0;
  std::uint32_t saves = 0;

  // Rows of logits, one for each of the row's last tokens.
  std::uint32_t logit_rows() const { return sampled ? drafts + 1 : 0; }
};

struct Admission {
  SequenceId sequence = 0;
  std::uint32_t slot = 0;
  std::uint32_t cached_tokens = 0;  // found in the prefix index, not computed again
  bool resumed = false;             // after a preemption
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
  std::vector<SequenceId> preempted;  // lost slot and blocks; none of them is in `admitted`
  std::vector<kv::SavedState> saves;  // by row

  std::uint32_t decode_rows() const {
    return static_cast<std::uint32_t>(rows.size()) - prefill_rows;
  }
  void clear() {
    number = 0;
    rows.clear();
    prefill_rows = tokens = prefill_tokens = drafts = 0;
    admitted.clear();
    preempted.clear();
    saves.clear();
  }
};

// The result of a sampled row.
struct RowResult {
  std::uint32_t new_tokens = 1;   // 1 .. drafts + 1
  bool finished = false;          // the last of them is the sequence's end
  std::uint32_t next_drafts = 0;  // draft tokens for the next step
};

// The results of an executed plan.
struct StepResult {
  // One per sampled row, in the plan's order; ignored where the sequence has ended meanwhile.
  std::vector<RowResult> rows;
  // All new tokens of those rows, in order (new_tokens each). Read with a prefix cache only.
  std::vector<std::int32_t> tokens;
};

}  // namespace dovetail::schedule
