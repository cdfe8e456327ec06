#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "cores/task.h"
#include "cores/topology.h"
#include "cores/waiting.h"
#include "kernels/kernels.h"
#include "load/model_config.h"
#include "model/cpu/linear.h"
#include "model/cpu/pass.h"
#include "model/cpu/weights.h"
#include "model/share.h"

namespace dovetail::model {

// One of a token's experts, and what its result counts.
struct Choice {
  std::uint32_t expert = 0;
  float weight = 0;
};

// How a router's logits choose.
struct Gating {
  load::ExpertGate gate = load::ExpertGate::kSoftmax;
  bool normalized = false;
  std::span<const float> bias = {};    // for each expert, of what the gate gives; empty: none
  std::span<const float> scales = {};  // for each expert, of its weight; empty: none
  float least_sum = 0.0F;              // is added to what weights are divided by
  float scale = 1.0F;                  // of the weights
  // Experts in groups of as many, of which some are chosen first: by the largest of an expert, or
  // by the sum of the two largest.
  std::uint32_t groups = 1, groups_used = 1;
  bool groups_by_two = false;
};

// What the gate makes of a logit by itself: not of a softmax's.
float gate_score(load::ExpertGate gate, float logit);

// A token's experts, by its router's logit for each expert there is: as many as there are
// `choices`, those with the largest logits, the lower number among equals, of experts and of
// groups; in the order of their numbers. Weights are shares of the softmax over all experts or, if
// `normalized`, over the chosen ones; or scores of each by itself. A bias counts for the choice
// alone.
// Requires 1 <= choices.size() <= logits.size(); logits that are no numbers give some choice.
void choose_experts(std::span<const float> logits, const Gating& gating, std::span<Choice> choices);

// The same where the experts are given, in any order, each once or more.
void weigh_experts(std::span<const float> logits, const Gating& gating,
                   std::span<const float> experts, std::span<Choice> choices);

// Bounds gates from above and what they multiply from both sides (ExpertsConfig::limit).
void clamp_gates(float limit, float* gate, float* up, std::size_t size);

// The layers of experts that are alike of a forward pass, each in place of a feed-forward (Mixtral,
// https://arxiv.org/abs/2401.04088; Qwen3, https://arxiv.org/abs/2505.09388). A tile's rows choose
// their experts; each expert that was chosen computes its rows, in a mixed task on all lanes of a
// group, which share its products; every row adds up what its experts gave, in the order of their
// numbers, so that its bits depend on nothing but the row. No expert has a limit of rows.
//
// The functions after reserve() are what tasks do, in their order; those of different tiles may run
// at the same time. Matrices are [rows of the pass][...]; a tile's rows lie together.
class Experts {
 public:
  // Of the layers whose tensors' names begin with `layers` ("blk.3."). The weights and the kernels
  // must outlive it.
  Experts(const load::ExpertsConfig& config, std::size_t hidden,
          std::span<const std::string> layers, const ModelWeights& weights,
          const kernels::Kernels& kernels, const cores::Topology& topology);

  // One tile, or one for prompts and one for decode rows, where each expert gets rows enough: more
  // would stand still whenever lanes gather for one of them.
  TileRows tile_rows() const;

  std::uint32_t count() const { return count_; }  // of a layer
  std::uint32_t used() const { return used_; }    // by a token

  // For a pass of so many rows.
  void reserve(std::size_t rows);

  // Rows of a tile that a layer computes.
  struct Rows {
    std::uint32_t tile = 0;
    std::uint32_t first = 0;  // of the pass
    std::uint32_t count = 0;
  };

  // Where the router's products go.
  Linear::Output logits(const Rows& rows);

  // The rows' choices: a part of them, then all. `tokens`: of the part's rows, where experts are
  // chosen by them. Here and below, `layer` counts those of the constructor.
  void choose(std::uint32_t layer, const Rows& rows, const Range& part,
              std::span<const std::int32_t> tokens);
  void sort(const Rows& rows);

  // Whether the experts of so many rows are a mixed task, for all lanes of a group: where they are
  // worth sharing. And in how many blocks.
  bool mixed(std::uint32_t rows) const;
  std::uint32_t blocks(std::uint32_t rows) const;
  // Computes the experts of a block: of those that were chosen, in the order of their rows' number,
  // every blocks()-th. Its parts start together. x: [count][hidden size], the rows' input.
  void compute(std::uint32_t layer, const Rows& rows, const float* x, const cores::Part& part);

  // out: [count][hidden size], what a part of the rows gets.
  void combine(std::uint32_t layer, const Rows& rows, const Range& part, float* out);

 private:
  // Of a tile. An entry is one row's use of one expert; those of an expert lie together.
  struct Tile {
    std::vector<std::uint32_t> begins;  // its entries by expert, and the end
    std::vector<std::uint32_t> chosen;  // experts with entries, those with the most first
  };

  // On either side of the activation.
  struct ExpertProducts {
    Linear gate_up, down;
    std::span<const float> gate_bias, up_bias, down_bias;  // empty: none
  };

  // What the parts of a mixed task have in common.
  struct Group {
    cores::Rendezvous parts;
    std::atomic<std::uint32_t> next{0};  // block of a product that none of them has begun
  };

  std::size_t first_entry(const Rows& rows) const { return std::size_t{rows.first} * used_; }

  const kernels::Kernels& kernels_;
  std::size_t hidden_, inner_;
  std::uint32_t count_, used_;
  Gating gating_;  // but for what is of a layer
  std::size_t lanes_, groups_;
  load::Activation activation_;
  bool gated_;
  float limit_;
  std::vector<std::span<const float>> router_bias_, choice_bias_, scales_;  // by layer; empty: none
  std::vector<const Matrix*> token_experts_;  // by layer; null: by the router
  std::vector<ExpertProducts> products_;      // by layer and expert
  std::size_t prepared_row_bytes_ = 0;
  std::unique_ptr<Group[]> shared_;  // by group

  std::array<Tile, Pass::kMostTiles> tiles_;
  std::vector<float> logits_;               // [row][expert]
  std::vector<Choice> choices_;             // [row][used]
  std::vector<std::uint32_t> entries_;      // of the choices, counted from the tile's first
  std::vector<std::uint32_t> rows_;         // of the entries, counted from the tile's first
  std::vector<float> gate_, up_, results_;  // by entry
  AlignedBuffer prepared_;                  // by entry
};

}  // namespace dovetail::model
