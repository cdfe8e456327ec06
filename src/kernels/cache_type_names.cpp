#include "kernels/cache_type_names.h"

namespace dovetail::kernels {

std::optional<CacheType> find_cache_type(std::string_view name) {
  for (const CacheTypeInfo& type : kCacheTypes) {
    if (type.name == name) return type.type;
  }
  return {};
}

}  // namespace dovetail::kernels
