#include "kernels/portable/portable.h"
#include "kernels/portable/vec.h"
#include "kernels/vector/attention.h"
#include "kernels/vector/dispatch.h"
#include "kernels/vector/elementwise.h"

namespace dovetail::kernels::portable {

const Kernels kKernels = {
    .name = "portable",
    .activation_bytes = activation_bytes,
    .prepare = prepare,
    .matmul = matmul<quant_matmul>,
    .attention = attention,
    .dequantize_row = dequantize_row,
    .rms_norm = rms_norm,
    .rope = rope,
    .silu_mul = silu_mul,
    .add = add,
    .store_cache = store_cache,
};

}  // namespace dovetail::kernels::portable
