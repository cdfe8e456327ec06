#pragma once

#include "kernels/types/weight_type.h"

namespace dovetail::kernels {
namespace {

struct F32 : PlainType {
  static constexpr std::string_view kName = "F32";
  static constexpr std::uint32_t kGguf = 0;
  static constexpr std::size_t kBytes = 4;
};

struct F16 : PlainType {
  static constexpr std::string_view kName = "F16";
  static constexpr std::uint32_t kGguf = 1;
  static constexpr std::size_t kBytes = 2;
};

struct BF16 : PlainType {
  static constexpr std::string_view kName = "BF16";
  static constexpr std::uint32_t kGguf = 30;
  static constexpr std::size_t kBytes = 2;
};

}  // namespace
}  // namespace dovetail::kernels
