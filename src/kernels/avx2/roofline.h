#pragma once

#include "kernels/roofline.h"

namespace dovetail::kernels::avx2 {

RooflineLoop byte_roofline();
RooflineLoop float_roofline();

namespace vnni {
RooflineLoop byte_roofline();
}

}  // namespace dovetail::kernels::avx2
