#include "kernels/avx2/avx2.h"
#include "kernels/avx2/ints.h"
#include "kernels/vector/products.h"

namespace dovetail::kernels::avx2::blocks {
DOVETAIL_DEFINE_BLOCK_FUNCTIONS
}  // namespace dovetail::kernels::avx2::blocks
