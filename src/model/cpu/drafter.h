#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "model/backend.h"
#include "model/cpu/cache.h"
#include "model/cpu/model_runner.h"

namespace dovetail::model {

// The layer of a model that drafts tokens (ModelConfig::draft_layer). It follows the model's
// passes, so that its part of the cache has a row for every position: that of a token and the one
// behind it. What it keeps of a position whose next token is not known takes that position's own
// for it, until draft() says which one it is. Drafts are checked by the model, so that nothing here
// shows in an answer.
class Drafter {
 public:
  // Of a cache with that layer, which must outlive it, as must kernels and executor.
  Drafter(std::shared_ptr<const ModelWeights> weights, const kernels::Kernels& kernels,
          cores::Executor& executor, const BackendOptions& options, const Cache& cache);

  // After a pass of the model, which kept its rows.
  void follow(std::span<const Segment> segments, const ModelRunner& model);

  // Backend::draft(). `passed` is called after each pass.
  template <class Passed>
  void draft(std::span<const DraftRow> rows, Passed&& passed) {
    begin(rows);
    while (pass(rows)) passed();
  }

  const ModelRunner& runner() const { return runner_; }

 private:
  void begin(std::span<const DraftRow> rows);
  bool pass(std::span<const DraftRow> rows);
  float* last(std::uint32_t slot, std::uint32_t row) {
    return last_.data() + (std::size_t{slot} * rows_of_slot_ + row) * hidden_;
  }

  ModelRunner runner_;
  const Cache& cache_;
  std::size_t hidden_, vocabulary_;
  std::uint32_t rows_of_slot_;
  std::vector<float> last_;  // [slot][row with logits][hidden_]: of the last pass

  // Of the pass under way.
  std::vector<Segment> segments_;
  std::vector<std::int32_t> tokens_;
  std::vector<const float*> inputs_;
  std::vector<float> logits_;
  // Of the drafts under way, by row: how many there are, and the hidden row that the next one
  // takes.
  std::uint32_t drafted_ = 0;
  std::vector<float> hidden_rows_;
};

}  // namespace dovetail::model
