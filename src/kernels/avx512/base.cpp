#include "kernels/avx2/avx2.h"
#include "kernels/avx512/avx512.h"
#include "kernels/avx512/vec.h"
#include "kernels/portable/portable.h"
#include "kernels/vector/attention.h"
#include "kernels/vector/dispatch.h"
#include "kernels/vector/elementwise.h"
#include "kernels/vector/gate.h"
#include "kernels/vector/recurrent.h"

namespace dovetail::kernels::avx512 {
const Kernels kBase = {
    .name = "avx512",
    .activation_bytes = activation_bytes<avx2::blocks::activation_bytes>,
    .prepare = prepare<avx2::blocks::prepare>,
    .matmul = matmul<avx2::blocks::matmul>,
    .panel_bytes = avx2::blocks::panel_bytes,
    .pack = avx2::blocks::pack,
    .attention = attention,
    .merge_attention = merge_attention,
    .dequantize_row = portable::dequantize_row,
    .rms_norm = rms_norm,
    .layer_norm = layer_norm,
    .l2_norm = l2_norm,
    .rope = rope,
    .gate = gate,
    .xielu = xielu,
    .apply = apply,
    .add = add,
    .add_scaled = add_scaled,
    .multiply = multiply,
    .scale = scale,
    .delta_rule = delta_rule,
    .state_space = state_space,
    .short_conv = short_conv,
    .store_key = store_key,
    .store_value = store_value,
    .load_values = load_values,
};

}  // namespace dovetail::kernels::avx512
