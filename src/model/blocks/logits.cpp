#include "model/blocks/logits.h"

#include <algorithm>
#include <cassert>
#include <string>

namespace dovetail::model {

Logits::Logits(const load::ModelConfig& config, Residual before, const ModelWeights& weights,
               const std::string& norm, Workspace& workspace, std::optional<StreamMix> mix)
    : work_(workspace),
      before_(std::move(before)),
      norm_(config.output_norm, weights, norm, workspace.kernels),
      mix_(std::move(mix)),
      scale_(config.logit_scale),
      softcap_(config.logit_softcap) {
  workspace.projected.need(workspace.hidden);
  if (config.has_logits) {
    product_.emplace(workspace.kernels,
                     std::initializer_list<const Matrix*>{&weights.matrix("output.weight")});
  }
}

void Logits::reserve(std::span<float> logits, std::span<float> hidden, float* kept) {
  assert(hidden.size() == work_.pass.hidden_rows() * work_.hidden);
  hidden_ = hidden;
  kept_ = kept;
  reserve(logits, work_.pass.logit_rows());
}

void Logits::reserve(std::span<const float* const> hidden, std::span<float> logits) {
  earlier_ = hidden;
  reserve(logits, hidden.size());
}

void Logits::reserve(std::span<float> logits, std::size_t rows) {
  assert(product_ || rows == 0);
  logits_ = logits;
  rows_ = rows;
  if (!product_) return;
  assert(logits.size() == rows * product_->outputs());
  prepared_.reserve(rows * product_->row_bytes());
}

void Logits::add_steps(Program& program) {
  program.add({.name = "logit-rows",
               .run =
                   [this](std::uint32_t index, std::uint32_t blocks, const cores::Part& part) {
                     const RowTile& tile = work_.tile(index);
                     prepare(tile, part_of(tile.wanted.size(), part.block, blocks));
                   }},
              [this](std::uint32_t index) {
                const RowTile& tile = work_.tile(index);
                const std::size_t rows = tile.wanted.size();
                return work_.share(tile, rows, rows * 4 * work_.hidden);
              });
  if (!product_) return;
  // After all tiles, with all lanes to itself.
  program.add({.name = "logits",
               .matrix = true,
               .once = true,
               .run = [this](std::uint32_t, std::uint32_t blocks,
                             const cores::Part& part) { multiply(part, blocks); }},
              [this](std::uint32_t) { return share_product(); });
  if (scale_ == 1.0F && softcap_ == 0.0F) return;
  program.add({.name = "logit-cap",
               .once = true,
               .run = [this](std::uint32_t, std::uint32_t blocks,
                             const cores::Part& part) { cap(part, blocks); }},
              [this](std::uint32_t) { return share_cap(); });
}

cores::Recording Logits::record() {
  cores::Recorder recorder(3, 1);
  if (!product_) return std::move(recorder).finish();
  cores::TaskNumber last = 0;
  const auto add = [&](const cores::TaskShape& shape, const cores::TaskFunction& run,
                       std::span<const cores::TaskNumber> after) {
    const auto number = recorder.add({shape}, run, {}, after);
    assert(number);
    last = *number;
  };
  add(cores::kVectorTask,
      [this](const cores::Part&) {
        for (std::size_t row = 0; row < rows_; ++row)
          product_->prepare(earlier_[row], row, rows_, prepared_.data());
      },
      {});
  add(cores::kMatrixTask, [this](const cores::Part& part) { multiply(part, share_product()); },
      {{last}});
  if (scale_ != 1.0F || softcap_ != 0.0F) {
    add(cores::kVectorTask, [this](const cores::Part& part) { cap(part, share_cap()); }, {{last}});
  }
  return std::move(recorder).finish();
}

void Logits::cut(cores::Recording& recording) const {
  recording.set_blocks(1, share_product());
  if (recording.size() > 2) recording.set_blocks(2, share_cap());
}

std::uint32_t Logits::share_product() const {
  return model::share(product_->outputs(), rows_ * product_->columns() * product_->outputs(),
                      work_.lanes);
}

void Logits::multiply(const cores::Part& part, std::uint32_t blocks) {
  product_->multiply(part.block, blocks, rows_, prepared_.data(),
                     {{logits_.data(), product_->outputs()}});
}

std::uint32_t Logits::share_cap() const {
  return model::share(logits_.size(), 16 * logits_.size(), work_.lanes);
}

void Logits::cap(const cores::Part& part, std::uint32_t blocks) {
  const Range mine = part_of(logits_.size(), part.block, blocks);
  float* logits = logits_.data() + mine.begin;
  // Divided first, so that a cap takes the scaled logits to its tangent.
  const float factor = softcap_ == 0.0F ? scale_ : scale_ / softcap_;
  work_.kernels.scale(logits, factor, mine.size());
  if (softcap_ == 0.0F) return;
  work_.kernels.apply(kernels::Function::kTanh, logits, mine.size(), logits);
  work_.kernels.scale(logits, softcap_, mine.size());
}

void Logits::prepare(const RowTile& tile, const Range& rows) {
  const std::size_t size = work_.hidden;
  for (std::uint32_t i = rows.begin; i < rows.end; ++i) {
    const std::uint32_t wanted = tile.wanted.begin + i;
    const RowOutput& output = work_.pass.outputs()[wanted];
    const std::uint32_t row = work_.pass.wanted()[wanted];
    const float* residual = work_.residual_row(tile, row);
    float* projected = work_.projected.row(tile, i, size);
    before_.add(work_, tile, row, projected);
    const float* normed = residual;
    if (mix_) {
      mix_->take(work_, residual, projected, nullptr);
      norm_.apply(projected, projected);
      normed = projected;
    } else if (norm_) {
      norm_.apply(residual, projected);
      normed = projected;
    }
    if (kept_ != nullptr) {
      const std::size_t width = work_.residual_size();
      std::copy_n(mix_ ? residual : normed, width, kept_ + row * width);
    }
    if (output.kind == RowOutput::Kind::kHidden) {
      std::copy_n(normed, size, hidden_.data() + output.index * size);
    } else if (output.kind == RowOutput::Kind::kLogits) {
      product_->prepare(normed, output.index, rows_, prepared_.data());
    }
  }
}

}  // namespace dovetail::model
