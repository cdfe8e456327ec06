#include "kernels/portable/portable.h"
#include "kernels/portable/vec.h"
#include "kernels/vector/attention.h"
#include "kernels/vector/dispatch.h"
#include "kernels/vector/elementwise.h"
#include "kernels/vector/gate.h"
#include "kernels/vector/recurrent.h"

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

}  // namespace dovetail::kernels::portable
