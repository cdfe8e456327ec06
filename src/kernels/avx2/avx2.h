#pragma once

#include "kernels/kernels.h"

// AVX2 with FMA and F16C.
namespace dovetail::kernels::avx2 {

extern const Kernels kKernels;

}  // namespace dovetail::kernels::avx2
