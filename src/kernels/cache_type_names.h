#pragma once

#include <optional>
#include <string_view>

#include "kernels/cache_type.h"

namespace dovetail::kernels {

// The type called `name`, or none.
std::optional<CacheType> find_cache_type(std::string_view name);

}  // namespace dovetail::kernels
