#include "kernels/portable/portable.h"
#include "kernels/portable/vec.h"
#include "kernels/vector/attention.h"
#include "kernels/vector/dispatch.h"
#include "kernels/vector/elementwise.h"

namespace dovetail::kernels::portable {
const Kernels kKernels = {
    .name = "portable",
    .activation_bytes = activation_bytes<blocks::activation_bytes>,
    .prepare = prepare<blocks::prepare>,
    .matmul = matmul<blocks::matmul>,
    .panel_bytes = blocks::panel_bytes,
    .pack = blocks::pack,
    .attention = attention,
    .merge_attention = merge_attention,
    .dequantize_row = dequantize_row,
    .rms_norm = rms_norm,
    .rope = rope,
    .silu_mul = silu_mul,
    .apply = apply,
    .add = add,
    .add_scaled = add_scaled,
    .store_key = store_key,
    .store_value = store_value,
};

}  // namespace dovetail::kernels::portable
