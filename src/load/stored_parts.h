#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/data_type.h"

namespace dovetail::load {

// Whole numbers of four bits, eight to a word of 32, the first in the low bits.
struct Nibbles {
  // What the eight of a word are: columns of one row, or rows of one column, these from the first
  // to the last or in the order 0, 2, 4, 6, 1, 3, 5, 7.
  enum class Order : std::uint8_t { kColumns, kRows, kRowsEvenFirst };

  Order order = Order::kColumns;
  std::span<const std::byte> words;
  std::size_t row_stride = 0;     // words from one row (or eight of them) to the next
  std::size_t column_stride = 0;  // and likewise for columns
};

// A weight whose file does not have it in rows of a type that products take: its codes, scales and
// zero points lie apart, or in another order. Views into the file; the shapes are checked.
struct StoredParts {
  enum class Codes : std::uint8_t {
    kNibbles,   // `nibbles`; the type is INT4_32 or INT4_128
    kSigned,    // `bytes`, a row after another: INT8
    kUnsigned,  // the same plus 128
    kWords,     // the same, four columns to a word, of `column_rows` rows a word after another
    kFp8,       // the same: FP8_E4M3
    kMxfp4,     // `bytes`: two of E2M1 each, the first in the low bits; scales are E8M0: MXFP4
    kNvfp4,     // the same; a scale of E4M3, a byte each, for 16 columns of a row: NVFP4
    kRows,      // `bytes`: rows of the type, where one holds several weights
    kColumns,   // `bytes`: F32, F16 or BF16, of `column_rows` rows a column after another
  };

  kernels::DataType type = kernels::DataType::kF32;  // what the rows become
  std::size_t rows = 0, columns = 0;
  // Row r of the weight is row first_row + r * row_step of what is stored, where one holds several
  // weights. All that follows counts stored rows.
  std::size_t first_row = 0, row_step = 1;
  Codes codes = Codes::kNibbles;
  Nibbles nibbles;
  std::span<const std::byte> bytes;
  std::size_t column_rows = 0;  // as many stored rows follow each other in each column
  // Of each column of the rows, which one of the codes' it is: what the rows are multiplied by has
  // to be brought into the same order. Null: all are where they were. Scales and zero points count
  // columns of the rows.
  std::shared_ptr<const std::vector<std::uint32_t>> order;

  // A scale is for group_rows x group_columns elements; that of group (i, j) is element
  // i * scale_row_stride + j * scale_column_stride.
  std::optional<kernels::DataType> scale_type = kernels::DataType::kF32;  // none: E8M0, a byte each
  std::span<const std::byte> scales;
  std::size_t group_rows = 1, group_columns = 0;
  std::size_t scale_row_stride = 0, scale_column_stride = 0;

  // Zero points of INT4: a row's nibble for each group of columns, and what is to be added to it;
  // without words, `zero` itself.
  Nibbles zeros;
  std::uint8_t zero = 0;
};

// Writes rows [first, first + count) as rows of row_bytes(type, columns) bytes each. Exact: the
// numbers are those of the file, and no scale is rounded. Fast where `first` is a multiple of 8.
void write_rows(const StoredParts& parts, std::size_t first, std::size_t count, std::byte* out);

// Calls function(span) for each part of the file that the rows are made of.
template <class Function>
void for_each_span(const StoredParts& parts, Function&& function) {
  for (const auto& span : {parts.nibbles.words, parts.bytes, parts.scales, parts.zeros.words}) {
    if (!span.empty()) function(span);
  }
}

}  // namespace dovetail::load
