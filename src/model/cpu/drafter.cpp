#include "model/cpu/drafter.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "model/cpu/scratch.h"
#include "model/mutation.h"

namespace dovetail::model {

Drafter::Drafter(std::shared_ptr<const ModelWeights> weights, const kernels::Kernels& kernels,
                 cores::Executor& executor, const BackendOptions& options, const Cache& cache)
    : runner_(std::move(weights), kernels, executor, options.context, ModelRunner::Layers::kDraft),
      cache_(cache),
      hidden_(runner_.kept_size()),
      vocabulary_(runner_.config().vocab_size),
      rows_of_slot_(options.draft_tokens + 1),
      last_(std::size_t{options.slots} * rows_of_slot_ * hidden_) {}

void Drafter::follow(std::span<const Segment> segments, const ModelRunner& model) {
  segments_.assign(segments.begin(), segments.end());
  tokens_.clear();
  inputs_.clear();
  for (const Segment& segment : segments) {
    const std::size_t first = inputs_.size();
    for (std::size_t i = 0; i < segment.tokens.size(); ++i)
      inputs_.push_back(model.kept(first + i));
    const std::uint32_t rows = std::min(segment.logit_rows, rows_of_slot_);
    for (std::uint32_t i = 0; i < rows; ++i)
      std::copy_n(inputs_[inputs_.size() - rows + i], hidden_, last(segment.slot, i));
    if (mutated(Mutant::kTokensNotShifted)) {
      tokens_.insert(tokens_.end(), segment.tokens.begin(), segment.tokens.end());
      continue;
    }
    tokens_.insert(tokens_.end(), segment.tokens.begin() + 1, segment.tokens.end());
    tokens_.push_back(segment.next == Segment::kNoToken ? segment.tokens.back() : segment.next);
  }
  std::size_t before = 0;
  for (Segment& segment : segments_) {
    segment.tokens = std::span(tokens_).subspan(before, segment.tokens.size());
    before += segment.tokens.size();
    segment.logit_rows = 0;
    segment.hidden_rows = {};
    segment.saves = {};
    segment.load = Segment::kNoState;
  }
  runner_.keep_rows(false);
  runner_.take_hidden(inputs_);
  runner_.forward(segments_, cache_, {});
}

void Drafter::begin(std::span<const DraftRow> rows) {
  drafted_ = 0;
  grow(hidden_rows_, rows.size() * hidden_);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    assert(rows[i].row < rows_of_slot_ && !rows[i].drafts.empty());
    std::copy_n(last(rows[i].slot, rows[i].row), hidden_, hidden_rows_.data() + i * hidden_);
  }
  runner_.keep_rows(true);
}

// One token more for all that want one.
bool Drafter::pass(std::span<const DraftRow> rows) {
  segments_.clear();
  inputs_.clear();
  tokens_.clear();
  for (const DraftRow& row : rows) {
    if (row.drafts.size() <= drafted_) continue;
    tokens_.push_back(drafted_ == 0 ? row.token : row.drafts[drafted_ - 1]);
  }
  if (tokens_.empty()) return false;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const DraftRow& row = rows[i];
    if (row.drafts.size() <= drafted_) continue;
    Segment segment;
    segment.tokens = std::span(tokens_).subspan(segments_.size(), 1);
    segment.first_position = row.position + drafted_;
    segment.block_table = row.block_table;
    segment.logit_rows = 1;
    segment.decode = true;
    segment.slot = row.slot;
    // The cheaper formula for a row alone.
    segment.generated = 0;
    segments_.push_back(segment);
    inputs_.push_back(hidden_rows_.data() + i * hidden_);
  }
  logits_.resize(segments_.size() * vocabulary_);
  runner_.take_hidden(inputs_);
  runner_.forward(segments_, cache_, logits_);
  std::size_t at = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].drafts.size() <= drafted_) continue;
    const auto of_row = std::span(logits_).subspan(at * vocabulary_, vocabulary_);
    const auto best = std::max_element(of_row.begin(), of_row.end());
    rows[i].drafts[drafted_] = static_cast<std::int32_t>(best - of_row.begin());
    std::copy_n(runner_.kept(at), hidden_, hidden_rows_.data() + i * hidden_);
    ++at;
  }
  ++drafted_;
  return true;
}

}  // namespace dovetail::model
