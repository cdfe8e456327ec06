#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kernels/data_type.h"

namespace dovetail::load {

inline constexpr std::size_t kLargestSafetensorsHeader = std::size_t{100} << 20U;

struct SafetensorsTensor {
  std::string name;
  std::string stored_type;                // as the file spells it: "F32", "I64", ...
  std::optional<kernels::DataType> type;  // nothing for types that hold no weights
  std::vector<std::uint64_t> shape;       // outermost first; empty for a scalar
  std::span<const std::byte> data;
};

// Parses a safetensors file (https://huggingface.co/docs/safetensors): every tensor lies within the
// file with as many bytes as type and shape call for, no two overlap, and the last ends where the
// file ends. `file` names the source in errors. The spans view into `bytes`.
Result<std::vector<SafetensorsTensor>> parse_safetensors(std::span<const std::byte> bytes,
                                                         std::string_view file);

}  // namespace dovetail::load
