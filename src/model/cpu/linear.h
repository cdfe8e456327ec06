#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "kernels/kernels.h"
#include "model/cpu/weights.h"

namespace dovetail::model {

// Matrices that multiply the same rows: output[row][i] = sum over k of rows[row][k] *
// weights[i][k], times the matrix's factor. Rows are brought into the forms that the matrices take
// first, once for each type and order of columns (prepare()); then the outputs' columns, those of
// all matrices in a row, are computed in blocks that may run on any threads.
//
// Prepared rows lie in memory of the caller's: rows * row_bytes() bytes at a multiple of 64. A
// small value; the kernels and the matrices must outlive it. Thread-safe.
class Linear {
 public:
  static constexpr std::size_t kMost = 8;

  // Where the products of one matrix go: [rows][stride] floats.
  struct Output {
    float* data = nullptr;
    std::size_t stride = 0;
  };

  // From one to kMost matrices with equally many columns.
  Linear(const kernels::Kernels& kernels, std::initializer_list<const Matrix*> weights);

  std::size_t columns() const { return columns_; }      // of a row that comes in
  std::size_t outputs() const { return outputs_; }      // of a row, of all matrices
  std::size_t row_bytes() const { return row_bytes_; }  // of a prepared row
  std::size_t units() const { return units_; }          // of outputs: what blocks share out

  // Prepares row `row` of `rows` from x, columns() floats.
  void prepare(const float* x, std::size_t row, std::size_t rows, std::byte* prepared) const;

  // Computes block `block` of `blocks` for `rows` prepared rows; an output for each matrix, in
  // their order. Blocks are about equal and share no cache line of floats of an output.
  void multiply(std::uint32_t block, std::uint32_t blocks, std::size_t rows,
                const std::byte* prepared, std::initializer_list<Output> outputs) const;

 private:
  // Of the rows of one form come first all of them, then those of the next.
  struct Form {
    kernels::DataType type = kernels::DataType::kF32;
    const std::vector<std::uint32_t>* order = nullptr;  // of columns (StoredParts::order), or null
    std::size_t row_bytes = 0;
    std::size_t before = 0;  // bytes of a row in the forms before this one
  };

  // Of the rows that a matrix takes: where it is, or belongs, in forms_.
  std::size_t find_form(const Matrix& matrix) const;
  void multiply(std::size_t which, std::size_t begin, std::size_t end, std::size_t rows,
                const std::byte* prepared, const Output& output) const;

  const kernels::Kernels* kernels_;
  std::array<const Matrix*, kMost> weights_{};
  std::size_t count_ = 0;
  std::array<Form, kMost> forms_{};
  std::array<std::size_t, kMost> form_of_{};  // by matrix
  std::size_t form_count_ = 0;
  std::size_t columns_ = 0, outputs_ = 0, row_bytes_ = 0;
  std::size_t units_ = 0;  // of output columns
};

}  // namespace dovetail::model
