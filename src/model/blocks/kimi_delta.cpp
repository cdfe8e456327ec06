#include "model/blocks/kimi_delta.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/functions.h"
#include "model/blocks/projection.h"
#include "model/blocks/state_steps.h"

namespace dovetail::model {

KimiDelta::KimiDelta(const load::KimiDeltaConfig& config, const ModelWeights& weights,
                     const std::string& layer, std::uint32_t state_layer, RowSet set,
                     Workspace& workspace)
    : work_(workspace),
      config_(config),
      state_layer_(state_layer),
      set_(set),
      size_(config.size()),
      channels_(config.channels()),
      narrow_(config.heads + std::size_t{2} * config.head_dim),
      input_(
          workspace.kernels,
          {&weights.matrix(layer + "attn_q.weight"), &weights.matrix(layer + "attn_k.weight"),
           &weights.matrix(layer + "attn_v.weight"), &weights.matrix(layer + "ssm_beta.weight"),
           &weights.matrix(layer + "ssm_f_a.weight"), &weights.matrix(layer + "ssm_g_a.weight")}),
      decay_(workspace.kernels, {&weights.matrix(layer + "ssm_f_b.weight")}),
      gate_(workspace.kernels, {&weights.matrix(layer + "ssm_g_b.weight")}),
      output_(workspace.kernels, {&weights.matrix(layer + "attn_output.weight")}),
      convolution_({&weights.matrix(layer + "ssm_conv1d_q.weight"),
                    &weights.matrix(layer + "ssm_conv1d_k.weight"),
                    &weights.matrix(layer + "ssm_conv1d_v.weight")},
                   workspace.kernels),
      norm_({load::NormKind::kRms, config.epsilon}, weights, layer + "ssm_norm",
            workspace.kernels) {
  const std::span<const float> bias = weights.vector(layer + "ssm_dt.bias");
  decay_bias_.assign(bias.begin(), bias.end());
  for (const float rate : weights.vector(layer + (config.log_rates ? "ssm_a_log" : "ssm_a"))) {
    rates_.push_back(config.log_rates ? -static_cast<float>(kernels::exp(double{rate})) : rate);
  }
  workspace.query.need(channels_);
  workspace.key.need(narrow_);
  workspace.up.need(size_);
  workspace.gate.need(size_);
  workspace.attended.need(channels_);
  workspace.value.need(size_);
  workspace.projected.need(workspace.hidden);
  for (const Linear* linear : {&input_, &decay_, &gate_, &output_}) workspace.prepares(*linear);
}

void KimiDelta::add_steps(Program& program) {
  const auto all = [this](std::uint32_t tile) { return work_.tile(tile).rows.size(); };
  program.add(
      {.name = "kda-in",
       .matrix = true,
       .run = [this](std::uint32_t tile, std::uint32_t blocks,
                     const cores::Part& part) { multiply(work_.tile(tile), part.block, blocks); }},
      [this, all](std::uint32_t tile) {
        return work_.share_product(work_.tile(tile), input_, all(tile));
      });
  add_second(program, "kda-decay", decay_, config_.heads, work_.up);
  add_second(program, "kda-gate", gate_, config_.heads + std::size_t{config_.head_dim}, work_.gate);
  add_state_steps(
      program, work_,
      {.update = "kda",
       .gate = "kda-out",
       .set = set_,
       .channels = channels_,
       .positions = config_.convolution,
       .heads = config_.heads,
       .state_work = 4 * config_.head_dim * size_,
       .size = size_},
      [this](const RowTile& tile, const Range& channels) { convolve(tile, channels); },
      [this](const RowTile& tile, const Run& run, std::uint32_t head) { update(tile, run, head); },
      [this](const RowTile& tile, const Range& rows) { gate(tile, rows); });
  add_projection(program, "output", output_, set_, work_);
}

void KimiDelta::add_second(Program& program, const char* name, const Linear& linear,
                           std::size_t begin, ScratchRows& to) {
  const auto all = [this](std::uint32_t tile) { return work_.tile(tile).rows.size(); };
  program.add({.name = name,
               .run =
                   [this, &linear, begin, all](std::uint32_t index, std::uint32_t blocks,
                                               const cores::Part& part) {
                     const RowTile& tile = work_.tile(index);
                     const Range rows = part_of(all(index), part.block, blocks);
                     for (std::uint32_t i = rows.begin; i < rows.end; ++i) {
                       linear.prepare(work_.key.row(tile, i, narrow_) + begin, i, all(index),
                                      work_.prepared(tile));
                     }
                   }},
              [this, &linear, all](std::uint32_t tile) {
                return work_.share(work_.tile(tile), all(tile), all(tile) * 2 * linear.columns());
              });
  program.add({.name = name,
               .matrix = true,
               .run =
                   [this, &linear, &to, all](std::uint32_t index, std::uint32_t blocks,
                                             const cores::Part& part) {
                     const RowTile& tile = work_.tile(index);
                     linear.multiply(part.block, blocks, all(index), work_.prepared(tile),
                                     {{to.of(tile), size_}});
                   }},
              [this, &linear, all](std::uint32_t tile) {
                return work_.share_product(work_.tile(tile), linear, all(tile));
              });
}

void KimiDelta::multiply(const RowTile& tile, std::uint32_t block, std::uint32_t blocks) {
  float* convolved = work_.query.of(tile);
  float* narrow = work_.key.of(tile);
  const std::size_t dim = config_.head_dim;
  input_.multiply(block, blocks, tile.rows.size(), work_.prepared(tile),
                  {{convolved, channels_},
                   {convolved + size_, channels_},
                   {convolved + 2 * size_, channels_},
                   {narrow, narrow_},
                   {narrow + config_.heads, narrow_},
                   {narrow + config_.heads + dim, narrow_}});
}

void KimiDelta::convolve(const RowTile& tile, const Range& channels) {
  const TileFloats input = {work_.query.of(tile), channels_};
  const TileFloats output = {work_.attended.of(tile), channels_};
  convolution_.activate(work_.pass, tile, channels, input, output, states());
}

void KimiDelta::update(const RowTile& tile, const Run& run, std::uint32_t head) {
  const kernels::Kernels& kernels = work_.kernels;
  const std::size_t dim = config_.head_dim;
  float* state = states().of(run.slot) + head_begin(head);
  const StateSave* save = run.saves.data();
  const StateSave* end = save + run.saves.size();
  if (run.starts() && !mutated(Mutant::kStateStays))
    std::memset(state, 0, dim * dim * sizeof(float));
  const float scale = 1.0F / std::sqrt(static_cast<float>(dim));
  std::vector<float> normed(2 * dim);
  float* query = normed.data();
  float* key = query + dim;
  for (std::uint32_t i = run.begin; i < run.end; ++i) {
    const float* row = work_.attended.row(tile, i, channels_) + head * dim;
    kernels.l2_norm(row, dim, 1e-6F, query);
    kernels.scale(query, scale, dim);
    kernels.l2_norm(row + size_, dim, 1e-6F, key);
    float* decays = work_.up.row(tile, i, size_) + head * dim;
    for (std::size_t k = 0; k < dim; ++k) decays[k] += decay_bias_[head * dim + k];
    kernels.apply(kernels::Function::kSoftplus, decays, dim, decays);
    kernels.scale(decays, rates_[head], dim);
    kernels.apply(kernels::Function::kExp, decays, dim, decays);
    for (std::size_t k = 0; k < dim; ++k) kernels.scale(state + k * dim, decays[k], dim);
    kernels::DeltaRuleArgs args;
    kernels.apply(kernels::Function::kSigmoid, work_.key.row(tile, i, narrow_) + head, 1,
                  &args.beta);
    args.state = state;
    args.query = query;
    args.key = key;
    args.value = row + 2 * size_;
    args.key_dim = dim;
    args.value_dim = dim;
    args.output = work_.value.row(tile, i, size_) + head * dim;
    kernels.delta_rule(args);
    if (mutated(Mutant::kSavedAtTheEnd) && i + 1 < run.end) continue;
    for (; save != end && run.until(*save) <= i + 1 - run.begin; ++save)
      std::copy_n(state, dim * dim, states().of(*save) + head_begin(head));
  }
}

// Norms of heads, gates, and preparation for the output product.
void KimiDelta::gate(const RowTile& tile, const Range& rows) {
  const std::size_t dim = config_.head_dim;
  for (std::uint32_t i = rows.begin; i < rows.end; ++i) {
    const std::uint32_t row = work_.row(set_, tile, i) - tile.rows.begin;
    float* values = work_.value.row(tile, row, size_);
    float* gates = work_.gate.row(tile, row, size_);
    for (std::size_t head = 0; head < config_.heads; ++head)
      norm_.apply(values + head * dim, values + head * dim);
    work_.kernels.apply(kernels::Function::kSigmoid, gates, size_, gates);
    work_.kernels.multiply(values, gates, size_);
    output_.prepare(values, i, work_.count(set_, tile), work_.prepared(tile));
  }
}

}  // namespace dovetail::model
