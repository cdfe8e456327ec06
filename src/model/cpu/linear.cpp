#include "model/cpu/linear.h"

#include <algorithm>
#include <cassert>
#include <vector>

#include "load/stored_parts.h"
#include "model/share.h"

namespace dovetail::model {
namespace {

// Output columns are shared out in units of a cache line of floats.
constexpr std::size_t kUnit = 16;

std::size_t units_of(const Matrix& matrix) { return (matrix.rows + kUnit - 1) / kUnit; }

const std::vector<std::uint32_t>* order_of(const Matrix& matrix) {
  return matrix.parts == nullptr ? nullptr : matrix.parts->order.get();
}

// Matrices that read the same activations were mostly quantised in the same order of columns.
bool same_order(const std::vector<std::uint32_t>* a, const std::vector<std::uint32_t>* b) {
  return a == b || (a != nullptr && b != nullptr && *a == *b);
}

}  // namespace

Linear::Linear(const kernels::Kernels& kernels, std::initializer_list<const Matrix*> weights)
    : kernels_(&kernels), columns_((*weights.begin())->columns) {
  assert(weights.size() <= kMost);
  for (const Matrix* matrix : weights) {
    assert(matrix->columns == columns_);
    weights_[count_++] = matrix;
    outputs_ += matrix->rows;
    units_ += units_of(*matrix);
    form_of_[count_ - 1] = find_form(*matrix);
    if (form_of_[count_ - 1] < form_count_) continue;
    const std::size_t bytes = kernels.activation_bytes(matrix->type, columns_);
    forms_[form_count_++] = {matrix->type, order_of(*matrix), bytes, row_bytes_};
    row_bytes_ += bytes;
  }
}

void Linear::prepare(const float* x, std::size_t row, std::size_t rows, std::byte* prepared) const {
  assert(row < rows);
  // Kept between calls.
  thread_local std::vector<float> ordered;
  for (const Form& form : std::span(forms_).first(form_count_)) {
    const float* from = x;
    if (form.order != nullptr) {
      ordered.resize(columns_);
      for (std::size_t column = 0; column < columns_; ++column)
        ordered[column] = x[(*form.order)[column]];
      from = ordered.data();
    }
    kernels_->prepare(form.type, from, columns_,
                      prepared + form.before * rows + form.row_bytes * row);
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
      multiply(which, (from - first) * kUnit, std::min((to - first) * kUnit, matrix.rows), rows,
               prepared, outputs.begin()[which]);
    }
    first = last;
  }
}

void Linear::multiply(std::size_t which, std::size_t begin, std::size_t end, std::size_t rows,
                      const std::byte* prepared, const Output& output) const {
  const Matrix& matrix = *weights_[which];
  const Form& rows_form = forms_[form_of_[which]];
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

std::size_t Linear::find_form(const Matrix& matrix) const {
  const auto known = std::span(forms_).first(form_count_);
  const auto found = std::find_if(known.begin(), known.end(), [&](const Form& form) {
    return form.type == matrix.type && same_order(form.order, order_of(matrix));
  });
  return static_cast<std::size_t>(found - known.begin());
}

}  // namespace dovetail::model
