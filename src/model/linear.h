#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "cores/workers.h"
#include "kernels/kernels.h"
#include "model/weights.h"

namespace dovetail::model {

// One of several products of the same rows: output[row][i] = sum over k of rows[row][k] *
// weights[i][k].
struct Product {
  const Matrix* weights = nullptr;
  float* output = nullptr;        // [rows][output_stride]
  std::size_t output_stride = 0;  // floats
};

// Rows of activations in the forms in which the weights of a group of products take them. Scratch
// memory that is used again for every group of a pass.
class PreparedRows {
 public:
  explicit PreparedRows(const kernels::Kernels& kernels) : kernels_(kernels) {}

  // Makes room for `rows` rows of `k` columns, once per weight type among the products.
  void reset(std::size_t rows, std::size_t k, std::span<const Product> products);

  // Row `row` is x, k floats. Different rows may be set by different threads.
  void set(std::size_t row, const float* x);

  // All products of all rows, shared out over the workers by output columns.
  void multiply(cores::Workers& workers, std::span<const Product> products) const;

 private:
  struct Form {
    load::DataType type = load::DataType::kF32;
    std::size_t stride = 0;  // bytes per row
    std::size_t begin = 0;   // of row 0 in buffer_
  };
  const Form& form(load::DataType type) const;

  const kernels::Kernels& kernels_;
  std::size_t rows_ = 0, k_ = 0;
  std::vector<Form> forms_;
  AlignedBuffer buffer_;
};

// Work below this many multiplications is not worth waking other threads for.
inline constexpr std::size_t kWorthSharing = std::size_t{1} << 17;

// Calls task(i) for i < count, on all workers if count * cost (in multiplications) is worth it.
template <class Task>
void for_each_row(cores::Workers& workers, std::size_t count, std::size_t cost, const Task& task) {
  if (count * cost < kWorthSharing) {
    for (std::size_t i = 0; i < count; ++i) task(i);
  } else {
    workers.run(count, task);
  }
}

}  // namespace dovetail::model
