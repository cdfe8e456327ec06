#include "kernels/data_type.h"

#include <array>

#include "kernels/types/all.h"

namespace dovetail::kernels {
namespace {

#define DOVETAIL_INFO(type) DataTypeInfo{type::kName, type::kGguf, type::kElements, type::kBytes},
constexpr auto kInfos = std::to_array({DOVETAIL_WEIGHT_TYPES(DOVETAIL_INFO)});
#undef DOVETAIL_INFO

}  // namespace

DataTypeInfo info(DataType type) { return kInfos[static_cast<std::size_t>(type)]; }

std::optional<DataType> gguf_type(std::uint32_t number) {
  for (std::size_t i = 0; i < kInfos.size(); ++i) {
    if (kInfos[i].gguf == number) return static_cast<DataType>(i);
  }
  return {};
}

std::string type_names() {
  std::string names;
  for (const DataTypeInfo& type : kInfos) {
    if (!names.empty()) names += &type == &kInfos.back() ? " and " : ", ";
    names += type.name;
  }
  return names;
}

bool is_plain(DataType type) { return info(type).elements_per_block == 1; }

std::size_t row_bytes(DataType type, std::size_t elements) {
  const DataTypeInfo of = info(type);
  return elements / of.elements_per_block * of.bytes_per_block;
}

}  // namespace dovetail::kernels
