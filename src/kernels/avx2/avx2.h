#pragma once

#include "kernels/block_functions.h"
#include "kernels/kernels.h"

// AVX2 with FMA and F16C; then AVX-VNNI, which multiplies bytes in the same registers.
namespace dovetail::kernels::avx2 {

extern const Kernels kKernels;

const Kernels& vnni_kernels();  // "avx2_vnni"

namespace blocks {
DOVETAIL_BLOCK_FUNCTIONS
}  // namespace blocks

namespace vnni {
DOVETAIL_BLOCK_FUNCTIONS
}  // namespace vnni

}  // namespace dovetail::kernels::avx2
