#pragma once

#include <cstdint>

#include "model/blocks/program.h"
#include "model/blocks/workspace.h"
#include "model/experts.h"

namespace dovetail::model {

// A layer of experts in place of a feed-forward: takes prepared rows and the same rows as floats in
// `projected`, leaves `projected`.
class ExpertLayer {
 public:
  // The `layer`-th of `experts`, which must outlive it.
  ExpertLayer(Experts& experts, std::uint32_t layer, RowSet set, Workspace& workspace)
      : work_(workspace), experts_(experts), layer_(layer), set_(set) {
    workspace.projected.need(workspace.hidden);
    workspace.prepares(input());
  }

  // Prepares the rows that come in.
  const Linear& input() const { return experts_.router(layer_); }

  void add_steps(Program& program);

 private:
  Experts::Rows rows(std::uint32_t index) const {
    const RowTile& tile = work_.tile(index);
    return {index, tile.rows.begin, work_.count(set_, tile)};
  }

  Workspace& work_;
  Experts& experts_;
  std::uint32_t layer_;
  RowSet set_;
};

}  // namespace dovetail::model
