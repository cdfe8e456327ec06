#include "model/blocks/embed.h"

#include <algorithm>
#include <cassert>

namespace dovetail::model {

Embed::Embed(const load::ModelConfig& config, const ModelWeights& weights, Workspace& workspace)
    : work_(workspace),
      tokens_(weights.matrix("token_embd.weight")),
      position_offset_(config.position_offset),
      scale_(config.embedding_scale),
      norm_(config.embedding_norm, weights, "token_embd_norm", workspace.kernels) {
  workspace.residual.need(workspace.residual_size());
  if (config.learned_positions) positions_ = &weights.matrix("position_embd.weight");
  if (config.token_types) {
    const Matrix& types = weights.matrix("token_types.weight");
    types_.resize(2 * workspace.hidden);
    look_up(types, 0, types_.data());
    // A model of a single type has it for both texts.
    look_up(types, types.rows > 1 ? 1 : 0, types_.data() + workspace.hidden);
  }
}

void Embed::add_steps(Program& program) {
  program.add({.name = "embed",
               .run =
                   [this](std::uint32_t tile, std::uint32_t blocks, const cores::Part& part) {
                     const RowTile& rows = work_.tile(tile);
                     run(rows, part_of(rows.rows.size(), part.block, blocks));
                   }},
              [this](std::uint32_t tile) {
                const std::size_t rows = work_.tile(tile).rows.size();
                return work_.share(work_.tile(tile), rows, rows * work_.hidden);
              });
}

void Embed::look_up(const Matrix& matrix, std::size_t row, float* out) const {
  assert(row < matrix.rows);
  const std::size_t bytes = kernels::row_bytes(matrix.type, matrix.columns);
  work_.kernels.dequantize_row(matrix.type, matrix.data + row * bytes, matrix.columns, out);
}

void Embed::run(const RowTile& tile, const Range& rows) {
  const kernels::Kernels& kernels = work_.kernels;
  const std::size_t hidden = work_.hidden;
  for (std::uint32_t i = rows.begin; i < rows.end; ++i) {
    const PassRow& row = work_.pass.rows()[tile.rows.begin + i];
    assert(row.token >= 0);
    float* out = work_.residual.row(tile, i, work_.residual_size());
    look_up(tokens_, static_cast<std::size_t>(row.token), out);
    if (scale_ != 1.0F) kernels.scale(out, scale_, hidden);
    if (!types_.empty()) {
      const bool second = row.position >= work_.pass.segments()[row.segment].second;
      kernels.add(out, types_.data() + (second ? hidden : 0), hidden);
    }
    if (positions_ != nullptr) {
      // Where the layer's own products go later: free until then.
      float* position = work_.projected.row(tile, i, hidden);
      look_up(*positions_, row.position + position_offset_, position);
      kernels.add(out, position, hidden);
    }
    if (norm_) norm_.apply(out, out);
    for (std::size_t stream = 1; stream < work_.streams; ++stream)
      std::copy_n(out, hidden, out + stream * hidden);
  }
}

}  // namespace dovetail::model
