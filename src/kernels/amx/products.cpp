#include "kernels/amx/amx.h"
#include "kernels/amx/tile_products.h"
#include "kernels/avx512/avx512.h"

namespace dovetail::kernels::amx {
namespace {

// Fewer rows do not pay for a strip.
constexpr std::size_t kFromRows = 16;

}  // namespace

void matmul(const MatmulArgs& args) {
  if (args.m < kFromRows || args.k == 0) return avx512::vnni::matmul(args);
  with_type(args.type, [&](auto t) {
    using T = decltype(t);
    if constexpr (!T::kPlain) multiply_by_tiles<T>(args);
  });
}

}  // namespace dovetail::kernels::amx
