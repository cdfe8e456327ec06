#include "model/blocks/gated_mlp.h"

#include "model/blocks/projection.h"

namespace dovetail::model {
namespace {

Linear mlp_input(const load::MlpConfig& config, const ModelWeights& weights,
                 const std::string& layer, const kernels::Kernels& kernels) {
  const Matrix& up = weights.matrix(layer + "ffn_up.weight");
  if (!config.gated) return {kernels, {&up}};
  return {kernels, {&weights.matrix(layer + "ffn_gate.weight"), &up}};
}

}  // namespace

Mlp::Mlp(const load::MlpConfig& config, const ModelWeights& weights, const std::string& layer,
         RowSet set, Workspace& workspace)
    : work_(workspace),
      config_(config),
      set_(set),
      input_(mlp_input(config, weights, layer, workspace.kernels)),
      down_(workspace.kernels, {&weights.matrix(layer + "ffn_down.weight")}) {
  if (config.bias) {
    if (config.gated) gate_bias_ = weights.vector(layer + "ffn_gate.bias");
    up_bias_ = weights.vector(layer + "ffn_up.bias");
    down_bias_ = weights.vector(layer + "ffn_down.bias");
  }
  if (config.gated) workspace.gate.need(config.size);
  workspace.up.need(config.size);
  workspace.projected.need(workspace.hidden);
  workspace.prepares(input_);
  workspace.prepares(down_);
}

void Mlp::add_steps(Program& program) {
  program.add({.name = "gate-up",
               .matrix = true,
               .run =
                   [this](std::uint32_t index, std::uint32_t blocks, const cores::Part& part) {
                     const RowTile& tile = work_.tile(index);
                     const std::uint32_t rows = work_.count(set_, tile);
                     const std::byte* prepared = work_.prepared(tile);
                     const Linear::Output up = {work_.up.of(tile), config_.size};
                     if (!config_.gated)
                       return input_.multiply(part.block, blocks, rows, prepared, {up});
                     input_.multiply(part.block, blocks, rows, prepared,
                                     {{work_.gate.of(tile), config_.size}, up});
                   }},
              [this](std::uint32_t index) {
                const RowTile& tile = work_.tile(index);
                return work_.share_product(tile, input_, work_.count(set_, tile));
              });
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
  add_projection(program, "down", down_, set_, work_);
}

void Mlp::activate(const RowTile& tile, const Range& rows) {
  const std::size_t size = config_.size;
  const kernels::Kernels& kernels = work_.kernels;
  const auto add = [&](float* row, std::span<const float> bias) {
    if (!bias.empty()) kernels.add(row, bias.data(), size);
  };
  for (std::uint32_t i = rows.begin; i < rows.end; ++i) {
    float* up = work_.up.row(tile, i, size);
    float* gate = config_.gated ? work_.gate.row(tile, i, size) : up;
    add(up, up_bias_);
    add(gate, gate_bias_);
    if (config_.gate_scale != 1.0F) kernels.scale(gate, config_.gate_scale, size);
    if (config_.xielu) {
      kernels.xielu(*config_.xielu, gate, size, gate);
    } else {
      kernels.gate(config_.activation, gate, config_.gated ? up : nullptr, size, gate);
    }
    down_.prepare(gate, i, work_.count(set_, tile), work_.prepared(tile));
  }
}

}  // namespace dovetail::model
