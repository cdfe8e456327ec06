#pragma once

#include <vector>

#include "kernels/kernels.h"

namespace dovetail::kernels {

// What the CPU at hand runs beside the portable path, best first. One definition per architecture:
// x86/ or portable/.
std::vector<const Kernels*> candidates();

}  // namespace dovetail::kernels
