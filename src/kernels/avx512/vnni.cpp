#include "kernels/avx512/avx512.h"
#include "kernels/avx512/ints.h"
#include "kernels/avx512/vec.h"
#include "kernels/vector/quant_matmul.h"

namespace dovetail::kernels::avx512::vnni {

std::size_t activation_bytes(load::DataType weights, std::size_t k) {
  return quant_activation_bytes(weights, k);
}

void prepare(load::DataType weights, const float* x, std::size_t k, std::byte* out) {
  vector_quant_prepare(weights, x, k, out);
}

void matmul(const MatmulArgs& args) { vector_quant_matmul(args); }

}  // namespace dovetail::kernels::avx512::vnni
