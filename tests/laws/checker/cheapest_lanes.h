#pragma once

#include <cstdint>
#include <span>

#include "cores/admission.h"

namespace dovetail::laws {

// The lanes of a group that together do what a shape needs at the least sum of `cost` (by lane);
// none: the group has no such lanes.
cores::LaneMask cheapest_lanes(const cores::GroupSpec& group, const cores::TaskShape& shape,
                               std::span<const std::int64_t> cost);

}  // namespace dovetail::laws
