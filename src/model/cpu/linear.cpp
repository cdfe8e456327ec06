#include "model/cpu/linear.h"

#include <algorithm>
#include <cassert>

#include "model/share.h"

namespace dovetail::model {
namespace {

// Output columns are shared out in units of a cache line of floats.
constexpr std::size_t kUnit = 16;

std::size_t units_of(const Matrix& matrix) { return (matrix.rows + kUnit - 1) / kUnit; }

}  // namespace

Linear::Linear(const kernels::Kernels& kernels, std::initializer_list<const Matrix*> weights)
    : kernels_(&kernels), columns_((*weights.begin())->columns) {
  assert(weights.size() <= kMost);
  for (const Matrix* matrix : weights) {
    assert(matrix->columns == columns_);
    weights_[count_++] = matrix;
    outputs_ += matrix->rows;
    units_ += units_of(*matrix);
    const auto known = std::span(forms_).first(form_count_);
    if (std::any_of(known.begin(), known.end(),
                    [&](const Form& form) { return form.type == matrix->type; })) {
      continue;
    }
    const std::size_t bytes = kernels.activation_bytes(matrix->type, columns_);
    forms_[form_count_++] = {matrix->type, bytes, row_bytes_};
    row_bytes_ += bytes;
  }
}

void Linear::prepare(const float* x, std::size_t row, std::size_t rows, std::byte* prepared) const {
  assert(row < rows);
  for (const Form& form : std::span(forms_).first(form_count_)) {
    kernels_->prepare(form.type, x, columns_, prepared + form.before * rows + form.row_bytes * row);
  }
}

void Linear::multiply(std::uint32_t block, std::uint32_t blocks, std::size_t rows,
                      const std::byte* prepared, std::initializer_list<Output> outputs) const {
  assert(outputs.size() == count_);
  if (rows == 0) return;
  const auto [begin, end] = part_of(units_, block, blocks);
  std::size_t first = 0;  // unit of the matrix
  for (std::size_t which = 0; which < count_; ++which) {
    const Matrix& matrix = *weights_[which];
    const std::size_t last = first + units_of(matrix);
    const std::size_t from = std::max<std::size_t>(begin, first);
    const std::size_t to = std::min<std::size_t>(end, last);
    if (from < to) {
      multiply(matrix, (from - first) * kUnit, std::min((to - first) * kUnit, matrix.rows), rows,
               prepared, outputs.begin()[which]);
    }
    first = last;
  }
}

void Linear::multiply(const Matrix& matrix, std::size_t begin, std::size_t end, std::size_t rows,
                      const std::byte* prepared, const Output& output) const {
  const Form& rows_form = form(matrix.type);
  kernels::MatmulArgs args;
  args.type = matrix.type;
  args.weights = matrix.data;
  args.packed = matrix.packed;
  args.activations = prepared + rows_form.before * rows;
  args.activation_stride = rows_form.row_bytes;
  args.output = output.data;
  args.output_stride = output.stride;
  args.m = rows;
  args.k = columns_;
  args.n_begin = begin;
  args.n_end = end;
  kernels_->matmul(args);
  if (matrix.factor == 1.0F) return;
  for (std::size_t row = 0; row < rows; ++row)
    kernels_->scale(output.data + row * output.stride + begin, matrix.factor, end - begin);
}

const Linear::Form& Linear::form(kernels::DataType type) const {
  return *std::find_if(forms_.begin(), forms_.end(),
                       [&](const Form& candidate) { return candidate.type == type; });
}

}  // namespace dovetail::model
