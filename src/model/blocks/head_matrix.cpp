#include "model/blocks/head_matrix.h"

#include <cassert>

#include "load/mapped_file.h"
#include "model/cpu/weight_bytes.h"

namespace dovetail::model {

HeadMatrix::HeadMatrix(const Matrix& matrix, std::size_t heads, const HeadRows& of, bool packs,
                       const kernels::Kernels& kernels)
    : kernels_(&kernels),
      matrix_(&matrix),
      of_(of),
      row_bytes_(kernels.activation_bytes(matrix.type, matrix.columns)) {
  assert(!matrix.packed);
  if (!packs) return;
  head_bytes_ = packed_bytes(kernels, matrix.type, of.rows, matrix.columns);
  if (head_bytes_ == 0) return;
  panels_.reserve(heads * head_bytes_);
  const std::size_t stored = kernels::row_bytes(matrix.type, matrix.columns);
  for (std::size_t head = 0; head < heads; ++head) {
    const std::byte* rows = matrix.data + (of.first + head * of.stride) * stored;
    kernels.pack(matrix.type, rows, of.rows, matrix.columns, panels_.data() + head * head_bytes_);
    load::drop_pages({rows, of.rows * stored});
  }
}

void HeadMatrix::multiply(std::uint32_t head, std::size_t rows, const std::byte* prepared,
                          float* output, std::size_t stride) const {
  kernels::MatmulArgs args;
  args.type = matrix_->type;
  args.packed = head_bytes_ > 0;
  args.weights = args.packed ? panels_.data() + head * head_bytes_
                             : matrix_->data + (of_.first + head * of_.stride) *
                                                   kernels::row_bytes(args.type, matrix_->columns);
  args.activations = prepared;
  args.activation_stride = row_bytes_;
  args.output = output;
  args.output_stride = stride;
  args.m = rows;
  args.k = matrix_->columns;
  args.n_end = of_.rows;
  kernels_->matmul(args);
  if (matrix_->factor == 1.0F) return;
  for (std::size_t row = 0; row < rows; ++row)
    kernels_->scale(output + row * stride, matrix_->factor, of_.rows);
}

}  // namespace dovetail::model
