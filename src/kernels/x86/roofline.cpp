#include "kernels/roofline.h"

#include "kernels/amx/roofline.h"
#include "kernels/avx2/roofline.h"
#include "kernels/avx512/roofline.h"
#include "kernels/portable/roofline.h"

namespace dovetail::kernels {

Roofline roofline_of(std::string_view kernels) {
  if (kernels == "avx2") return {avx2::byte_roofline(), {}, avx2::float_roofline()};
  if (kernels == "avx2_vnni") return {avx2::vnni::byte_roofline(), {}, avx2::float_roofline()};
  const RooflineLoop floats = avx512::float_roofline();
  if (kernels == "avx512") return {avx512::byte_roofline(), {}, floats};
  if (kernels == "avx512_vnni") return {avx512::vnni::byte_roofline(), {}, floats};
  if (kernels == "avx512_bf16")
    return {avx512::vnni::byte_roofline(), avx512::bf16::bf16_roofline(), floats};
  if (kernels == "amx") return {amx::byte_roofline(), {}, floats};
  return portable::roofline();
}

}  // namespace dovetail::kernels
