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
      product_(workspace.kernels,
               {&weights.matrix(layer + (workspace.streams > 1 ? "nextn.e_proj.weight"
                                                               : "nextn.eh_proj.weight"))}) {
  workspace.residual.need(workspace.residual_size());
  workspace.attended.need(std::max<std::size_t>(2, workspace.streams) * workspace.hidden);
  workspace.prepares(product_);
  if (workspace.streams == 1) return;
  stream_product_.emplace(workspace.kernels, std::initializer_list<const Matrix*>{
                                                 &weights.matrix(layer + "nextn.h_proj.weight")});
  workspace.prepares(*stream_product_, workspace.streams);
  workspace.projected.need(workspace.hidden);
}

void DraftInput::add_steps(Program& program) {
  if (stream_product_) return add_stream_steps(program);
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
  add_product(program, "draft-input", product_, 1, work_.residual);
}

void DraftInput::add_product(Program& program, const char* name, const Linear& product,
                             std::size_t inputs, ScratchRows& out) {
  program.add({.name = name,
               .matrix = true,
               .run =
                   [this, &product, inputs, &out](std::uint32_t index, std::uint32_t blocks,
                                                  const cores::Part& part) {
                     const RowTile& tile = work_.tile(index);
                     product.multiply(part.block, blocks, tile.rows.size() * inputs,
                                      work_.prepared(tile), {{out.of(tile), work_.hidden}});
                   }},
              [this, &product, inputs](std::uint32_t index) {
                const RowTile& tile = work_.tile(index);
                return work_.share_product(tile, product, tile.rows.size() * inputs);
              });
}

// The embedding's product into `projected`, the streams' into the residual, and their sum.
void DraftInput::add_stream_steps(Program& program) {
  const auto share_rows = [this](std::size_t each) {
    return [this, each](std::uint32_t index) {
      const RowTile& tile = work_.tile(index);
      const std::size_t rows = tile.rows.size();
      return work_.share(tile, rows, rows * each);
    };
  };
  const auto by_rows = [this](auto does) {
    return [this, does](std::uint32_t index, std::uint32_t blocks, const cores::Part& part) {
      const RowTile& tile = work_.tile(index);
      const Range rows = part_of(tile.rows.size(), part.block, blocks);
      for (std::uint32_t i = rows.begin; i < rows.end; ++i) does(tile, i);
    };
  };
  const std::size_t hidden = work_.hidden;
  program.add(
      {.name = "draft-rows", .run = by_rows([this, hidden](const RowTile& tile, std::uint32_t i) {
                               float* row = work_.attended.row(tile, i, hidden);
                               embed(work_.pass.rows()[tile.rows.begin + i], row);
                               product_.prepare(row, i, tile.rows.size(), work_.prepared(tile));
                             })},
      share_rows(8 * hidden));
  add_product(program, "draft-input", product_, 1, work_.projected);
  program.add({.name = "draft-streams",
               .run = by_rows([this, hidden](const RowTile& tile, std::uint32_t i) {
                 const auto streams = static_cast<std::uint32_t>(work_.streams);
                 for (std::uint32_t k = 0; k < streams; ++k) {
                   float* row = work_.attended.row(tile, i * streams + k, hidden);
                   hidden_norm_.apply(hidden_[tile.rows.begin + i] + k * hidden, row);
                   stream_product_->prepare(row, i * streams + k, tile.rows.size() * streams,
                                            work_.prepared(tile));
                 }
               })},
              share_rows(8 * work_.residual_size()));
  add_product(program, "draft-streams-input", *stream_product_, work_.streams, work_.residual);
  program.add(
      {.name = "draft-sum", .run = by_rows([this, hidden](const RowTile& tile, std::uint32_t i) {
                              float* streams = work_.residual.row(tile, i, work_.residual_size());
                              for (std::size_t k = 0; k < work_.streams; ++k)
                                work_.kernels.add(streams + k * hidden,
                                                  work_.projected.row(tile, i, hidden), hidden);
                            })},
      share_rows(work_.residual_size()));
}

// The normed embedding of a row's token.
void DraftInput::embed(const PassRow& row, float* out) const {
  const std::size_t bytes = kernels::row_bytes(tokens_.type, tokens_.columns);
  assert(row.token >= 0 && static_cast<std::size_t>(row.token) < tokens_.rows);
  work_.kernels.dequantize_row(tokens_.type,
                               tokens_.data + static_cast<std::size_t>(row.token) * bytes,
                               tokens_.columns, out);
  if (scale_ != 1.0F) work_.kernels.scale(out, scale_, work_.hidden);
  token_norm_.apply(out, out);
}

void DraftInput::prepare(const RowTile& tile, const Range& rows) {
  const std::size_t hidden = work_.hidden;
  for (std::uint32_t i = rows.begin; i < rows.end; ++i) {
    float* both = work_.attended.row(tile, i, 2 * hidden);
    embed(work_.pass.rows()[tile.rows.begin + i], both);
    hidden_norm_.apply(hidden_[tile.rows.begin + i], both + hidden);
    if (mutated(Mutant::kHiddenRowFirst)) std::swap_ranges(both, both + hidden, both + hidden);
    product_.prepare(both, i, tile.rows.size(), work_.prepared(tile));
  }
}

}  // namespace dovetail::model
