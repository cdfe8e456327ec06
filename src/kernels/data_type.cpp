#include "kernels/data_type.h"

#include <array>
#include <cassert>
#include <cstring>
#include <span>

#include "kernels/portable/half.h"
#include "kernels/types/all.h"

namespace dovetail::kernels {
namespace {

#define DOVETAIL_INFO(type) DataTypeInfo{type::kName, type::kGguf, type::kElements, type::kBytes},
constexpr auto kInfos = std::to_array({DOVETAIL_WEIGHT_TYPES(DOVETAIL_INFO)});
#undef DOVETAIL_INFO

#define DOVETAIL_NUMBER(type) type::kGguf,
constexpr std::size_t kGgufTypes = std::to_array({DOVETAIL_GGUF_TYPES(DOVETAIL_NUMBER)}).size();
#undef DOVETAIL_NUMBER

// They come first in the list.
constexpr auto kGgufInfos = std::span(kInfos).first<kGgufTypes>();

}  // namespace

DataTypeInfo info(DataType type) { return kInfos[static_cast<std::size_t>(type)]; }

std::optional<DataType> gguf_type(std::uint32_t number) {
  for (std::size_t i = 0; i < kGgufInfos.size(); ++i) {
    if (kGgufInfos[i].gguf == number) return static_cast<DataType>(i);
  }
  return {};
}

std::string gguf_type_names() {
  std::string names;
  for (const DataTypeInfo& type : kGgufInfos) {
    if (!names.empty()) names += &type == &kGgufInfos.back() ? " and " : ", ";
    names += type.name;
  }
  return names;
}

bool is_plain(DataType type) { return info(type).elements_per_block == 1; }

bool is_float(DataType type) {
  return with_type(type, [](auto t) { return decltype(t)::kPlain; });
}

std::size_t row_bytes(DataType type, std::size_t elements) {
  const DataTypeInfo of = info(type);
  return elements / of.elements_per_block * of.bytes_per_block;
}

float read_element(DataType type, const std::byte* at) {
  assert(is_plain(type));
  if (type == DataType::kF16) return read_half(at);
  if (type == DataType::kBF16) return bfloat_to_float(read_u16(at));
  float value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

}  // namespace dovetail::kernels
