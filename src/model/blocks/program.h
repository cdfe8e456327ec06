#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "cores/task.h"
#include "cores/topology.h"

namespace dovetail::model {

// What a step does with what the tiles of a sequence share in its layer: keys and values, or
// states.
enum class KeysAccess : std::uint8_t {
  kNone,
  kWrite,  // those of the tile's rows
  kRead,   // those of the tile's rows and of the tiles before it
  // States of sequences, which each tile takes from the one before it. A layer may have two of
  // them, for steps that need not wait for each other's tiles.
  kChain,
  kSecondChain,
};

// A step of a forward pass: a task for each tile of rows, which follows the tile's step before it.
struct Step {
  const char* name = "";  // for traces
  bool matrix = false;    // products: matrix work, of which the lanes of a CPU do as well
  KeysAccess keys = KeysAccess::kNone;
  bool once = false;  // one task after all tiles, as tile 0
  // Does a part of it: block `part.block` of `blocks` of the tile.
  std::function<void(std::uint32_t tile, std::uint32_t blocks, const cores::Part& part)> run = {};
  // The task's lanes where they depend on the pass; empty: they do not.
  std::function<cores::TaskShape(std::uint32_t tile)> shape = {};
  // Set by Program::add().
  std::int32_t layer = -1;  // -1: outside of the layers
  std::uint32_t cut = 0;    // of Program::cuts()
};

// In how many blocks a tile's task is cut in the pass under way.
using Cut = std::function<std::uint32_t(std::uint32_t tile)>;

// The steps of a model, in their order. Layers that are alike share their cuts, which are asked
// for once a pass.
class Program {
 public:
  // What add() adds belongs to this layer, which is like layer `like`, or the first of its kind.
  void begin_layer(std::int32_t layer, std::int32_t like) {
    layer_ = layer;
    next_cut_ = first_cut_of(like);
    shared_ = like != layer;
    if (!shared_ && layer >= 0) {
      first_cuts_.emplace_back(layer, static_cast<std::uint32_t>(cuts_.size()));
    }
  }
  void end_layers() { layer_ = -1, shared_ = false; }

  void add(Step step, Cut cut) {
    step.layer = layer_;
    if (shared_) {
      step.cut = next_cut_++;
    } else {
      step.cut = static_cast<std::uint32_t>(cuts_.size());
      cuts_.push_back(std::move(cut));
    }
    steps_.push_back(std::move(step));
  }

  const std::vector<Step>& steps() const { return steps_; }
  const std::vector<Cut>& cuts() const { return cuts_; }

 private:
  std::uint32_t first_cut_of(std::int32_t layer) const {
    for (const auto& [known, cut] : first_cuts_) {
      if (known == layer) return cut;
    }
    return 0;
  }

  std::vector<Step> steps_;
  std::vector<Cut> cuts_;
  std::vector<std::pair<std::int32_t, std::uint32_t>> first_cuts_;  // by layer
  std::int32_t layer_ = -1;
  std::uint32_t next_cut_ = 0;
  bool shared_ = false;
};

}  // namespace dovetail::model
