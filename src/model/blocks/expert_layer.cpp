#include "model/blocks/expert_layer.h"

#include <cmath>
#include <vector>

namespace dovetail::model {
namespace {

Linear expert_input(const load::ExpertsConfig& config, const ModelWeights& weights,
                    const std::string& layer, const kernels::Kernels& kernels) {
  const auto matrix = [&](const char* name) { return &weights.matrix(layer + name); };
  if (config.apart) return {kernels, {matrix("ffn_gate.weight"), matrix("ffn_up.weight")}};
  const Matrix* router = matrix("ffn_gate_inp.weight");
  if (config.shared_size == 0) return {kernels, {router}};
  const Matrix* up = matrix("ffn_up_shexp.weight");
  if (!config.gated) return {kernels, {router, up}};
  const Matrix* gate = matrix("ffn_gate_shexp.weight");
  if (!config.shared_gated) return {kernels, {router, gate, up}};
  return {kernels, {router, gate, up, matrix("ffn_gate_inp_shexp.weight")}};
}

}  // namespace

ExpertLayer::ExpertLayer(const load::ExpertsConfig& config, const ModelWeights& weights,
                         const std::string& layer, Experts& experts, std::uint32_t index,
                         RowSet set, Workspace& workspace)
    : work_(workspace),
      config_(config),
      experts_(experts),
      index_(index),
      set_(set),
      input_(expert_input(config, weights, layer, workspace.kernels)) {
  workspace.projected.need(workspace.hidden);
  workspace.prepares(input_);
  if (config.shared_size == 0) return;
  const char* down = config.apart ? "ffn_down.weight" : "ffn_down_shexp.weight";
  shared_down_.emplace(workspace.kernels,
                       std::initializer_list<const Matrix*>{&weights.matrix(layer + down)});
  workspace.gate.need(config.shared_size);
  if (config.gated) workspace.up.need(config.shared_size);
  workspace.shared.need(workspace.hidden);
  workspace.shared_gate.need(1);
  workspace.prepares(*shared_down_);
  if (!config.apart) return;
  const auto norm = [&](const char* name) {
    return Norm(config.apart, weights, layer + name, workspace.kernels);
  };
  router_.emplace(workspace.kernels, std::initializer_list<const Matrix*>{
                                         &weights.matrix(layer + "ffn_gate_inp.weight")});
  workspace.prepares(*router_);
  router_norm_ = norm("ffn_gate_inp_norm");
  router_norm_.scale(1.0F / std::sqrt(static_cast<float>(workspace.hidden)));
  experts_norm_ = norm("pre_ffw_norm_2");
  shared_behind_ = norm("post_ffw_norm_1");
  experts_behind_ = norm("post_ffw_norm_2");
}

void ExpertLayer::add_steps(Program& program) {
  if (router_) add_apart_steps(program);
  program.add(
      {.name = "router",
       .matrix = true,
       .run = [this](std::uint32_t tile, std::uint32_t blocks,
                     const cores::Part& part) { multiply_input(tile, part.block, blocks); }},
      [this](std::uint32_t index) {
        const Linear& product = router_ ? *router_ : input_;
        return work_.share_product(work_.tile(index), product, rows(index).count);
      });
  program.add({.name = "choose",
               .run =
                   [this](std::uint32_t index, std::uint32_t blocks, const cores::Part& part) {
                     const Experts::Rows mine = rows(index);
                     choose(index, part_of(mine.count, part.block, blocks));
                   }},
              [this](std::uint32_t index) {
                const std::size_t count = rows(index).count;
                return work_.share(work_.tile(index), count, count * 32 * config_.count);
              });
  program.add({.name = "sort",
               .run = [this](std::uint32_t index, std::uint32_t,
                             const cores::Part&) { experts_.sort(rows(index)); }},
              [](std::uint32_t) { return 1U; });
  program.add(
      {.name = "experts",
       .matrix = true,
       .run =
           [this](std::uint32_t index, std::uint32_t, const cores::Part& part) {
             experts_.compute(index_, rows(index), work_.projected.of(work_.tile(index)), part);
           },
       .shape =
           [this](std::uint32_t index) {
             return experts_.mixed(rows(index).count) ? cores::kWholeGroup : cores::kMatrixTask;
           }},
      [this](std::uint32_t index) { return experts_.blocks(rows(index).count); });
  if (shared_down_ && !router_) add_shared_steps(program);
  program.add({.name = "combine",
               .run =
                   [this](std::uint32_t index, std::uint32_t blocks, const cores::Part& part) {
                     combine(index, part_of(rows(index).count, part.block, blocks));
                   }},
              [this](std::uint32_t index) {
                const std::size_t count = rows(index).count;
                return work_.share(work_.tile(index), count, count * config_.used * work_.hidden);
              });
}

// The shared one's products, and then the rows of all others.
void ExpertLayer::add_apart_steps(Program& program) {
  program.add({.name = "shared-gate-up",
               .matrix = true,
               .run =
                   [this](std::uint32_t index, std::uint32_t blocks, const cores::Part& part) {
                     const RowTile& tile = work_.tile(index);
                     input_.multiply(part.block, blocks, rows(index).count, work_.prepared(tile),
                                     {{work_.gate.of(tile), config_.shared_size},
                                      {work_.up.of(tile), config_.shared_size}});
                   }},
              [this](std::uint32_t index) {
                return work_.share_product(work_.tile(index), input_, rows(index).count);
              });
  add_shared_steps(program);
  program.add({.name = "expert-norm",
               .run =
                   [this](std::uint32_t index, std::uint32_t blocks, const cores::Part& part) {
                     take_apart(index, part_of(rows(index).count, part.block, blocks));
                   }},
              [this](std::uint32_t index) {
                const std::size_t count = rows(index).count;
                return work_.share(work_.tile(index), count, count * 8 * work_.hidden);
              });
}

void ExpertLayer::take_apart(std::uint32_t index, const Range& part) {
  const RowTile& tile = work_.tile(index);
  const std::uint32_t count = rows(index).count;
  for (std::uint32_t i = part.begin; i < part.end; ++i) {
    const float* residual = work_.residual_row(tile, work_.row(set_, tile, i));
    float* row = work_.projected.row(tile, i, work_.hidden);
    router_norm_.apply(residual, row);
    router_->prepare(row, i, count, work_.prepared(tile));
    experts_norm_.apply(residual, row);
  }
}

// The prepared rows of a tile are free: the experts have made their own, or have yet to.
void ExpertLayer::add_shared_steps(Program& program) {
  program.add({.name = "shared-activate",
               .run =
                   [this](std::uint32_t index, std::uint32_t blocks, const cores::Part& part) {
                     const RowTile& tile = work_.tile(index);
                     activate_shared(tile, part_of(rows(index).count, part.block, blocks));
                   }},
              [this](std::uint32_t index) {
                const std::size_t count = rows(index).count;
                return work_.share(work_.tile(index), count, count * 8 * config_.shared_size);
              });
  program.add({.name = "shared-down",
               .matrix = true,
               .run =
                   [this](std::uint32_t index, std::uint32_t blocks, const cores::Part& part) {
                     const RowTile& tile = work_.tile(index);
                     shared_down_->multiply(part.block, blocks, rows(index).count,
                                            work_.prepared(tile),
                                            {{work_.shared.of(tile), work_.hidden}});
                   }},
              [this](std::uint32_t index) {
                return work_.share_product(work_.tile(index), *shared_down_, rows(index).count);
              });
}

void ExpertLayer::multiply_input(std::uint32_t index, std::uint32_t block, std::uint32_t blocks) {
  const RowTile& tile = work_.tile(index);
  const Experts::Rows mine = rows(index);
  const std::byte* prepared = work_.prepared(tile);
  const Linear::Output logits = experts_.logits(mine);
  if (router_) return router_->multiply(block, blocks, mine.count, prepared, {logits});
  if (!shared_down_) return input_.multiply(block, blocks, mine.count, prepared, {logits});
  const Linear::Output gate = {work_.gate.of(tile), config_.shared_size};
  if (!config_.gated) return input_.multiply(block, blocks, mine.count, prepared, {logits, gate});
  const Linear::Output up = {work_.up.of(tile), config_.shared_size};
  if (!config_.shared_gated)
    return input_.multiply(block, blocks, mine.count, prepared, {logits, gate, up});
  input_.multiply(block, blocks, mine.count, prepared,
                  {logits, gate, up, {work_.shared_gate.of(tile), 1}});
}

void ExpertLayer::choose(std::uint32_t index, const Range& part) {
  thread_local std::vector<std::int32_t> tokens;
  tokens.clear();
  const RowTile& tile = work_.tile(index);
  for (std::uint32_t i = part.begin; config_.by_token && i < part.end; ++i) {
    const std::uint32_t row = work_.row(set_, tile, mutated(Mutant::kExpertsOfFirst) ? 0 : i);
    tokens.push_back(work_.pass.rows()[row].token);
  }
  experts_.choose(index_, rows(index), part, tokens);
}

void ExpertLayer::activate_shared(const RowTile& tile, const Range& rows) {
  const std::size_t size = config_.shared_size;
  for (std::uint32_t i = rows.begin; i < rows.end; ++i) {
    float* gate = work_.gate.row(tile, i, size);
    float* up = config_.gated ? work_.up.row(tile, i, size) : nullptr;
    clamp_gates(config_.limit, gate, up, size);
    work_.kernels.gate(config_.activation, gate, up, size, gate);
    shared_down_->prepare(gate, i, work_.count(set_, tile), work_.prepared(tile));
  }
}

void ExpertLayer::combine(std::uint32_t index, const Range& part) {
  const RowTile& tile = work_.tile(index);
  experts_.combine(index_, rows(index), part, work_.projected.of(tile));
  if (!shared_down_) return;
  const kernels::Kernels& kernels = work_.kernels;
  for (std::uint32_t i = part.begin; i < part.end; ++i) {
    float* out = work_.projected.row(tile, i, work_.hidden);
    float* shared = work_.shared.row(tile, i, work_.hidden);
    if (router_) {
      experts_behind_.apply(out, out);
      shared_behind_.apply(shared, shared);
    }
    if (!config_.shared_gated) {
      kernels.add(out, shared, work_.hidden);
      continue;
    }
    float share = 0.0F;
    kernels.apply(kernels::Function::kSigmoid, work_.shared_gate.row(tile, i, 1), 1, &share);
    kernels.add_scaled(out, shared, share, work_.hidden);
  }
}

}  // namespace dovetail::model
