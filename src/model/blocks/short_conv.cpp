#include "model/blocks/short_conv.h"

#include "model/blocks/projection.h"

namespace dovetail::model {

ShortConv::ShortConv(const load::ShortConvConfig& config, const ModelWeights& weights,
                     const std::string& layer, std::uint32_t state_layer, RowSet set,
                     Workspace& workspace)
    : work_(workspace),
      state_layer_(state_layer),
      set_(set),
      channels_(config.channels),
      width_(config.convolution),
      input_(workspace.kernels, {&weights.matrix(layer + "shortconv.in_proj.weight")}),
      output_(workspace.kernels, {&weights.matrix(layer + "shortconv.out_proj.weight")}),
      convolution_({&weights.matrix(layer + "shortconv.conv.weight")}, workspace.kernels) {
  workspace.query.need(3 * channels_);
  workspace.attended.need(channels_);
  workspace.projected.need(workspace.hidden);
  workspace.prepares(input_);
  workspace.prepares(output_);
}

void ShortConv::add_steps(Program& program) {
  const auto all = [this](std::uint32_t tile) { return work_.tile(tile).rows.size(); };
  const auto wanted = [this](std::uint32_t tile) { return work_.count(set_, work_.tile(tile)); };
  program.add({.name = "convolution-in",
               .matrix = true,
               .run =
                   [this, all](std::uint32_t index, std::uint32_t blocks, const cores::Part& part) {
                     const RowTile& tile = work_.tile(index);
                     input_.multiply(part.block, blocks, all(index), work_.prepared(tile),
                                     {{work_.query.of(tile), 3 * channels_}});
                   }},
              [this, all](std::uint32_t tile) {
                return work_.share_product(work_.tile(tile), input_, all(tile));
              });
  program.add({.name = "convolve",
               .keys = KeysAccess::kChain,
               .run =
                   [this](std::uint32_t tile, std::uint32_t blocks, const cores::Part& part) {
                     convolve(work_.tile(tile), part_of(channels_, part.block, blocks));
                   }},
              [this, all](std::uint32_t tile) {
                const std::size_t work = all(tile) * channels_ * (width_ + 4);
                return work_.share(work_.tile(tile), channels_ / 64 + 1, work);
              });
  program.add(
      {.name = "convolved",
       .run =
           [this, wanted](std::uint32_t tile, std::uint32_t blocks, const cores::Part& part) {
             prepare(work_.tile(tile), part_of(wanted(tile), part.block, blocks));
           }},
      [this, wanted](std::uint32_t tile) {
        const std::size_t rows = wanted(tile);
        return work_.share(work_.tile(tile), rows, rows * 2 * channels_);
      });
  add_projection(program, "output", output_, set_, work_);
}

// A row of the input is two gates and the values: what is convolved are values times the first, and
// the second multiplies what comes of it.
void ShortConv::convolve(const RowTile& tile, const Range& channels) {
  const std::size_t count = channels.size();
  const TileFloats input = {work_.query.of(tile), 3 * channels_};
  const TileFloats output = {work_.attended.of(tile), channels_};
  for (std::uint32_t i = 0; i < tile.rows.size(); ++i) {
    float* row = input.row(i) + channels.begin;
    work_.kernels.multiply(row, row + 2 * channels_, count);
  }
  for_each_run(work_.pass, tile, [&](const Run& run) {
    convolution_.apply(run, channels, input, output, LayerStates{*work_.cache, state_layer_});
  });
  for (std::uint32_t i = 0; i < tile.rows.size(); ++i) {
    work_.kernels.multiply(output.row(i) + channels.begin,
                           input.row(i) + channels_ + channels.begin, count);
  }
}

void ShortConv::prepare(const RowTile& tile, const Range& rows) {
  for (std::uint32_t i = rows.begin; i < rows.end; ++i) {
    const std::uint32_t row = work_.row(set_, tile, i) - tile.rows.begin;
    output_.prepare(work_.attended.row(tile, row, channels_), i, work_.count(set_, tile),
                    work_.prepared(tile));
  }
}

}  // namespace dovetail::model
