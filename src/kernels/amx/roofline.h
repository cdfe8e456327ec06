#pragma once

#include "kernels/roofline.h"

namespace dovetail::kernels::amx {

RooflineLoop byte_roofline();

}  // namespace dovetail::kernels::amx
