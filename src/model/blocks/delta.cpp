#include "model/blocks/delta.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>

#include "kernels/functions.h"
#include "model/blocks/projection.h"
#include "model/blocks/state_steps.h"

namespace dovetail::model {
namespace {

Linear delta_input(const load::DeltaConfig& config, const ModelWeights& weights,
                   const std::string& layer, const kernels::Kernels& kernels) {
  const auto matrix = [&](const char* name) { return &weights.matrix(layer + name); };
  if (config.grouped_input && config.grouped_rates)
    return {kernels, {matrix("ssm_in.weight"), matrix("ssm_ba.weight")}};
  assert(!config.grouped_input);
  const Matrix* qkv = matrix("attn_qkv.weight");
  const Matrix* gate = matrix("attn_gate.weight");
  if (config.grouped_rates) return {kernels, {qkv, gate, matrix("ssm_ba.weight")}};
  return {kernels, {qkv, gate, matrix("ssm_beta.weight"), matrix("ssm_alpha.weight")}};
}

}  // namespace

Delta::Delta(const load::DeltaConfig& config, const ModelWeights& weights, const std::string& layer,
             std::uint32_t state_layer, RowSet set, Workspace& workspace)
    : work_(workspace),
      config_(config),
      state_layer_(state_layer),
      set_(set),
      channels_(config.channels()),
      value_size_(config.value_size()),
      rates_(std::size_t{2} * config.value_heads),
      input_(delta_input(config, weights, layer, workspace.kernels)),
      output_(workspace.kernels, {&weights.matrix(layer + "ssm_out.weight")}),
      convolution_({&weights.matrix(layer + "ssm_conv1d.weight")}, workspace.kernels),
      norm_({load::NormKind::kRms, config.epsilon}, weights, layer + "ssm_norm",
            workspace.kernels) {
  const std::span<const float> dt = weights.vector(layer + "ssm_dt.bias");
  const std::span<const float> a =
      weights.vector(layer + (config.log_rates ? "ssm_a_log" : "ssm_a"));
  rates_dt_.assign(dt.begin(), dt.end());
  for (const float rate : a) {
    rates_a_.push_back(config.log_rates ? -static_cast<float>(kernels::exp(double{rate})) : rate);
  }
  workspace.query.need(config.grouped_input ? channels_ + value_size_ : channels_);
  workspace.gate.need(value_size_);
  workspace.key.need(rates_);
  workspace.attended.need(channels_);
  workspace.value.need(value_size_);
  workspace.projected.need(workspace.hidden);
  workspace.prepares(input_);
  workspace.prepares(output_);
}

void Delta::add_steps(Program& program) {
  const auto all = [this](std::uint32_t tile) { return work_.tile(tile).rows.size(); };
  program.add(
      {.name = "delta-in",
       .matrix = true,
       .run = [this](std::uint32_t tile, std::uint32_t blocks,
                     const cores::Part& part) { multiply(work_.tile(tile), part.block, blocks); }},
      [this, all](std::uint32_t tile) {
        return work_.share_product(work_.tile(tile), input_, all(tile));
      });
  if (config_.grouped_input || config_.grouped_rates) {
    program.add(
        {.name = "part",
         .run =
             [this, all](std::uint32_t tile, std::uint32_t blocks, const cores::Part& mine) {
               part(work_.tile(tile), part_of(all(tile), mine.block, blocks));
             }},
        [this, all](std::uint32_t tile) {
          const std::size_t rows = all(tile);
          return work_.share(work_.tile(tile), rows, rows * channels_);
        });
  }
  add_state_steps(
      program, work_,
      {.update = "delta",
       .gate = "delta-gate",
       .set = set_,
       .channels = channels_,
       .positions = config_.convolution,
       .heads = config_.value_heads,
       .state_work = 4 * config_.key_dim * value_size_,
       .size = value_size_},
      [this](const RowTile& tile, const Range& channels) { convolve(tile, channels); },
      [this](const RowTile& tile, const Run& run, std::uint32_t head) { update(tile, run, head); },
      [this](const RowTile& tile, const Range& rows) { gate(tile, rows); });
  add_projection(program, "output", output_, set_, work_);
}

void Delta::multiply(const RowTile& tile, std::uint32_t block, std::uint32_t blocks) {
  const std::size_t rows = tile.rows.size();
  const std::byte* prepared = work_.prepared(tile);
  const Linear::Output gate = {work_.gate.of(tile), value_size_};
  float* rates = work_.key.of(tile);
  if (config_.grouped_input) {
    return input_.multiply(block, blocks, rows, prepared,
                           {{work_.query.of(tile), channels_ + value_size_}, {rates, rates_}});
  }
  const Linear::Output qkv = {work_.query.of(tile), channels_};
  if (config_.grouped_rates)
    return input_.multiply(block, blocks, rows, prepared, {qkv, gate, {rates, rates_}});
  input_.multiply(block, blocks, rows, prepared,
                  {qkv, gate, {rates, rates_}, {rates + config_.value_heads, rates_}});
}

// What comes key head by key head is laid out as if it came from matrices of its own. Rows of the
// input keep their stride: convolve() reads them by it.
void Delta::part(const RowTile& tile, const Range& rows) {
  const std::size_t keys = config_.key_dim;
  const std::size_t group = config_.value_heads / config_.key_heads;
  const std::size_t values = group * config_.value_dim;
  std::vector<float> copy;
  for (std::uint32_t i = rows.begin; i < rows.end; ++i) {
    if (config_.grouped_rates) {
      float* rates = work_.key.row(tile, i, rates_);
      copy.assign(rates, rates + rates_);
      for (std::size_t head = 0; head < config_.key_heads; ++head) {
        const float* from = copy.data() + head * 2 * group;
        std::copy_n(from, group, rates + head * group);
        std::copy_n(from + group, group, rates + config_.value_heads + head * group);
      }
    }
    if (!config_.grouped_input) continue;
    float* row = work_.query.row(tile, i, channels_ + value_size_);
    float* gates = work_.gate.row(tile, i, value_size_);
    copy.assign(row, row + channels_ + value_size_);
    for (std::size_t head = 0; head < config_.key_heads; ++head) {
      const float* from = copy.data() + head * 2 * (keys + values);
      std::copy_n(from, keys, row + head * keys);
      std::copy_n(from + keys, keys, row + config_.key_size() + head * keys);
      std::copy_n(from + 2 * keys, values, row + 2 * config_.key_size() + head * values);
      std::copy_n(from + 2 * keys + values, values, gates + head * values);
    }
  }
}

void Delta::convolve(const RowTile& tile, const Range& channels) {
  const std::size_t stride = config_.grouped_input ? channels_ + value_size_ : channels_;
  const TileFloats input = {work_.query.of(tile), stride};
  const TileFloats output = {work_.attended.of(tile), channels_};
  convolution_.activate(work_.pass, tile, channels, input, output, states());
}

void Delta::update(const RowTile& tile, const Run& run, std::uint32_t head) {
  const kernels::Kernels& kernels = work_.kernels;
  const std::size_t dim = config_.key_dim;
  const std::uint32_t key_head =
      config_.tiled ? head % config_.key_heads : head / (config_.value_heads / config_.key_heads);
  float* state = states().of(run.slot) + head_begin(head);
  const StateSave* save = run.saves.data();
  if (run.starts() && !mutated(Mutant::kStateStays))
    std::memset(state, 0, dim * config_.value_dim * sizeof(float));
  const float scale = 1.0F / std::sqrt(static_cast<float>(dim));
  std::vector<float> normed(2 * dim);
  for (std::uint32_t i = run.begin; i < run.end; ++i) {
    const float* row = work_.attended.row(tile, i, channels_);
    const float* rates = work_.key.row(tile, i, rates_);
    float* query = normed.data();
    float* key = query + dim;
    kernels.l2_norm(row + key_head * dim, dim, 1e-6F, query);
    kernels.scale(query, scale, dim);
    kernels.l2_norm(row + config_.key_size() + key_head * dim, dim, 1e-6F, key);
    kernels::DeltaRuleArgs args;
    float rate = rates[config_.value_heads + head] + rates_dt_[head];
    kernels.apply(kernels::Function::kSoftplus, &rate, 1, &rate);
    rate *= rates_a_[head];
    kernels.apply(kernels::Function::kExp, &rate, 1, &args.decay);
    kernels.apply(kernels::Function::kSigmoid, rates + head, 1, &args.beta);
    args.state = state;
    args.query = query;
    args.key = key;
    args.value = row + 2 * config_.key_size() + head * config_.value_dim;
    args.key_dim = dim;
    args.value_dim = config_.value_dim;
    args.output = work_.value.row(tile, i, value_size_) + head * config_.value_dim;
    kernels.delta_rule(args);
    if (mutated(Mutant::kSavedAtTheEnd) && i + 1 < run.end) continue;
    const StateSave* end = run.saves.data() + run.saves.size();
    for (; save != end && run.until(*save) <= i + 1 - run.begin; ++save)
      std::copy_n(state, dim * config_.value_dim, states().of(*save) + head_begin(head));
  }
}

// Norms of heads, gates, and preparation for the output product.
void Delta::gate(const RowTile& tile, const Range& rows) {
  const std::size_t dim = config_.value_dim;
  for (std::uint32_t i = rows.begin; i < rows.end; ++i) {
    const std::uint32_t row = work_.row(set_, tile, i) - tile.rows.begin;
    float* values = work_.value.row(tile, row, value_size_);
    for (std::size_t head = 0; head < config_.value_heads; ++head)
      norm_.apply(values + head * dim, values + head * dim);
    work_.kernels.gate(kernels::Activation::kSilu, work_.gate.row(tile, row, value_size_), values,
                       value_size_, values);
    output_.prepare(values, i, work_.count(set_, tile), work_.prepared(tile));
  }
}

}  // namespace dovetail::model
