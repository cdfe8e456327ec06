#include "model/blocks/mamba.h"

#include <algorithm>
#include <cstring>

#include "kernels/functions.h"
#include "model/blocks/projection.h"
#include "model/blocks/state_steps.h"

namespace dovetail::model {
namespace {

std::vector<float> copy_of(std::span<const float> values) { return {values.begin(), values.end()}; }

// What a step is multiplied by to give a decay's logarithm.
std::vector<float> mamba_rates(const load::MambaConfig& config, const ModelWeights& weights,
                               const std::string& layer) {
  if (!config.log_rates) return copy_of(weights.vector(layer + "ssm_a"));
  std::vector<float> rates = copy_of(weights.vector(layer + "ssm_a_log"));
  for (float& rate : rates) rate = -static_cast<float>(kernels::exp(double{rate}));
  return rates;
}

// What is convolved is not multiplied by itself, so that states are of what ssm_in gives.
void scale_taps(const load::MambaConfig& config, Convolution& convolution) {
  const std::size_t inner = config.inner_size();
  const std::size_t group = std::size_t{config.groups} * config.state_dim;
  convolution.scale({0, static_cast<std::uint32_t>(inner)}, config.input_scale);
  const auto next = [&](std::size_t begin) {
    return Range{static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(begin + group)};
  };
  convolution.scale(next(inner), config.write_scale);
  convolution.scale(next(inner + group), config.read_scale);
}

std::span<const float> convolution_bias(const load::MambaConfig& config,
                                        const ModelWeights& weights, const std::string& layer) {
  if (!config.convolution_bias) return {};
  return weights.vector(layer + "ssm_conv1d.bias");
}

}  // namespace

Mamba::Mamba(const load::MambaConfig& config, const ModelWeights& weights, const std::string& layer,
             std::uint32_t state_layer, RowSet set, Workspace& workspace)
    : work_(workspace),
      config_(config),
      state_layer_(state_layer),
      set_(set),
      inner_(config.inner_size()),
      channels_(config.channels()),
      width_(config.input_size()),
      head_floats_(std::size_t{config.state_dim} * config.head_dim),
      input_(workspace.kernels, {&weights.matrix(layer + "ssm_in.weight")}),
      output_(workspace.kernels, {&weights.matrix(layer + "ssm_out.weight")}),
      convolution_({&weights.matrix(layer + "ssm_conv1d.weight")}, workspace.kernels,
                   convolution_bias(config, weights, layer)),
      rates_(mamba_rates(config, weights, layer)),
      step_bias_(copy_of(weights.vector(layer + "ssm_dt.bias"))),
      skips_(copy_of(weights.vector(layer + "ssm_d"))) {
  scale_taps(config, convolution_);
  if (config.norm) norm_ = copy_of(weights.vector(layer + "ssm_norm.weight"));
  workspace.query.need(width_);
  workspace.attended.need(channels_);
  workspace.value.need(inner_);
  workspace.projected.need(workspace.hidden);
  workspace.prepares(input_);
  workspace.prepares(output_);
}

void Mamba::add_steps(Program& program) {
  const auto all = [this](std::uint32_t tile) { return work_.tile(tile).rows.size(); };
  program.add({.name = "mamba-in",
               .matrix = true,
               .run =
                   [this, all](std::uint32_t index, std::uint32_t blocks, const cores::Part& part) {
                     const RowTile& tile = work_.tile(index);
                     input_.multiply(part.block, blocks, all(index), work_.prepared(tile),
                                     {{work_.query.of(tile), width_}});
                   }},
              [this, all](std::uint32_t tile) {
                return work_.share_product(work_.tile(tile), input_, all(tile));
              });
  add_state_steps(
      program, work_,
      {.update = "state-space",
       .gate = "mamba-gate",
       .set = set_,
       .channels = channels_,
       .positions = config_.convolution,
       .heads = config_.heads,
       .state_work = 3 * config_.heads * head_floats_,
       .size = inner_},
      [this](const RowTile& tile, const Range& channels) { convolve(tile, channels); },
      [this](const RowTile& tile, const Run& run, std::uint32_t head) { update(tile, run, head); },
      [this](const RowTile& tile, const Range& rows) { gate(tile, rows); });
  add_projection(program, "output", output_, set_, work_);
}

void Mamba::convolve(const RowTile& tile, const Range& channels) {
  const TileFloats input = {work_.query.of(tile) + inner_, width_};
  const TileFloats output = {work_.attended.of(tile), channels_};
  convolution_.activate(work_.pass, tile, channels, input, output, states());
}

void Mamba::update(const RowTile& tile, const Run& run, std::uint32_t head) {
  const kernels::Kernels& kernels = work_.kernels;
  const std::size_t dim = config_.head_dim;
  const std::size_t rows = run.end - run.begin;
  float* state = states().of(run.slot) + head_begin(head);
  if (run.starts() && !mutated(Mutant::kStateStays))
    std::memset(state, 0, head_floats_ * sizeof(float));
  std::vector<float> rates(2 * rows);
  float* steps = rates.data();
  float* decays = steps + rows;
  for (std::size_t i = 0; i < rows; ++i) {
    const float* row = work_.query.row(tile, run.begin + i, width_);
    steps[i] = row[inner_ + channels_ + head] * config_.step_scale;
    steps[i] += step_bias_[head];
  }
  kernels.apply(kernels::Function::kSoftplus, steps, rows, steps);
  for (std::size_t i = 0; i < rows; ++i) decays[i] = steps[i] * rates_[head];
  kernels.apply(kernels::Function::kExp, decays, rows, decays);
  const std::size_t group = head / (config_.heads / config_.groups);
  const StateSave* save = run.saves.data();
  const StateSave* end = save + run.saves.size();
  for (std::uint32_t i = run.begin; i < run.end; ++i) {
    const float* row = work_.attended.row(tile, i, channels_);
    kernels::StateSpaceArgs args;
    args.state = state;
    args.input = row + head * dim;
    args.write = row + inner_ + group * config_.state_dim;
    args.read = args.write + config_.groups * config_.state_dim;
    args.decay = decays[i - run.begin];
    args.step = steps[i - run.begin];
    args.skip = skips_[head];
    args.state_dim = config_.state_dim;
    args.head_dim = dim;
    args.output = work_.value.row(tile, i, inner_) + head * dim;
    kernels.state_space(args);
    if (mutated(Mutant::kSavedAtTheEnd) && i + 1 < run.end) continue;
    for (; save != end && run.until(*save) <= i + 1 - run.begin; ++save)
      std::copy_n(state, head_floats_, states().of(*save) + head_begin(head));
  }
}

// Gates, norms of groups, and preparation for the output product.
void Mamba::gate(const RowTile& tile, const Range& rows) {
  const kernels::Kernels& kernels = work_.kernels;
  const std::size_t group = inner_ / config_.groups;
  for (std::uint32_t i = rows.begin; i < rows.end; ++i) {
    const std::uint32_t row = work_.row(set_, tile, i) - tile.rows.begin;
    float* values = work_.value.row(tile, row, inner_);
    float* gates = work_.query.row(tile, row, width_);
    if (config_.gate_scale != 1.0F) kernels.scale(gates, config_.gate_scale, inner_);
    const auto norm = [&] {
      for (std::size_t at = 0; at < norm_.size(); at += group)
        kernels.rms_norm(values + at, norm_.data() + at, group, config_.norm.epsilon, values + at);
    };
    if (config_.norm_first) norm();
    kernels.gate(kernels::Activation::kSilu, gates, values, inner_, values);
    if (!config_.norm_first) norm();
    output_.prepare(values, i, work_.count(set_, tile), work_.prepared(tile));
  }
}

}  // namespace dovetail::model
