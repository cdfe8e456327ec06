#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "kernels/cache_type.h"

namespace dovetail::kernels {

// The type called `name`, or none.
std::optional<CacheType> find_cache_type(std::string_view name);

// All names, for messages and help: with `separator` between them, and `last` before the last.
std::string cache_type_names(std::string_view separator, std::string_view last);

}  // namespace dovetail::kernels
