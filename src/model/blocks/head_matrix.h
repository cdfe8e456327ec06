#pragma once

#include <cstddef>
#include <cstdint>

#include "base/aligned_buffer.h"
#include "kernels/kernels.h"
#include "model/cpu/weights.h"

namespace dovetail::model {

// Which rows of a matrix are a head's.
struct HeadRows {
  std::size_t rows = 0;
  std::size_t stride = 0;  // rows from a head's first to the next one's
  std::size_t first = 0;   // of the first head
};

// A matrix whose rows belong to heads, or to groups of them, and are multiplied a head at a time.
// Heads need not begin where panels would: where weights are packed, those of block types have a
// copy whose panels begin anew with each head, and the rows' pages of a mapped file are given back.
class HeadMatrix {
 public:
  HeadMatrix() = default;
  // `matrix` has its rows as the file has them, and must outlive this, as `kernels` must.
  HeadMatrix(const Matrix& matrix, std::size_t heads, const HeadRows& of, bool packs,
             const kernels::Kernels& kernels);

  const Matrix& matrix() const { return *matrix_; }
  // Of an activation that is prepared for it.
  std::size_t row_bytes() const { return row_bytes_; }

  // The head's outputs for `rows` activations that are prepared one after another; those of a row
  // begin `stride` floats after those of the one before.
  void multiply(std::uint32_t head, std::size_t rows, const std::byte* prepared, float* output,
                std::size_t stride) const;

 private:
  const kernels::Kernels* kernels_ = nullptr;
  const Matrix* matrix_ = nullptr;
  HeadRows of_;
  std::size_t row_bytes_ = 0;
  std::size_t head_bytes_ = 0;  // of a head's panels; 0: there are none
  AlignedBuffer panels_;
};

}  // namespace dovetail::model
