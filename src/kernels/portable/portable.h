#pragma once

#include <cstddef>

#include "kernels/kernels.h"

// The path that every CPU runs. The other instruction sets take from it what is not hot.
namespace dovetail::kernels::portable {

extern const Kernels kKernels;

void dequantize_row(load::DataType type, const std::byte* row, std::size_t k, float* out);

// Weights of the block types.
void quant_matmul(const MatmulArgs& args);

}  // namespace dovetail::kernels::portable
