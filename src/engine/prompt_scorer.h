#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "cores/executor.h"
#include "cores/recording.h"
#include "engine/sequence.h"
#include "model/backend.h"
#include "observe/event_log.h"

namespace dovetail::engine {

// Turns hidden rows of prompts into log-probabilities: the logits of some rows are computed and
// reduced, then those of the next, so that memory does not grow with prompts or steps. A row's
// log-probabilities depend on the row alone. One thread at a time.
class PromptScorer {
 public:
  explicit PromptScorer(std::size_t vocab);
  // Its recorded tasks refer to it.
  PromptScorer(const PromptScorer&) = delete;
  PromptScorer& operator=(const PromptScorer&) = delete;

  // A row that the next run() scores, which `sequence` and `hidden` outlive.
  void add(Sequence& sequence, std::uint32_t position, const float* hidden);

  // Scores all rows that were added. Nothing else runs on the executor, which is the backend's.
  // `log`, where there is one, gets what its lanes did.
  Status run(model::Backend& backend, cores::Executor& executor, observe::LaneLog* log);

  // Rows whose logits are held at a time.
  static constexpr std::size_t kRows = 64;

 private:
  struct Row {
    Sequence* sequence = nullptr;
    std::uint32_t position = 0;
  };

  std::size_t vocab_;
  std::vector<Row> rows_;
  std::vector<const float*> hidden_;  // of rows_
  std::vector<float> logits_;
  std::size_t first_ = 0, count_ = 0;  // of rows_: those with logits
  cores::Recording reduction_;
};

}  // namespace dovetail::engine
