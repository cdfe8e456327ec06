#pragma once

#include "kernels/block_functions.h"
#include "kernels/kernels.h"

// AVX2 with FMA and F16C.
namespace dovetail::kernels::avx2 {

extern const Kernels kKernels;

namespace blocks {
DOVETAIL_BLOCK_FUNCTIONS
}  // namespace blocks

}  // namespace dovetail::kernels::avx2
