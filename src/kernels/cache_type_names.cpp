#include "kernels/cache_type_names.h"

#include <iterator>

namespace dovetail::kernels {

std::optional<CacheType> find_cache_type(std::string_view name) {
  for (const CacheTypeInfo& type : kCacheTypes) {
    if (type.name == name) return type.type;
  }
  return {};
}

std::string cache_type_names(std::string_view separator, std::string_view last) {
  std::string names;
  for (std::size_t i = 0; i < std::size(kCacheTypes); ++i) {
    if (i > 0) names += i + 1 == std::size(kCacheTypes) ? last : separator;
    names += kCacheTypes[i].name;
  }
  return names;
}

}  // namespace dovetail::kernels
