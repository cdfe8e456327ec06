#include "engine/prompt_scorer.h"

#include <algorithm>
#include <cassert>
#include <span>
#include <utility>

#include "cores/trace.h"
#include "model/share.h"

namespace dovetail::engine {

PromptScorer::PromptScorer(std::size_t vocab) : vocab_(vocab) {
  cores::Recorder recorder(1, 1);
  static_cast<void>(recorder.add({cores::kVectorTask}, [this](const cores::Part& part) {
    const model::Range mine = model::part_of(count_, part.block, reduction_.spec(0).blocks);
    for (std::uint32_t i = mine.begin; i < mine.end; ++i) {
      const Row& row = rows_[first_ + i];
      row.sequence->score(row.position,
                          std::span<const float>(logits_).subspan(i * vocab_, vocab_));
    }
  }));
  reduction_ = std::move(recorder).finish();
}

void PromptScorer::add(Sequence& sequence, std::uint32_t position, const float* hidden) {
  rows_.push_back({&sequence, position});
  hidden_.push_back(hidden);
}

Status PromptScorer::run(model::Backend& backend, cores::Executor& executor,
                         observe::LaneLog* log) {
  const cores::Topology& lanes = executor.topology();
  Status status;
  for (first_ = 0; status && first_ < rows_.size(); first_ += count_) {
    count_ = std::min(kRows, rows_.size() - first_);
    logits_.resize(count_ * vocab_);
    status = backend.logits(std::span(hidden_).subspan(first_, count_), logits_);
    if (!status) break;
    if (log != nullptr) backend.take_trace(*log);
    // An exponential of each logit, and a look at each for every alternative.
    reduction_.set_blocks(0, model::share(count_, 64 * logits_.size(), lanes.lanes()));
    status = executor.run(reduction_);
    if (log != nullptr) {
      cores::write_slices(
          executor.take_spans(), lanes,
          [&](const cores::Span& span) { return cores::lane_slice(span, lanes, "score"); }, *log);
    }
  }
  rows_.clear();
  hidden_.clear();
  return status;
}

}  // namespace dovetail::engine
