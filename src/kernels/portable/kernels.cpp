#include "kernels/portable/portable.h"
#include "kernels/portable/vec.h"
#include "kernels/vector/attention.h"
#include "kernels/vector/dispatch.h"
#include "kernels/vector/elementwise.h"
#include "kernels/vector/quantize.h"

namespace dovetail::kernels::portable {
namespace {

void prepare_quantised(load::DataType weights, const float* x, std::size_t k, std::byte* out) {
  quant_prepare(weights, x, k, out, 1);
}

}  // namespace

const Kernels kKernels = {
    .name = "portable",
    .activation_bytes = activation_bytes<quant_activation_bytes>,
    .prepare = prepare<prepare_quantised>,
    .matmul = matmul<quant_matmul>,
    .attention = attention,
    .dequantize_row = dequantize_row,
    .rms_norm = rms_norm,
    .rope = rope,
    .silu_mul = silu_mul,
    .add = add,
    .add_scaled = add_scaled,
    .store_cache = store_cache,
};

}  // namespace dovetail::kernels::portable
