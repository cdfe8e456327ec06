#pragma once

#include <cstddef>

#include "kernels/block_functions.h"
#include "kernels/kernels.h"

// AVX-512 in three steps, each a set of kernels of its own: F, BW, VL and DQ; then VNNI, which
// multiplies bytes; then BF16.
namespace dovetail::kernels::avx512 {

// "avx512": floats. Products of block types are AVX2's.
extern const Kernels kBase;

const Kernels& vnni_kernels();  // "avx512_vnni"
const Kernels& bf16_kernels();  // "avx512_bf16"

namespace vnni {
DOVETAIL_BLOCK_FUNCTIONS
}  // namespace vnni

namespace bf16 {
std::size_t activation_bytes(std::size_t k);
void prepare(const float* x, std::size_t k, std::byte* out);
void matmul(const MatmulArgs& args);
}  // namespace bf16

}  // namespace dovetail::kernels::avx512
