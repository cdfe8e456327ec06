#pragma once

#include "kernels/roofline.h"

namespace dovetail::kernels::portable {

Roofline roofline();

}  // namespace dovetail::kernels::portable
