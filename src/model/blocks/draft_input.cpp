#include "model/blocks/draft_input.h"

#include <algorithm>
#include <cassert>

#include "model/mutation.h"

namespace dovetail::model {

DraftInput::DraftInput(const load::ModelConfig& config, const ModelWeights& weights,
                       const std::string& layer, Workspace& workspace)
    : work_(workspace),
      tokens_(weights.matrix("token_embd.weight")),
      scale_(config.embedding_scale),
      token_norm_(config.output_norm, weights, layer + "nextn.enorm", workspace.kernels),
      hidden_norm_(config.output_norm, weights, layer + "nextn.hnorm", workspace.kernels),
      product_(workspace.kernels, {&weights.matrix(layer + "nextn.eh_proj.weight")}) {
  workspace.residual.need(workspace.hidden);
  workspace.attended.need(2 * workspace.hidden);
  workspace.prepares(product_);
}

void DraftInput::add_steps(Program& program) {
  program.add({.name = "draft-rows",
               .run =
                   [this](std::uint32_t index, std::uint32_t blocks, const cores::Part& part) {
                     const RowTile& tile = work_.tile(index);
                     prepare(tile, part_of(tile.rows.size(), part.block, blocks));
                   }},
              [this](std::uint32_t index) {
                const RowTile& tile = work_.tile(index);
                const std::size_t rows = tile.rows.size();
                return work_.share(tile, rows, rows * 8 * work_.hidden);
              });
  program.add({.name = "draft-input",
               .matrix = true,
               .run =
                   [this](std::uint32_t index, std::uint32_t blocks, const cores::Part& part) {
                     const RowTile& tile = work_.tile(index);
                     product_.multiply(part.block, blocks, tile.rows.size(), work_.prepared(tile),
                                       {{work_.residual.of(tile), work_.hidden}});
                   }},
              [this](std::uint32_t index) {
                const RowTile& tile = work_.tile(index);
                return work_.share_product(tile, product_, tile.rows.size());
              });
}

void DraftInput::prepare(const RowTile& tile, const Range& rows) {
  const std::size_t hidden = work_.hidden;
  const std::size_t bytes = kernels::row_bytes(tokens_.type, tokens_.columns);
  for (std::uint32_t i = rows.begin; i < rows.end; ++i) {
    const PassRow& row = work_.pass.rows()[tile.rows.begin + i];
    assert(row.token >= 0 && static_cast<std::size_t>(row.token) < tokens_.rows);
    float* both = work_.attended.row(tile, i, 2 * hidden);
    work_.kernels.dequantize_row(tokens_.type,
                                 tokens_.data + static_cast<std::size_t>(row.token) * bytes,
                                 tokens_.columns, both);
    if (scale_ != 1.0F) work_.kernels.scale(both, scale_, hidden);
    token_norm_.apply(both, both);
    hidden_norm_.apply(hidden_[tile.rows.begin + i], both + hidden);
    if (mutated(Mutant::kHiddenRowFirst)) std::swap_ranges(both, both + hidden, both + hidden);
    product_.prepare(both, i, tile.rows.size(), work_.prepared(tile));
  }
}

}  // namespace dovetail::model
