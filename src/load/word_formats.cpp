#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "load/quote.h"
#include "load/stored_formats.h"

namespace dovetail::load {
namespace {

using kernels::DataType;
using Order = Nibbles::Order;

// The widest type of four bits whose blocks fit the groups.
void choose_int4(PartsReader& reader, const Found& codes, StoredParts& parts) {
  const bool wide = parts.columns % 128 == 0 &&
                    (parts.group_columns % 128 == 0 || parts.group_columns >= parts.columns);
  parts.type = wide ? DataType::kINT4_128 : DataType::kINT4_32;
  reader.check_groups(codes, parts.columns, parts.group_columns, wide ? 128 : 32);
}

// The group of each column. Where columns were quantised in an order of their own (desc_act,
// actorder), those of a group are brought together. A -1 stands for groups in the columns' order
// where `may_be_unset`.
void read_order(PartsReader& reader, const Found& order, bool may_be_unset, StoredParts& parts) {
  if (reader.failed() || !reader.check_type(order, {"I32", "I64"}) ||
      !reader.check_shape(order, {parts.columns})) {
    return;
  }
  const std::uint64_t groups = parts.columns / parts.group_columns;
  std::vector<std::uint32_t> begins(groups + 1);  // of each group's columns, once all are counted
  bool in_order = true;
  for (std::size_t column = 0; column < parts.columns; ++column) {
    const std::int64_t group = integer_at(*order.tensor, column);
    if (group == -1 && may_be_unset) return;
    if (group < 0 || static_cast<std::uint64_t>(group) >= groups) {
      return reader.refuse(order, fmt::format("column {} in group {}", column, group),
                           fmt::format("0 to {}", groups - 1), ErrorKind::kInvalid);
    }
    ++begins[static_cast<std::size_t>(group) + 1];
    in_order = in_order && static_cast<std::uint64_t>(group) == column / parts.group_columns;
  }
  for (std::size_t group = 0; group < groups; ++group) {
    if (begins[group + 1] == parts.group_columns) continue;
    return reader.refuse(order, fmt::format("{} columns in group {}", begins[group + 1], group),
                         fmt::format("{}", parts.group_columns), ErrorKind::kUnsupported);
  }
  if (in_order) return;
  std::partial_sum(begins.begin(), begins.end(), begins.begin());
  std::vector<std::uint32_t> columns(parts.columns);
  for (std::size_t column = 0; column < parts.columns; ++column) {
    const auto group = static_cast<std::size_t>(integer_at(*order.tensor, column));
    columns[begins[group]++] = static_cast<std::uint32_t>(column);
  }
  parts.order = std::make_shared<const std::vector<std::uint32_t>>(std::move(columns));
}

// A scale for each group of columns and row.
void read_group_scales(PartsReader& reader, const Found& codes, StoredParts& parts) {
  const std::uint64_t group =
      reader.quantization().group_size == 0 ? parts.columns : reader.quantization().group_size;
  if (parts.columns % group != 0) {
    reader.refuse(codes, fmt::format("{} columns", parts.columns),
                  fmt::format("a multiple of the group_size {}", group), ErrorKind::kInvalid);
    return;
  }
  const std::uint64_t groups = parts.columns / group;
  const Found scales = reader.part(codes, ".scales");
  if (reader.failed() || !reader.check_scales(scales) ||
      !reader.check_shape(scales, {groups, parts.rows}))
    return;
  parts.scale_type = scales.tensor->type;
  parts.scales = scales.tensor->data;
  parts.group_rows = 1;
  parts.group_columns = group;
  parts.scale_row_stride = 1;
  parts.scale_column_stride = parts.rows;
}

// The same, and zero points of four bits.
void read_groups(PartsReader& reader, const Found& codes, Order order, StoredParts& parts) {
  read_group_scales(reader, codes, parts);
  if (reader.failed()) return;
  const Found zeros = reader.part(codes, ".qzeros");
  const std::uint64_t groups = parts.columns / parts.group_columns;
  if (reader.failed() || !reader.check_type(zeros, {"I32"}) ||
      !reader.check_shape(zeros, {groups, parts.rows / 8})) {
    return;
  }
  parts.zeros = {order, zeros.tensor->data, 1, parts.rows / 8};
  choose_int4(reader, codes, parts);
}

// Zero points of GPTQ's bytes: in the middle of what a byte may be, so that there are none.
void check_middle(PartsReader& reader, const Found& codes, const StoredParts& parts) {
  const Found zeros = reader.part(codes, ".qzeros");
  if (reader.failed() || !reader.check_type(zeros, {"I32"}) ||
      !reader.check_shape(zeros, {parts.columns / parts.group_columns, parts.rows / 4}))
    return;
  const std::byte middle{
      static_cast<std::uint8_t>(reader.quantization().zeros_less_one ? 127 : 128)};
  const std::span<const std::byte> bytes = zeros.tensor->data;
  const auto other =
      std::find_if(bytes.begin(), bytes.end(), [&](std::byte zero) { return zero != middle; });
  if (other == bytes.end()) return;
  reader.refuse(zeros, fmt::format("a zero point of {}", std::to_integer<int>(*other)),
                fmt::format("{}: symmetric weights of 8 bits", std::to_integer<int>(middle)),
                ErrorKind::kUnsupported);
}

}  // namespace

StoredParts packed_codes(PartsReader& reader, const Found& codes) {
  StoredParts parts;
  if (!reader.check_type(codes, {"I32"}) || !reader.check_rank(codes, 2)) return parts;
  const Found shape = reader.part(codes, ".weight_shape");
  if (reader.failed() || !reader.check_type(shape, {"I64", "I32"}) ||
      !reader.check_shape(shape, {2}))
    return parts;
  const std::uint64_t rows = codes.tensor->shape[0];
  const std::uint64_t words = codes.tensor->shape[1];
  const auto stated_rows = integer_at(*shape.tensor, 0);
  const auto stated = integer_at(*shape.tensor, 1);
  const bool four = stated == static_cast<std::int64_t>(8 * words);
  if (stated_rows != static_cast<std::int64_t>(rows) ||
      (!four && stated != static_cast<std::int64_t>(4 * words))) {
    reader.refuse(shape, fmt::format("[{}, {}]", stated_rows, stated),
                  fmt::format("[{}, {}] for 4 bits or [{}, {}] for 8, by the shape of {}", rows,
                              8 * words, rows, 4 * words, quote(codes.tensor->name)),
                  ErrorKind::kUnsupported);
    return parts;
  }
  parts.rows = rows;
  parts.columns = (four ? 8 : 4) * words;
  if (!reader.read_scales(reader.part(codes, ".weight_scale"), parts)) return parts;
  if (const Found order = reader.optional_part(".weight_g_idx"); order.tensor != nullptr)
    read_order(reader, order, true, parts);
  const Found zeros = reader.optional_part(".weight_zero_point");
  if (!four) {
    parts.type = DataType::kINT8;
    parts.codes = StoredParts::Codes::kUnsigned;
    parts.bytes = codes.tensor->data;
    reader.check_groups(codes, parts.columns, parts.group_columns, 32);
    if (zeros.tensor != nullptr && !reader.failed()) {
      reader.refuse(zeros, "given", "symmetric weights of 8 bits", ErrorKind::kUnsupported);
    }
    return parts;
  }
  parts.nibbles = {Order::kColumns, codes.tensor->data, words, 1};
  parts.zero = 8;
  choose_int4(reader, codes, parts);
  if (zeros.tensor != nullptr) {
    const std::uint64_t groups = parts.columns / parts.group_columns;
    if (parts.group_rows != 1 && !reader.failed()) {
      reader.refuse(zeros, "given", "zero points with a scale for each row",
                    ErrorKind::kUnsupported);
    }
    if (reader.check_type(zeros, {"I32"}) &&
        reader.check_shape(zeros, {parts_of(rows, 8), groups})) {
      parts.zeros = {Order::kRows, zeros.tensor->data, groups, 1};
      parts.zero = 0;
    }
  }
  return parts;
}

StoredParts awq_codes(PartsReader& reader, const Found& codes) {
  StoredParts parts;
  if (!reader.check_type(codes, {"I32"}) || !reader.check_rank(codes, 2)) return parts;
  const std::uint64_t words = codes.tensor->shape[1];
  parts.rows = 8 * words;
  parts.columns = codes.tensor->shape[0];
  parts.nibbles = {Order::kRowsEvenFirst, codes.tensor->data, 1, words};
  read_groups(reader, codes, Order::kRowsEvenFirst, parts);
  return parts;
}

StoredParts gptq_codes(PartsReader& reader, const Found& codes) {
  StoredParts parts;
  if (!reader.check_type(codes, {"I32"}) || !reader.check_rank(codes, 2)) return parts;
  const std::uint64_t of_word = 32 / reader.quantization().weight_bits;
  parts.rows = codes.tensor->shape[1];
  parts.columns = of_word * codes.tensor->shape[0];
  if (parts.rows % of_word != 0) {
    reader.refuse(codes, fmt::format("{} rows", parts.rows),
                  fmt::format("a multiple of {}", of_word), ErrorKind::kInvalid);
    return parts;
  }
  if (reader.quantization().weight_bits == 8) {
    parts.type = DataType::kINT8;
    parts.codes = StoredParts::Codes::kWords;
    parts.bytes = codes.tensor->data;
    parts.column_rows = parts.rows;
    read_group_scales(reader, codes, parts);
    reader.check_groups(codes, parts.columns, parts.group_columns, 32);
    check_middle(reader, codes, parts);
  } else {
    parts.nibbles = {Order::kColumns, codes.tensor->data, 1, parts.rows};
    parts.zero = reader.quantization().zeros_less_one ? 1 : 0;
    read_groups(reader, codes, Order::kRows, parts);
  }
  if (const Found order = reader.optional_part(".g_idx"); order.tensor != nullptr)
    read_order(reader, order, false, parts);
  return parts;
}

}  // namespace dovetail::load
