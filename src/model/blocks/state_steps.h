#pragma once

#include <cstddef>
#include <cstdint>

#include "model/blocks/program.h"
#include "model/blocks/states.h"
#include "model/blocks/workspace.h"

namespace dovetail::model {

// How the work of a block with states is cut.
struct StateSteps {
  const char* update = nullptr;  // names of steps
  const char* gate = nullptr;
  RowSet set = RowSet::kAll;  // rows that are computed beyond the states
  std::size_t channels = 0;   // of the convolution
  std::size_t positions = 0;  // of it
  std::uint32_t heads = 0;
  std::size_t state_work = 0;  // of a row's update of all heads
  std::size_t size = 0;        // floats of a row that is gated
};

// Adds what comes between a block's products: convolve(tile, channels), then, one token of a
// sequence after the other, update(tile, run, head), and gate(tile, rows), which prepares rows for
// the output's product. `work` outlives the program, as does what the functions refer to.
template <class Convolve, class Update, class Gate>
void add_state_steps(Program& program, Workspace& work, const StateSteps& of,
                     const Convolve& convolve, const Update& update, const Gate& gate) {
  program.add({.name = "convolve",
               .keys = KeysAccess::kChain,
               .run =
                   [&work, of, convolve](std::uint32_t tile, std::uint32_t blocks,
                                         const cores::Part& part) {
                     convolve(work.tile(tile), part_of(of.channels, part.block, blocks));
                   }},
              [&work, of](std::uint32_t index) {
                const RowTile& tile = work.tile(index);
                const std::size_t cost = tile.rows.size() * of.channels * (of.positions + 8);
                return work.share(tile, of.channels / 64 + 1, cost);
              });
  program.add(
      {.name = of.update,
       .keys = KeysAccess::kSecondChain,
       .run =
           [&work, of, update](std::uint32_t index, std::uint32_t blocks, const cores::Part& part) {
             const RowTile& tile = work.tile(index);
             for_each_head(work.pass, tile, of.heads, part.block, blocks,
                           [&](const Run& run, std::uint32_t head) { update(tile, run, head); });
           }},
      [&work, of](std::uint32_t index) {
        const RowTile& tile = work.tile(index);
        const std::size_t rows = tile.rows.size();
        return work.share(tile, rows * of.heads, rows * of.state_work);
      });
  program.add(
      {.name = of.gate,
       .run =
           [&work, of, gate](std::uint32_t index, std::uint32_t blocks, const cores::Part& part) {
             const RowTile& tile = work.tile(index);
             gate(tile, part_of(work.count(of.set, tile), part.block, blocks));
           }},
      [&work, of](std::uint32_t index) {
        const RowTile& tile = work.tile(index);
        const std::size_t rows = work.count(of.set, tile);
        return work.share(tile, rows, rows * 12 * of.size);
      });
}

}  // namespace dovetail::model
