#include "model/blocks/layer_inputs.h"

#include <cassert>
#include <cmath>
#include <numbers>
#include <vector>

#include "model/blocks/projection.h"

namespace dovetail::model {

LayerInputs::LayerInputs(const load::ModelConfig& config, const ModelWeights& weights,
                         Workspace& workspace)
    : work_(workspace),
      tokens_(weights.matrix("per_layer_token_embd.weight")),
      product_(workspace.kernels, {&weights.matrix("per_layer_model_proj.weight")}),
      size_(config.layer_inputs.size),
      all_(size_ * config.layers.size()),
      embedding_scale_(config.layer_inputs.embedding_scale),
      product_scale_(1.0F / std::sqrt(static_cast<float>(config.hidden_size))),
      norm_(config.layer_inputs.norm, weights, "per_layer_proj_norm", workspace.kernels) {
  workspace.layer_inputs.need(all_);
  workspace.prepares(product_);
}

void LayerInputs::add_steps(Program& program) {
  program.add({.name = "layer-rows",
               .run =
                   [this](std::uint32_t index, std::uint32_t blocks, const cores::Part& part) {
                     const RowTile& tile = work_.tile(index);
                     prepare(tile, part_of(tile.rows.size(), part.block, blocks));
                   }},
              [this](std::uint32_t index) {
                const std::size_t rows = work_.tile(index).rows.size();
                return work_.share(work_.tile(index), rows, rows * 2 * work_.hidden);
              });
  program.add({.name = "layer-project",
               .matrix = true,
               .run =
                   [this](std::uint32_t index, std::uint32_t blocks, const cores::Part& part) {
                     const RowTile& tile = work_.tile(index);
                     product_.multiply(part.block, blocks, tile.rows.size(), work_.prepared(tile),
                                       {{work_.layer_inputs.of(tile), all_}});
                   }},
              [this](std::uint32_t index) {
                const RowTile& tile = work_.tile(index);
                return work_.share_product(tile, product_, tile.rows.size());
              });
  program.add({.name = "layer-inputs",
               .run =
                   [this](std::uint32_t index, std::uint32_t blocks, const cores::Part& part) {
                     const RowTile& tile = work_.tile(index);
                     join(tile, part_of(tile.rows.size(), part.block, blocks));
                   }},
              [this](std::uint32_t index) {
                const std::size_t rows = work_.tile(index).rows.size();
                return work_.share(work_.tile(index), rows, rows * 8 * all_);
              });
}

void LayerInputs::prepare(const RowTile& tile, const Range& rows) {
  for (std::uint32_t i = rows.begin; i < rows.end; ++i) {
    product_.prepare(work_.residual.row(tile, i, work_.residual_size()), i, tile.rows.size(),
                     work_.prepared(tile));
  }
}

// The products' share, normed layer by layer, and the token's: half the sum of their squares.
void LayerInputs::join(const RowTile& tile, const Range& rows) {
  const kernels::Kernels& kernels = work_.kernels;
  constexpr float kHalf = 1.0F / std::numbers::sqrt2_v<float>;
  const std::size_t bytes = kernels::row_bytes(tokens_.type, tokens_.columns);
  // Kept between calls.
  thread_local std::vector<float> token;
  token.resize(all_);
  for (std::uint32_t i = rows.begin; i < rows.end; ++i) {
    const PassRow& row = work_.pass.rows()[tile.rows.begin + i];
    assert(row.token >= 0 && static_cast<std::size_t>(row.token) < tokens_.rows);
    float* out = work_.layer_inputs.row(tile, i, all_);
    kernels.scale(out, product_scale_, all_);
    for (std::size_t at = 0; at < all_; at += size_) norm_.apply(out + at, out + at);
    kernels.dequantize_row(tokens_.type, tokens_.data + static_cast<std::size_t>(row.token) * bytes,
                           all_, token.data());
    kernels.add_scaled(out, token.data(), embedding_scale_, all_);
    kernels.scale(out, kHalf, all_);
  }
}

LayerInput::LayerInput(const load::ModelConfig& config, const ModelWeights& weights,
                       const std::string& layer, std::size_t index, RowSet set,
                       Workspace& workspace)
    : work_(workspace),
      activation_(config.layer_inputs.activation),
      size_(config.layer_inputs.size),
      all_(size_ * config.layers.size()),
      begin_(size_ * index),
      set_(set),
      gate_(workspace.kernels, {&weights.matrix(layer + "inp_gate.weight")}),
      output_(workspace.kernels, {&weights.matrix(layer + "proj.weight")}) {
  workspace.gate.need(size_);
  workspace.projected.need(workspace.hidden);
  workspace.prepares(gate_);
  workspace.prepares(output_);
}

void LayerInput::add_steps(Program& program) {
  program.add({.name = "input-gate",
               .matrix = true,
               .run =
                   [this](std::uint32_t index, std::uint32_t blocks, const cores::Part& part) {
                     const RowTile& tile = work_.tile(index);
                     gate_.multiply(part.block, blocks, work_.count(set_, tile),
                                    work_.prepared(tile), {{work_.gate.of(tile), size_}});
                   }},
              [this](std::uint32_t index) {
                const RowTile& tile = work_.tile(index);
                return work_.share_product(tile, gate_, work_.count(set_, tile));
              });
  program.add({.name = "input-activate",
               .run =
                   [this](std::uint32_t index, std::uint32_t blocks, const cores::Part& part) {
                     const RowTile& tile = work_.tile(index);
                     activate(tile, part_of(work_.count(set_, tile), part.block, blocks));
                   }},
              [this](std::uint32_t index) {
                const RowTile& tile = work_.tile(index);
                const std::size_t rows = work_.count(set_, tile);
                return work_.share(tile, rows, rows * 8 * size_);
              });
  add_projection(program, "input-project", output_, set_, work_);
}

void LayerInput::activate(const RowTile& tile, const Range& rows) {
  const std::uint32_t count = work_.count(set_, tile);
  for (std::uint32_t i = rows.begin; i < rows.end; ++i) {
    const std::uint32_t in_tile = work_.row(set_, tile, i) - tile.rows.begin;
    const float* input = work_.layer_inputs.row(tile, in_tile, all_) + begin_;
    float* gate = work_.gate.row(tile, i, size_);
    work_.kernels.gate(activation_, gate, input, size_, gate);
    output_.prepare(gate, i, count, work_.prepared(tile));
  }
}

}  // namespace dovetail::model
