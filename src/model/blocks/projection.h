#pragma once

#include "model/blocks/program.h"
#include "model/blocks/workspace.h"

namespace dovetail::model {

// Adds the product with which a sublayer ends: the prepared rows of `set` times `linear`, into
// `projected`. `linear` and `work` outlive the program.
inline void add_projection(Program& program, const char* name, const Linear& linear, RowSet set,
                           Workspace& work) {
  program.add({.name = name,
               .matrix = true,
               .run =
                   [&linear, &work, set](std::uint32_t index, std::uint32_t blocks,
                                         const cores::Part& part) {
                     const RowTile& tile = work.tile(index);
                     linear.multiply(part.block, blocks, work.count(set, tile), work.prepared(tile),
                                     {{work.projected.of(tile), work.hidden}});
                   }},
              [&linear, &work, set](std::uint32_t index) {
                const RowTile& tile = work.tile(index);
                return work.share_product(tile, linear, work.count(set, tile));
              });
}

}  // namespace dovetail::model
