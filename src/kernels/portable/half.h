#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

// 16-bit and 8-bit floats and 8-bit exponents without hardware for them. Internal linkage on
// purpose: see README.md, "One definition per instruction set".
namespace dovetail::kernels {
namespace {

inline float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000U) << 16U;
  const std::uint32_t rest = half & 0x7fffU;
  if (rest >= 0x7c00U) {  // infinity; NaN, which becomes quiet
    const std::uint32_t quiet = rest > 0x7c00U ? 0x400000U : 0U;
    return std::bit_cast<float>(sign | 0x7f800000U | quiet | ((rest & 0x3ffU) << 13U));
  }
  if (rest >= 0x400U) return std::bit_cast<float>(sign | ((rest << 13U) + 0x38000000U));
  // Zero and denormals: an integer times 2^-24, which a float holds exactly.
  const float value = static_cast<float>(rest) * 0x1p-24F;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | sign);
}

// Rounds to nearest, ties to even.
inline std::uint16_t float_to_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16U) & 0x8000U;
  const std::uint32_t rest = bits & 0x7fffffffU;
  if (rest > 0x7f800000U) {  // a quiet NaN with the payload's top
    return static_cast<std::uint16_t>(sign | 0x7e00U | ((rest >> 13U) & 0x1ffU));
  }
  if (rest >= 0x47800000U) return static_cast<std::uint16_t>(sign | 0x7c00U);  // 65536 and above
  if (rest < 0x38800000U) {  // below 2^-14: adding 0.5 leaves the denormal in the low bits, rounded
    const float shifted = std::bit_cast<float>(rest) + 0.5F;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000U));
  }
  const std::uint32_t odd = (rest >> 13U) & 1U;
  return static_cast<std::uint16_t>(sign | ((rest - 0x38000000U + 0xfffU + odd) >> 13U));
}

inline float bfloat_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

// The OCP MX specification's E8M0; see ScaleForm.
inline float exponent_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(bits == 0 ? 0x00400000U : static_cast<std::uint32_t>(bits) << 23U);
}

// OCP's E4M3 over 2^8, by way of the half that has the same bits of exponent and fraction. What is
// a NaN there is 480 / 256 here.
inline float e4m3_over_256(std::uint32_t bits) {
  return half_to_float(static_cast<std::uint16_t>((bits & 0x80U) << 8U | (bits & 0x7fU) << 7U));
}

inline std::uint16_t read_u16(const void* at) {
  std::uint16_t value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

inline float read_half(const void* at) { return half_to_float(read_u16(at)); }

// a * b + c, rounded once.
inline float fused(float a, float b, float c) {
#ifdef __FP_FAST_FMAF
  return __builtin_fmaf(a, b, c);
#else
  // The product is exact in a double. Of its sum with c the rounding error is known, too, and
  // makes it round to odd: so no second rounding, to the float, errs. Neither can overflow.
  const double product = static_cast<double>(a) * static_cast<double>(b);
  const double addend = static_cast<double>(c);
  const double sum = product + addend;
  const double back = sum - product;
  const double error = (product - (sum - back)) + (addend - back);
  auto bits = std::bit_cast<std::uint64_t>(sum);
  // Away from zero if the error has the sum's sign, else towards it; only if the sum is even.
  const std::uint64_t even = ~bits & 1U;
  const bool above = error > 0.0;
  const bool below = error < 0.0;  // neither for NaN
  const bool negative = (bits >> 63U) != 0;
  const std::uint64_t away = even & static_cast<std::uint64_t>(negative ? below : above);
  const std::uint64_t towards = even & static_cast<std::uint64_t>(negative ? above : below);
  bits = bits + away - towards;
  return static_cast<float>(std::bit_cast<double>(bits));
#endif
}

}  // namespace
}  // namespace dovetail::kernels
