#include "kernels/avx512/avx512.h"
#include "kernels/avx512/ints.h"
#include "kernels/vector/products.h"

namespace dovetail::kernels::avx512::vnni {
DOVETAIL_DEFINE_BLOCK_FUNCTIONS
}  // namespace dovetail::kernels::avx512::vnni
