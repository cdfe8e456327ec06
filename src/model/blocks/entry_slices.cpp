#include "model/blocks/entry_slices.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>
#include <vector>

#include "model/mutation.h"

namespace dovetail::model {
namespace {

constexpr auto kBlock = static_cast<std::uint32_t>(kernels::kBlockSize);

}  // namespace

EntrySlices::EntrySlices(const load::CompressedConfig& config, std::uint32_t layer,
                         std::uint32_t state_layer, Finish finish, Workspace& workspace)
    : work_(workspace),
      ratio_(config.ratio),
      layer_(layer),
      state_layer_(state_layer),
      dim_(config.entry_dim()),
      state_floats_(config.state_floats()),
      layout_(config),
      finish_(std::move(finish)) {
  assert(layout_.slice > 0 && layout_.rows == kBlock);
}

void EntrySlices::add_steps(Program& program) {
  program.add({.name = "entries",
               .keys = KeysAccess::kSecondChain,
               .run =
                   [this](std::uint32_t index, std::uint32_t blocks, const cores::Part& part) {
                     const RowTile& tile = work_.tile(index);
                     std::uint32_t number = 0;
                     for_each_run(work_.pass, tile, [&](const Run& run) {
                       if (number++ % blocks == part.block) apply(tile, run);
                     });
                   }},
              [this](std::uint32_t index) {
                const RowTile& tile = work_.tile(index);
                const std::size_t rows = tile.rows.size();
                return work_.share(tile, rows, rows * 2 * dim_);
              });
}

std::byte* EntrySlices::slice_of(const Segment& segment, std::size_t block) const {
  const CacheShape& shape = work_.cache->shape();
  const std::size_t place = block * shape.groups() + shape.layers()[layer_].group;
  return work_.cache->values(layer_, 0, segment.block_table[place]);
}

// Calls function(bytes before in the entry's tile, bytes before in the slice, bytes) for what lies
// together in both: the slice's rows, and of each group of their scales as many.
template <class Function>
void EntrySlices::for_each_stretch(std::uint32_t slice, const Function& function) const {
  const kernels::CacheType type = work_.cache->shape().type();
  const std::uint32_t first = slice * layout_.slice;
  if (first >= kBlock) return;
  const std::size_t rows = std::min(layout_.slice, kBlock - first);
  const std::size_t row = kernels::padded_dims(layout_.row_dim) * kernels::info(type).element_bytes;
  function(first * row, 0, rows * row);
  const std::size_t scaled = kernels::scaled_dims(type);
  if (scaled == 0) return;
  for (std::size_t group = 0; group * scaled < layout_.row_dim; ++group)
    function(kBlock * row + (group * kBlock + first) * 2, layout_.slice * (row + group * 2),
             rows * 2);
}

// The slice of the block that begins with a position.
void EntrySlices::store(const Segment& segment, std::uint32_t position,
                        const std::byte* whole) const {
  if (mutated(Mutant::kOneSliceTooFew) && position % ratio_ == ratio_ - kBlock) return;
  std::byte* slice = slice_of(segment, position / kBlock);
  for_each_stretch(position % ratio_ / kBlock,
                   [&](std::size_t of_tile, std::size_t of_slice, std::size_t bytes) {
                     std::memcpy(slice + of_slice, whole + of_tile, bytes);
                   });
}

void EntrySlices::apply(const RowTile& tile, const Run& run) {
  const kernels::Kernels& kernels = work_.kernels;
  const kernels::CacheType type = work_.cache->shape().type();
  const Segment& segment =
      work_.pass.segments()[work_.pass.rows()[tile.rows.begin + run.begin].segment];
  const LayerStates states{*work_.cache, state_layer_};
  std::byte* newest = newest_of(states.of(run.slot));
  thread_local std::vector<float> values;
  grow(values, kBlock * layout_.row_dim);
  // What attention reads is what the cache has of it.
  const auto take = [&](std::uint32_t row) {
    kernels.load_values(type, newest, layout_.row_dim, 0, kBlock, values.data());
    std::copy_n(values.data(), dim_, work_.up.row(tile, row, dim_));
  };
  const auto ends = [this](std::uint32_t position) { return (position + 1) % ratio_ == 0; };
  if (run.position >= ratio_ && !ends(run.position)) take(run.begin);
  auto save = run.saves.begin();
  for (std::uint32_t row = run.begin; row < run.end; ++row) {
    const std::uint32_t position = run.position + (row - run.begin);
    if (position % kBlock == 0 && position >= ratio_) store(segment, position, newest);
    if (ends(position)) {
      float* entry = work_.up.row(tile, row, dim_);
      finish_(position / ratio_, entry);
      std::copy_n(entry, dim_, values.data());
      std::fill(values.begin() + static_cast<std::ptrdiff_t>(dim_), values.end(), 0.0F);
      for (std::size_t i = 0; i < kBlock; ++i)
        kernels.store_value(type, values.data() + i * layout_.row_dim, layout_.row_dim, i, newest);
      take(row);
    }
    for (; save != run.saves.end() && run.until(*save) <= row + 1 - run.begin; ++save)
      std::memcpy(newest_of(states.of(*save)), newest, layout_.newest_bytes(type));
  }
}

void EntrySlices::load(const Segment& segment, std::uint32_t entry, float* values) const {
  const kernels::CacheType type = work_.cache->shape().type();
  thread_local std::vector<std::byte> whole;
  grow(whole, layout_.newest_bytes(type));
  const std::size_t first = (std::size_t{entry} + 1) * ratio_ / kBlock;
  const std::uint32_t slices = (kBlock + layout_.slice - 1) / layout_.slice;
  for (std::uint32_t i = 0; i < slices; ++i) {
    const std::byte* slice = slice_of(segment, first + i);
    for_each_stretch(i, [&](std::size_t of_tile, std::size_t of_slice, std::size_t bytes) {
      std::memcpy(whole.data() + of_tile, slice + of_slice, bytes);
    });
  }
  work_.kernels.load_values(type, whole.data(), layout_.row_dim, 0, kBlock, values);
}

// It is that of the row that ends it, or, where an earlier tile or pass has that, of the run's
// first.
const float* EntrySlices::newest(const RowTile& tile, std::uint32_t row, std::uint32_t seen) const {
  const PassRow& of = work_.pass.rows()[row];
  const Segment& segment = work_.pass.segments()[of.segment];
  if (mutated(Mutant::kNewestOfState)) {
    thread_local std::vector<float> values;
    grow(values, kBlock * layout_.row_dim);
    const LayerStates states{*work_.cache, state_layer_};
    work_.kernels.load_values(work_.cache->shape().type(), newest_of(states.of(segment.slot)),
                              layout_.row_dim, 0, kBlock, values.data());
    return values.data();
  }
  const std::uint32_t index = row - tile.rows.begin;
  const std::uint32_t end = std::min(seen * ratio_ - 1, of.position);
  const std::uint32_t back =
      std::min({of.position - end, of.position - segment.first_position, index});
  return work_.up.row(tile, index - back, dim_);
}

}  // namespace dovetail::model
