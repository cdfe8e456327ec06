#include "model/blocks/join.h"

#include <cstring>

namespace dovetail::model {

void Residual::add(Workspace& work, const RowTile& tile, std::uint32_t row, float* given) const {
  if (!adds_) return;
  const kernels::Kernels& kernels = work.kernels;
  const std::size_t hidden = work.hidden;
  float* residual = work.residual_row(tile, row);
  if (work.streams > 1) return give_back(work, residual, given, work.mix_row(tile, row));
  if (!bias_.empty()) kernels.add(given, bias_.data(), hidden);
  if (behind_) behind_.apply(given, given);
  if (scale_ == 1.0F) {
    kernels.add(residual, given, hidden);
  } else {
    kernels.add_scaled(residual, given, scale_, hidden);
  }
  if (after_) after_.apply(residual, residual);
  if (sum_scale_ != 1.0F) kernels.scale(residual, sum_scale_, hidden);
}

void Join::add_steps(const char* name, Program& program) {
  program.add({.name = name,
               .run =
                   [this](std::uint32_t index, std::uint32_t blocks, const cores::Part& part) {
                     const RowTile& tile = work_.tile(index);
                     run(tile, part_of(work_.count(set_, tile), part.block, blocks));
                   }},
              [this](std::uint32_t index) {
                const RowTile& tile = work_.tile(index);
                const std::size_t rows = work_.count(set_, tile);
                return work_.share(tile, rows, rows * 4 * work_.hidden);
              });
}

void Join::run(const RowTile& tile, const Range& rows) {
  const std::size_t hidden = work_.hidden;
  const std::uint32_t count = work_.count(set_, tile);
  for (std::uint32_t i = rows.begin; i < rows.end; ++i) {
    const std::uint32_t pass_row = work_.row(set_, tile, i);
    const float* residual = work_.residual_row(tile, pass_row);
    float* projected = work_.projected.row(tile, i, hidden);
    // Where attention left what its product has taken: free until the next layer's.
    float* row = parallel_ ? work_.attended.row(tile, i, hidden) : projected;
    if (!parallel_) before_.add(work_, tile, pass_row, projected);
    if (mix_) {
      mix_->take(work_, residual, row, work_.mix_row(tile, pass_row));
      norm_.apply(row, row);
    } else {
      take(residual, row);
    }
    if (parallel_) before_.add(work_, tile, pass_row, projected);
    input_->prepare(row, i, count, work_.prepared(tile));
  }
}

// The row that the next sublayer takes.
void Join::take(const float* residual, float* row) const {
  if (norm_) {
    norm_.apply(residual, row);
  } else {
    std::memcpy(row, residual, work_.hidden * sizeof(float));
  }
}

}  // namespace dovetail::model
