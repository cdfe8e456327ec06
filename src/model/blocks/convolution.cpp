#include "model/blocks/convolution.h"

#include <algorithm>
#include <array>
#include <cassert>

#include "load/limits.h"
#include "model/mutation.h"

namespace dovetail::model {
namespace {

std::size_t rows_of(std::initializer_list<const Matrix*> matrices) {
  std::size_t rows = 0;
  for (const Matrix* matrix : matrices) rows += matrix->rows;
  return rows;
}

// Columns of the matrices become rows that they share.
std::vector<float> transposed(std::initializer_list<const Matrix*> matrices,
                              const kernels::Kernels& kernels) {
  const std::size_t rows = rows_of(matrices);
  const std::size_t columns = (*matrices.begin())->columns;
  std::vector<float> row(columns), all(rows * columns);
  std::size_t at = 0;
  for (const Matrix* matrix : matrices) {
    assert(matrix->columns == columns && !matrix->packed);
    const std::size_t bytes = kernels::row_bytes(matrix->type, columns);
    for (std::size_t r = 0; r < matrix->rows; ++r, ++at) {
      kernels.dequantize_row(matrix->type, matrix->data + r * bytes, columns, row.data());
      for (std::size_t c = 0; c < columns; ++c) all[c * rows + at] = row[c];
    }
  }
  return all;
}

}  // namespace

Convolution::Convolution(std::initializer_list<const Matrix*> taps, const kernels::Kernels& kernels,
                         std::span<const float> bias)
    : kernels_(kernels),
      channels_(rows_of(taps)),
      width_((*taps.begin())->columns),
      taps_(transposed(taps, kernels)),
      bias_(bias.begin(), bias.end()) {
  assert(bias_.empty() || bias_.size() == channels_);
  assert(width_ >= 2 && width_ <= load::kMostConvolution);
}

void Convolution::scale(const Range& channels, float factor) {
  for (std::size_t j = 0; j < width_; ++j) {
    for (std::size_t c = channels.begin; c < channels.end; ++c) taps_[j * channels_ + c] *= factor;
  }
}

void Convolution::apply(const Run& run, const Range& channels, const TileFloats& input,
                        const TileFloats& output, const LayerStates& states) const {
  const std::size_t history = width_ - 1;
  const std::size_t count = channels.size();
  if (count == 0) return;
  std::vector<float> taps(width_ * count);
  for (std::size_t j = 0; j < width_; ++j)
    std::copy_n(taps_.data() + j * channels_ + channels.begin, count, taps.data() + j * count);
  float* state = states.of(run.slot) + channels.begin;
  const auto from = [&](std::size_t i) { return input.row(i) + channels.begin; };
  std::array<const float*, load::kMostConvolution> rows;
  for (std::uint32_t i = run.begin; i < run.end; ++i) {
    for (std::size_t j = 0; j < width_; ++j) {
      const std::size_t back = history - j;  // positions before this one
      if (i - run.begin >= back) {
        rows[j] = from(i - back);
      } else {
        rows[j] = run.starts() ? nullptr : state + (history - (back - (i - run.begin))) * channels_;
      }
    }
    kernels::ShortConvArgs args;
    args.rows = rows.data();
    args.weights = taps.data();
    args.bias = bias_.empty() ? nullptr : bias_.data() + channels.begin;
    args.width = width_;
    args.channels = count;
    args.output = output.row(i) + channels.begin;
    kernels_.short_conv(args);
  }
  for (const StateSave& save : run.saves)
    keep_inputs(run, channels, input, run.until(save), state, states.of(save) + channels.begin);
  std::size_t length = run.end - run.begin;
  if (mutated(Mutant::kOneInputTooOld) && length > 1) --length;
  keep_inputs(run, channels, input, length, state, state);
}

void Convolution::activate(const Pass& pass, const RowTile& tile, const Range& channels,
                           const TileFloats& input, const TileFloats& output,
                           const LayerStates& states) const {
  for_each_run(pass, tile, [&](const Run& run) { apply(run, channels, input, output, states); });
  for (std::uint32_t i = 0; i < tile.rows.size(); ++i) {
    float* row = output.row(i) + channels.begin;
    kernels_.gate(kernels::Activation::kSilu, row, nullptr, channels.size(), row);
  }
}

// Writes the last inputs that `length` rows of the run leave. `to` may be `before`: where the rows
// are fewer than the convolution needs, what is left of the older ones moves up.
void Convolution::keep_inputs(const Run& run, const Range& channels, const TileFloats& input,
                              std::size_t length, const float* before, float* to) const {
  const std::size_t history = width_ - 1;
  for (std::size_t j = 0; j < history; ++j, to += channels_) {
    if (j + length >= history) {
      const std::size_t row = run.begin + j + length - history;
      std::copy_n(input.row(row) + channels.begin, channels.size(), to);
    } else if (run.starts()) {
      std::fill_n(to, channels.size(), 0.0F);
    } else {
      std::copy_n(before + (j + length) * channels_, channels.size(), to);
    }
  }
}

}  // namespace dovetail::model
