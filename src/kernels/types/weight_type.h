#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

// What a file of this folder says of its weight type. Internal linkage on purpose: see
// ../README.md, "One definition per instruction set"; for the same reason these headers call no
// inline function of the standard library.
//
// A type whose elements are floats has kPlain = true, and kName, kGguf (GGUF's number of it),
// kElements (1 but for FP8_E4M3) and kBytes. A block type stores kElements elements in a Block of
// kBytes. Each element has a code of kBits bits, which stands for a whole number; each kGroup
// elements share a whole scale (where kScales) and a whole minimum (where kScales and kMinimums);
// the block has a float scale, and a float minimum where kMinimums:
//
//   w = scale * group_scale * value(code) - minimum * group_minimum,
//
// computed in float from left to right, with 1 for what a type does not have. Where kZeros, a block
// has a whole zero point, and where kFloatScales, each kGroup elements have a float scale of their
// own in place of the block's:
//
//   w = scale * (value(code) - zero).
//
// Its functions:
//
//   codes(block, out)      kElements codes, in the order of the elements, each below 2^kBits
//   scales(block, out)     where kScales: kElements / kGroup signed bytes, from kLeastScale to
//                          kMostScale
//   minimums(block, out)   where kScales and kMinimums: as many, 0 to 127
//   scale_bits(block)      the block's scale as stored, in the form kScaleForm; times kScaleFactor
//   scale_bits(block, g)   where kFloatScales: that of group g
//   zero(block)            where kZeros: 0 to 127
//   minimum_bits(block)    where kMinimums: a half; times kMinimumFactor
//
// value(code) is kValues[code] for a type with a table (kTable, at most 16 values), else
// code + kLowest. Factors are powers of two or their negatives. Block members are byte arrays, so
// that a block may lie at any address.
namespace dovetail::kernels {
namespace {

enum class ScaleForm : std::uint8_t {
  kHalf,  // IEEE's 16 bits
  // An exponent of 8 bits, of the OCP MX specification: 2^(bits - 127). 255, which is a NaN there,
  // is an infinity here.
  kE8M0,
  kFloat,  // IEEE's 32 bits
  kE4M3,   // OCP's 8 bits without a sign; 127, which is a NaN there, is 480 here
};

constexpr std::size_t scale_bytes(ScaleForm form) {
  return form == ScaleForm::kFloat ? 4 : form == ScaleForm::kHalf ? 2 : 1;
}

// What most block types have in common; a type hides what is different.
struct BlockType {
  static constexpr bool kPlain = false;
  static constexpr bool kScales = false, kMinimums = false, kTable = false;
  static constexpr bool kZeros = false, kFloatScales = false;
  static constexpr std::int8_t kLowest = 0;
  static constexpr int kLeastScale = -128, kMostScale = 127;
  static constexpr ScaleForm kScaleForm = ScaleForm::kHalf;
  static constexpr float kScaleFactor = 1.0F, kMinimumFactor = 1.0F;
};

// As BlockType, for the super-blocks of the K and IQ types.
struct SuperBlockType : BlockType {
  static constexpr std::size_t kElements = 256;
  static constexpr bool kScales = true;
};

// For types that GGUF does not have.
inline constexpr std::uint32_t kNoGguf = 0xffffffff;

struct PlainType {
  static constexpr bool kPlain = true;
  static constexpr std::size_t kElements = 1;
};

inline std::uint16_t little_endian(const std::uint8_t (&bytes)[2]) {
  return static_cast<std::uint16_t>(bytes[0] | bytes[1] << 8);
}

inline std::uint32_t little_endian(const std::uint8_t (&bytes)[4]) {
  return bytes[0] | static_cast<std::uint32_t>(bytes[1]) << 8 |
         static_cast<std::uint32_t>(bytes[2]) << 16 | static_cast<std::uint32_t>(bytes[3]) << 24;
}

// The least and the greatest value of a block type's codes.
template <class T>
constexpr int lowest_value() {
  int lowest = 0 + T::kLowest;
  if constexpr (T::kTable) {
    lowest = 0 + T::kValues[0];
    for (const std::int8_t value : T::kValues) lowest = value < lowest ? value : lowest;
  }
  return lowest;
}

template <class T>
constexpr int highest_value() {
  int highest = T::kLowest + (1 << T::kBits) - 1;
  if constexpr (T::kTable) {
    highest = 0 + T::kValues[0];
    for (const std::int8_t value : T::kValues) highest = value > highest ? value : highest;
  }
  return highest;
}

template <class T>
constexpr int value_of(std::uint8_t code) {
  if constexpr (T::kTable) {
    return T::kValues[code];
  } else {
    return T::kLowest + code;
  }
}

}  // namespace
}  // namespace dovetail::kernels
