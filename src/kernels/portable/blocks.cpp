#include "kernels/portable/ints.h"
#include "kernels/portable/portable.h"
#include "kernels/vector/products.h"

namespace dovetail::kernels::portable::blocks {
DOVETAIL_DEFINE_BLOCK_FUNCTIONS
}  // namespace dovetail::kernels::portable::blocks
