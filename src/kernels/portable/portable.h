#pragma once

#include <cstddef>

#include "kernels/block_functions.h"
#include "kernels/kernels.h"

// The path that every CPU runs. The other instruction sets take from it what is not hot.
namespace dovetail::kernels::portable {

extern const Kernels kKernels;

void dequantize_row(DataType type, const std::byte* row, std::size_t k, float* out);

namespace blocks {
DOVETAIL_BLOCK_FUNCTIONS
}  // namespace blocks

}  // namespace dovetail::kernels::portable
