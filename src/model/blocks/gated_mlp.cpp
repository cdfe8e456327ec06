#include "model/blocks/gated_mlp.h"

namespace dovetail::model {

Mlp::Mlp(const load::MlpConfig& config, const ModelWeights& weights, const std::string& layer,
         RowSet set, Workspace& workspace)
    : work_(workspace),
      config_(config),
      set_(set),
      input_(workspace.kernels, {&weights.matrix(layer + "ffn_gate.weight"),
                                 &weights.matrix(layer + "ffn_up.weight")}),
      down_(workspace.kernels, {&weights.matrix(layer + "ffn_down.weight")}) {
  workspace.gate.need(config.size);
  workspace.up.need(config.size);
  workspace.projected.need(workspace.hidden);
  workspace.prepares(input_);
  workspace.prepares(down_);
}

void Mlp::add_steps(Program& program) {
  const auto product_cut = [this](const Linear& linear) {
    return [this, &linear](std::uint32_t index) {
      const RowTile& tile = work_.tile(index);
      return work_.share_product(tile, linear, work_.count(set_, tile));
    };
  };
  program.add({.name = "gate-up",
               .matrix = true,
               .run =
                   [this](std::uint32_t index, std::uint32_t blocks, const cores::Part& part) {
                     const RowTile& tile = work_.tile(index);
                     input_.multiply(
                         part.block, blocks, work_.count(set_, tile), work_.prepared(tile),
                         {{work_.gate.of(tile), config_.size}, {work_.up.of(tile), config_.size}});
                   }},
              product_cut(input_));
  program.add({.name = "activate",
               .run =
                   [this](std::uint32_t index, std::uint32_t blocks, const cores::Part& part) {
                     const RowTile& tile = work_.tile(index);
                     activate(tile, part_of(work_.count(set_, tile), part.block, blocks));
                   }},
              [this](std::uint32_t index) {
                const RowTile& tile = work_.tile(index);
                const std::size_t rows = work_.count(set_, tile);
                return work_.share(tile, rows, rows * 8 * config_.size);
              });
  program.add({.name = "down",
               .matrix = true,
               .run =
                   [this](std::uint32_t index, std::uint32_t blocks, const cores::Part& part) {
                     const RowTile& tile = work_.tile(index);
                     down_.multiply(part.block, blocks, work_.count(set_, tile),
                                    work_.prepared(tile),
                                    {{work_.projected.of(tile), work_.hidden}});
                   }},
              product_cut(down_));
}

void Mlp::activate(const RowTile& tile, const Range& rows) {
  const std::size_t size = config_.size;
  for (std::uint32_t i = rows.begin; i < rows.end; ++i) {
    float* gate = work_.gate.row(tile, i, size);
    work_.kernels.silu_mul(gate, work_.up.row(tile, i, size), size, gate);
    down_.prepare(gate, i, work_.count(set_, tile), work_.prepared(tile));
  }
}

}  // namespace dovetail::model
