#include "kernels/avx2/avx2.h"
#include "kernels/avx512/avx512.h"
#include "kernels/avx512/vec.h"
#include "kernels/portable/portable.h"
#include "kernels/vector/attention.h"
#include "kernels/vector/dispatch.h"
#include "kernels/vector/elementwise.h"

namespace dovetail::kernels::avx512 {
namespace {

std::size_t avx2_activation_bytes(load::DataType weights, std::size_t k) {
  return avx2::kKernels.activation_bytes(weights, k);
}

void avx2_prepare(load::DataType weights, const float* x, std::size_t k, std::byte* out) {
  avx2::kKernels.prepare(weights, x, k, out);
}

void avx2_matmul(const MatmulArgs& args) { avx2::kKernels.matmul(args); }

}  // namespace

const Kernels kBase = {
    .name = "avx512",
    .activation_bytes = activation_bytes<avx2_activation_bytes>,
    .prepare = prepare<avx2_prepare>,
    .matmul = matmul<avx2_matmul>,
    .attention = attention,
    .dequantize_row = portable::dequantize_row,
    .rms_norm = rms_norm,
    .rope = rope,
    .silu_mul = silu_mul,
    .add = add,
    .add_scaled = add_scaled,
    .store_cache = store_cache,
};

}  // namespace dovetail::kernels::avx512
