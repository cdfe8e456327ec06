#pragma once

#include "kernels/roofline.h"

// A translation unit for each step of the instruction set, as of the products.
namespace dovetail::kernels::avx512 {

RooflineLoop byte_roofline();
RooflineLoop float_roofline();

namespace vnni {
RooflineLoop byte_roofline();
}

namespace bf16 {
RooflineLoop bf16_roofline();
}

}  // namespace dovetail::kernels::avx512
