#include "kernels/avx2/avx2.h"
#include "kernels/avx2/ints_vnni.h"
#include "kernels/vector/products.h"

namespace dovetail::kernels::avx2::vnni {
DOVETAIL_DEFINE_BLOCK_FUNCTIONS
}  // namespace dovetail::kernels::avx2::vnni
