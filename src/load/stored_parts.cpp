#include "load/stored_parts.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <limits>

#include "kernels/types/int.h"
#include "kernels/types/mxfp4.h"
#include "kernels/types/plain.h"

namespace dovetail::load {
namespace {

// Rows that are converted together: where a word holds several rows, a cache line of words.
constexpr std::size_t kRowsTogether = 128;

// Where in a word each of eight rows is.
constexpr std::uint8_t kInOrder[8] = {0, 1, 2, 3, 4, 5, 6, 7};
constexpr std::uint8_t kEvenFirst[8] = {0, 4, 1, 5, 2, 6, 3, 7};

const std::uint8_t (&places(Nibbles::Order order))[8] {
  return order == Nibbles::Order::kRowsEvenFirst ? kEvenFirst : kInOrder;
}

std::uint32_t word_at(const Nibbles& nibbles, std::size_t index) {
  std::uint32_t word;
  std::memcpy(&word, nibbles.words.data() + 4 * index, sizeof word);
  return word;
}

// The eight nibbles as bytes.
std::uint64_t spread_nibbles(std::uint64_t word) {
  word = (word | word << 16U) & 0x0000ffff0000ffffU;
  word = (word | word << 8U) & 0x00ff00ff00ff00ffU;
  return (word | word << 4U) & 0x0f0f0f0f0f0f0f0fU;
}

// An exponent of the OCP MX specification: 2^(bits - 127), and a NaN for 255.
float power_of_two(std::byte exponent) {
  const auto bits = std::to_integer<std::uint32_t>(exponent);
  if (bits == 255) return std::numeric_limits<float>::quiet_NaN();
  // The least one is no normal float.
  return std::bit_cast<float>(bits == 0 ? 1U << 22U : bits << 23U);
}

float scale_of(const StoredParts& parts, std::size_t row, std::size_t column) {
  const std::size_t index = row / parts.group_rows * parts.scale_row_stride +
                            column / parts.group_columns * parts.scale_column_stride;
  if (!parts.scale_type) return power_of_two(parts.scales[index]);
  return read_element(*parts.scale_type,
                      parts.scales.data() + index * kernels::row_bytes(*parts.scale_type, 1));
}

std::uint8_t zero_of(const StoredParts& parts, std::size_t row, std::size_t column) {
  if (parts.zeros.words.empty()) return parts.zero;
  const std::uint32_t word =
      word_at(parts.zeros, row / 8 * parts.zeros.row_stride +
                               column / parts.group_columns * parts.zeros.column_stride);
  const std::uint32_t nibble = word >> (4U * places(parts.zeros.order)[row % 8]) & 15U;
  return static_cast<std::uint8_t>(nibble + parts.zero);
}

// The codes of `count` rows and kCount columns, two to a byte, into the rows' blocks.
template <std::size_t kCount>
void write_codes(const StoredParts& parts, std::size_t first, std::size_t count, std::size_t column,
                 std::uint8_t* out, std::size_t stride) {
  const Nibbles& nibbles = parts.nibbles;
  if (nibbles.order == Nibbles::Order::kColumns) {
    for (std::size_t w = 0; w < kCount / 8; ++w) {
      const std::size_t index = (column / 8 + w) * nibbles.column_stride;
      for (std::size_t r = 0; r < count; ++r) {
        const std::uint32_t word = word_at(nibbles, (first + r) * nibbles.row_stride + index);
        std::memcpy(out + r * stride + 4 * w, &word, sizeof word);
      }
    }
    return;
  }
  // Of a word, every row has its code of this column; of two words, its byte of two columns.
  const std::uint8_t(&place)[8] = places(nibbles.order);
  for (std::size_t r = 0; r < count;) {
    const std::size_t begin = (first + r) % 8;
    const std::size_t some = std::min(8 - begin, count - r);
    const std::size_t index = (first + r) / 8 * nibbles.row_stride;
    for (std::size_t c = 0; c < kCount; c += 2) {
      const std::size_t at = index + (column + c) * nibbles.column_stride;
      const std::uint64_t pairs = spread_nibbles(word_at(nibbles, at)) |
                                  spread_nibbles(word_at(nibbles, at + nibbles.column_stride))
                                      << 4U;
      for (std::size_t i = 0; i < some; ++i) {
        out[(r + i) * stride + c / 2] = static_cast<std::uint8_t>(pairs >> 8U * place[begin + i]);
      }
    }
    r += some;
  }
}

// The same of columns that lie elsewhere.
template <std::size_t kCount>
void write_ordered_codes(const StoredParts& parts, std::size_t first, std::size_t count,
                         const std::uint32_t* columns, std::uint8_t* out, std::size_t stride) {
  const Nibbles& nibbles = parts.nibbles;
  assert(nibbles.order == Nibbles::Order::kColumns);
  for (std::size_t c = 0; c < kCount; c += 2) {
    const std::uint32_t low = columns[c], high = columns[c + 1];
    for (std::size_t r = 0; r < count; ++r) {
      const std::size_t row = (first + r) * nibbles.row_stride;
      const auto code = [&](std::uint32_t column) {
        return word_at(nibbles, row + column / 8 * nibbles.column_stride) >> 4U * (column % 8) &
               15U;
      };
      out[r * stride + c / 2] = static_cast<std::uint8_t>(code(low) | code(high) << 4U);
    }
  }
}

// Some rows, at most kRowsTogether of them.
template <class T>
void write_int4(T /*type*/, const StoredParts& parts, std::size_t first, std::size_t count,
                std::byte* out) {
  using Block = typename T::Block;
  const std::size_t stride = kernels::row_bytes(parts.type, parts.columns);
  for (std::size_t c = 0; c < parts.columns; c += T::kElements, out += sizeof(Block)) {
    for (std::size_t r = 0; r < count; ++r) {
      auto* block = reinterpret_cast<Block*>(out + r * stride);
      const float scale = scale_of(parts, first + r, c);
      std::memcpy(block->scale, &scale, sizeof scale);
      block->zero_point = zero_of(parts, first + r, c);
    }
    std::uint8_t* codes = reinterpret_cast<Block*>(out)->q;
    if (parts.order) {
      write_ordered_codes<T::kElements>(parts, first, count, parts.order->data() + c, codes,
                                        stride);
    } else {
      write_codes<T::kElements>(parts, first, count, c, codes, stride);
    }
  }
}

// Whether one of E4M3's codes is a NaN: those whose bits but the sign are all set.
template <std::size_t kCount>
bool has_nan(const std::uint8_t (&codes)[kCount]) {
  constexpr std::uint64_t kSigns = 0x8080808080808080U;
  std::uint64_t found = 0;
  for (std::size_t i = 0; i < kCount; i += 8) {
    std::uint64_t eight;
    std::memcpy(&eight, codes + i, sizeof eight);
    // Adding one carries into the sign's place from seven set bits alone.
    found |= (eight & ~kSigns) + 0x0101010101010101U;
  }
  return (found & kSigns) != 0;
}

template <class T>
void write_bytes(T /*type*/, const StoredParts& parts, std::size_t row, std::byte* out) {
  using Block = typename T::Block;
  const bool words = parts.codes == StoredParts::Codes::kWords;
  const auto* from = reinterpret_cast<const std::uint8_t*>(parts.bytes.data());
  // Of a column of the codes; the next three of its word lie behind it.
  const auto place_of = [&](std::size_t column) {
    return words ? (column / 4 * parts.column_rows + row) * 4 + column % 4
                 : row * parts.columns + column;
  };
  auto* block = reinterpret_cast<Block*>(out);
  for (std::size_t c = 0; c < parts.columns; c += T::kElements, ++block) {
    float scale = scale_of(parts, row, c);
    if (parts.order) {
      for (std::size_t i = 0; i < T::kElements; ++i)
        block->q[i] = from[place_of((*parts.order)[c + i])];
    } else if (words) {
      for (std::size_t i = 0; i < T::kElements; i += 4)
        std::memcpy(block->q + i, from + place_of(c + i), 4);
    } else {
      std::memcpy(block->q, from + place_of(c), T::kElements);
    }
    if (words || parts.codes == StoredParts::Codes::kUnsigned) {
      for (std::uint8_t& code : block->q) code ^= 0x80U;
    }
    if (parts.codes == StoredParts::Codes::kFp8 && has_nan(block->q)) {
      scale = std::numeric_limits<float>::quiet_NaN();
    }
    std::memcpy(block->scale, &scale, sizeof scale);
  }
}

// From pairs of neighbours to the low nibbles of the first half and the high ones of the second.
void write_mxfp4(const StoredParts& parts, std::size_t row, std::byte* out) {
  using kernels::MXFP4;
  const std::size_t blocks = parts.columns / MXFP4::kElements;
  const auto* from = reinterpret_cast<const std::uint8_t*>(parts.bytes.data()) + row * blocks * 16;
  auto* block = reinterpret_cast<MXFP4::Block*>(out);
  for (std::size_t b = 0; b < blocks; ++b, ++block, from += 16) {
    block->exponent = std::to_integer<std::uint8_t>(parts.scales[row * blocks + b]);
    std::uint8_t codes[MXFP4::kElements];
    kernels::nibble_pairs<MXFP4::kElements>(from, codes);
    for (std::size_t i = 0; i < 16; ++i) {
      block->q[i] = static_cast<std::uint8_t>(codes[i] | codes[i + 16] << 4U);
    }
  }
}

// In groups of 16, from pairs of neighbours to the low nibbles of the first half and the high ones
// of the second. The type's scales have no sign: that of a scale goes to the group's codes.
void write_nvfp4(const StoredParts& parts, std::size_t row, std::byte* out) {
  using kernels::NVFP4;
  constexpr std::size_t kGroups = NVFP4::kElements / NVFP4::kGroup;
  constexpr std::size_t kHalf = NVFP4::kGroup / 2;
  const std::size_t blocks = parts.columns / NVFP4::kElements;
  const std::size_t first = row * blocks * kGroups;
  const auto* scale = reinterpret_cast<const std::uint8_t*>(parts.scales.data()) + first;
  const auto* from = reinterpret_cast<const std::uint8_t*>(parts.bytes.data()) + first * kHalf;
  auto* block = reinterpret_cast<NVFP4::Block*>(out);
  for (std::size_t b = 0; b < blocks; ++b, ++block) {
    for (std::size_t g = 0; g < kGroups; ++g, ++scale, from += kHalf) {
      block->scales[g] = *scale & 0x7fU;
      const std::uint8_t signs = (*scale & 0x80U) != 0 ? 0x88U : 0U;
      std::uint8_t codes[NVFP4::kGroup];
      kernels::nibble_pairs<NVFP4::kGroup>(from, codes);
      for (std::size_t i = 0; i < kHalf; ++i) {
        const auto pair = static_cast<std::uint8_t>(codes[i] | codes[i + kHalf] << 4U);
        block->q[kHalf * g + i] = pair ^ signs;
      }
    }
  }
}

// Some rows, at most kRowsTogether of them, of which the first is row `first` of the weight.
// Columns go in stretches that leave the rows' lines in the cache.
void write_columns(const StoredParts& parts, std::size_t first, std::size_t count, std::byte* out) {
  constexpr std::size_t kStretch = 32;
  const std::size_t size = kernels::row_bytes(parts.type, 1);
  const std::size_t column_bytes = parts.column_rows * size;
  for (std::size_t begin = 0; begin < parts.columns; begin += kStretch) {
    const std::size_t end = std::min(begin + kStretch, parts.columns);
    for (std::size_t r = 0; r < count; ++r) {
      const std::size_t stored = parts.first_row + (first + r) * parts.row_step;
      const std::byte* from = parts.bytes.data() +
                              stored / parts.column_rows * parts.columns * column_bytes +
                              stored % parts.column_rows * size;
      std::byte* to = out + r * parts.columns * size;
      for (std::size_t c = begin; c < end; ++c)
        std::memcpy(to + c * size, from + c * column_bytes, size);
    }
  }
}

}  // namespace

void write_rows(const StoredParts& parts, std::size_t first, std::size_t count, std::byte* out) {
  assert(first + count <= parts.rows);
  const std::size_t row_bytes = kernels::row_bytes(parts.type, parts.columns);
  const bool columns = parts.codes == StoredParts::Codes::kColumns;
  const std::size_t together = parts.row_step == 1 || columns ? kRowsTogether : 1;
  for (std::size_t end = first + count; first < end;) {
    const std::size_t some = std::min(together, end - first);
    const std::size_t stored = parts.first_row + first * parts.row_step;
    if (columns) {
      write_columns(parts, first, some, out);
    } else if (parts.codes == StoredParts::Codes::kNibbles) {
      if (parts.type == kernels::DataType::kINT4_32) {
        write_int4(kernels::INT4_32(), parts, stored, some, out);
      } else {
        write_int4(kernels::INT4_128(), parts, stored, some, out);
      }
    } else {
      for (std::size_t r = 0; r < some; ++r) {
        std::byte* row = out + r * row_bytes;
        if (parts.codes == StoredParts::Codes::kMxfp4) {
          write_mxfp4(parts, stored + r, row);
        } else if (parts.codes == StoredParts::Codes::kNvfp4) {
          write_nvfp4(parts, stored + r, row);
        } else if (parts.codes == StoredParts::Codes::kRows) {
          std::memcpy(row, parts.bytes.data() + (stored + r) * row_bytes, row_bytes);
        } else if (parts.codes == StoredParts::Codes::kFp8) {
          write_bytes(kernels::FP8_E4M3(), parts, stored + r, row);
        } else {
          write_bytes(kernels::INT8(), parts, stored + r, row);
        }
      }
    }
    first += some;
    out += some * row_bytes;
  }
}

}  // namespace dovetail::load
