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
  const std::size_t rows = work_.pass.logit_rows();
  assert(product_ || rows == 0);
  assert(hidden.size() == work_.pass.hidden_rows() * work_.hidden);
  logits_ = logits;
  hidden_ = hidden;
  kept_ = kept;
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
               .run =
                   [this](std::uint32_t, std::uint32_t blocks, const cores::Part& part) {
                     product_->multiply(part.block, blocks, work_.pass.logit_rows(),
                                        prepared_.data(), {{logits_.data(), product_->outputs()}});
                   }},
              [this](std::uint32_t) {
                const std::size_t rows = work_.pass.logit_rows();
                return model::share(product_->outputs(),
                                    rows * product_->columns() * product_->outputs(), work_.lanes);
              });
  if (scale_ == 1.0F && softcap_ == 0.0F) return;
  program.add({.name = "logit-cap",
               .once = true,
               .run =
                   [this](std::uint32_t, std::uint32_t blocks, const cores::Part& part) {
                     const Range mine = part_of(logits_.size(), part.block, blocks);
                     float* logits = logits_.data() + mine.begin;
                     // Divided first, so that a cap takes the scaled logits to its tangent.
                     const float factor = softcap_ == 0.0F ? scale_ : scale_ / softcap_;
                     work_.kernels.scale(logits, factor, mine.size());
                     if (softcap_ == 0.0F) return;
                     work_.kernels.apply(kernels::Function::kTanh, logits, mine.size(), logits);
                     work_.kernels.scale(logits, softcap_, mine.size());
                   }},
              [this](std::uint32_t) {
                return model::share(logits_.size(), 16 * logits_.size(), work_.lanes);
              });
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
      product_->prepare(normed, output.index, work_.pass.logit_rows(), prepared_.data());
    }
  }
}

}  // namespace dovetail::model
