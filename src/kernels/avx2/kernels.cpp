#include "kernels/avx2/avx2.h"
#include "kernels/avx2/ints.h"
#include "kernels/avx2/vec.h"
#include "kernels/portable/portable.h"
#include "kernels/vector/attention.h"
#include "kernels/vector/dispatch.h"
#include "kernels/vector/elementwise.h"
#include "kernels/vector/quant_matmul.h"

namespace dovetail::kernels::avx2 {

const Kernels kKernels = {
    .name = "avx2",
    .activation_bytes = activation_bytes<quant_activation_bytes>,
    .prepare = prepare<vector_quant_prepare>,
    .matmul = matmul<vector_quant_matmul>,
    .attention = attention,
    .dequantize_row = portable::dequantize_row,
    .rms_norm = rms_norm,
    .rope = rope,
    .silu_mul = silu_mul,
    .add = add,
    .add_scaled = add_scaled,
    .store_cache = store_cache,
};

}  // namespace dovetail::kernels::avx2
