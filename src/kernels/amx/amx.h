#pragma once

#include <cstddef>

#include "kernels/kernels.h"

// AMX: tiles of bytes, beside AVX-512 with VNNI.
namespace dovetail::kernels::amx {

// "amx": block types by tiles where rows are enough; all else as "avx512_vnni". BF16 weights are
// multiplied as floats: the CPUs that have AMX do so twice as fast as pairs of BF16.
const Kernels& kernels();

// Products of block types; prepared rows and panels are those of avx512::vnni.
void matmul(const MatmulArgs& args);

}  // namespace dovetail::kernels::amx
