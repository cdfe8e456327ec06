#include "model/blocks/join.h"

#include <cstring>

namespace dovetail::model {

void Residual::add(const kernels::Kernels& kernels, float* residual, float* given,
                   std::size_t hidden) const {
  if (!adds_) return;
  if (!bias_.empty()) kernels.add(given, bias_.data(), hidden);
  if (behind_) behind_.apply(given, given);
  if (scale_ == 1.0F) {
    kernels.add(residual, given, hidden);
  } else {
    kernels.add_scaled(residual, given, scale_, hidden);
  }
  if (after_) after_.apply(residual, residual);
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
    float* residual = work_.residual_row(tile, work_.row(set_, tile, i));
    float* projected = work_.projected.row(tile, i, hidden);
    before_.add(work_.kernels, residual, projected, hidden);
    if (norm_) {
      norm_.apply(residual, projected);
    } else {
      std::memcpy(projected, residual, hidden * sizeof(float));
    }
    input_->prepare(projected, i, count, work_.prepared(tile));
  }
}

}  // namespace dovetail::model
