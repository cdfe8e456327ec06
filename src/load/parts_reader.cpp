#include "load/parts_reader.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "load/quote.h"

namespace dovetail::load {

std::int64_t integer_at(const SafetensorsTensor& tensor, std::size_t index) {
  if (tensor.stored_type == "I64") {
    std::int64_t value;
    std::memcpy(&value, tensor.data.data() + 8 * index, sizeof value);
    return value;
  }
  std::int32_t value;
  std::memcpy(&value, tensor.data.data() + 4 * index, sizeof value);
  return value;
}

bool all_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

std::uint64_t parts_of(std::uint64_t size, std::uint64_t part) { return (size + part - 1) / part; }

PartsReader::PartsReader(const Quantization& quantization,
                         std::span<const std::vector<SafetensorsTensor>> shards,
                         std::span<const std::string_view> files)
    : quantization_(quantization) {
  for (std::size_t i = 0; i < shards.size(); ++i) {
    for (const SafetensorsTensor& tensor : shards[i])
      all_.emplace(tensor.name, Found{&tensor, files[i]});
  }
}

void PartsReader::begin(const Found& codes, std::string_view ending) {
  const SafetensorsTensor& tensor = *codes.tensor;
  stem_ = tensor.name.substr(0, tensor.name.size() - ending.size());
  outer.clear();
  factor = 1.0F;
  used_.insert(&tensor);
}

std::size_t PartsReader::matrices() const {
  std::size_t count = 1;
  for (const std::uint64_t size : outer) count *= size;
  return count;
}

Found PartsReader::peek(std::string_view ending) const {
  const auto found = all_.find(stem_ + std::string(ending));
  return found == all_.end() ? Found() : found->second;
}

Found PartsReader::optional_part(std::string_view ending) {
  const Found found = peek(ending);
  if (found.tensor != nullptr) used_.insert(found.tensor);
  return found;
}

Found PartsReader::part(const Found& codes, std::initializer_list<std::string_view> endings) {
  std::string names;
  for (const std::string_view ending : endings) {
    if (const Found found = optional_part(ending); found.tensor != nullptr) return found;
    if (!names.empty()) names += " or ";
    names += quote(stem_ + std::string(ending));
  }
  refuse(codes, "without " + names,
         "a weight with its scales and all else that its quantisation stores", ErrorKind::kInvalid);
  return {};
}

bool PartsReader::check_shape(const Found& found, std::initializer_list<std::uint64_t> shape) {
  if (error_) return false;
  const std::vector<std::uint64_t> wanted(shape);
  if (found.tensor->shape == wanted) return true;
  refuse(found, "shape " + shape_text(found.tensor->shape), shape_text(wanted),
         ErrorKind::kInvalid);
  return false;
}

bool PartsReader::check_rank(const Found& found, std::size_t rank) {
  if (error_) return false;
  const std::vector<std::uint64_t>& shape = found.tensor->shape;
  const bool empty = std::find(shape.begin(), shape.end(), 0U) != shape.end();
  if (shape.size() == rank && !empty) return true;
  refuse(found, "shape " + shape_text(shape), fmt::format("{} sizes of 1 or more", rank),
         ErrorKind::kInvalid);
  return false;
}

bool PartsReader::check_type(const Found& found, std::initializer_list<std::string_view> valid) {
  if (error_) return false;
  const std::string& type = found.tensor->stored_type;
  if (std::find(valid.begin(), valid.end(), type) != valid.end()) return true;
  std::string names;
  for (const std::string_view name : valid) {
    if (!names.empty()) names += ", ";
    names += name;
  }
  refuse(found, fmt::format("dtype {}", quote(type)), names, ErrorKind::kUnsupported);
  return false;
}

bool PartsReader::check_groups(const Found& codes, std::uint64_t columns, std::uint64_t group,
                               std::uint64_t block) {
  if (error_) return false;
  if (columns % block != 0) {
    refuse(codes, fmt::format("{} columns", columns), fmt::format("a multiple of {}", block),
           ErrorKind::kUnsupported);
  } else if (group < columns && group % block != 0) {
    refuse(codes, fmt::format("groups of {} columns", group),
           fmt::format("a multiple of {}", block), ErrorKind::kUnsupported);
  }
  return !error_;
}

bool PartsReader::read_scales(const Found& scales, StoredParts& parts) {
  if (error_) return false;
  const bool fp8 = parts.codes == StoredParts::Codes::kFp8;
  // Exponents have plain bytes in files of before their dtype.
  if (!(fp8 ? check_type(scales, {"F32", "F16", "BF16", "F8_E8M0", "U8"}) : check_scales(scales)))
    return false;
  const std::uint64_t rows = parts.rows / matrices();
  const std::uint64_t columns = parts.columns;
  std::span<const std::uint64_t> shape = scales.tensor->shape;
  parts.scale_type = scales.tensor->type;
  parts.scales = scales.tensor->data;
  const std::size_t scale_bytes = parts.scale_type ? kernels::row_bytes(*parts.scale_type, 1) : 1;
  // Of several matrices in one tensor each has scales of its own, or all have one.
  const bool one = parts.scales.size() == scale_bytes;
  const bool of_each =
      shape.size() >= outer.size() && std::equal(outer.begin(), outer.end(), shape.begin());
  if (!one && of_each) shape = shape.subspan(outer.size());
  const bool matrix = shape.size() == 2;
  const bool fits = of_each && (outer.empty() || matrix);
  if (fits && quantization_.block_rows > 0 && matrix &&
      shape[0] == parts_of(rows, quantization_.block_rows) &&
      shape[1] == parts_of(columns, quantization_.block_columns)) {
    parts.group_rows = quantization_.block_rows;
    parts.group_columns = quantization_.block_columns;
    // Blocks are counted from the first row of all.
    if (!outer.empty() && rows % parts.group_rows != 0) {
      refuse(scales, fmt::format("blocks of {} rows for matrices of {}", parts.group_rows, rows),
             "blocks that end where a matrix does", ErrorKind::kUnsupported);
      return false;
    }
  } else if (one) {
    parts.group_rows = parts.rows;
    parts.group_columns = columns;
  } else if (fits && matrix && shape[0] == 1 && shape[1] == 1) {
    parts.group_rows = rows;
    parts.group_columns = columns;
  } else if (fits && !shape.empty() && shape.size() <= 2 && shape[0] == rows &&
             (!matrix || (shape[1] > 0 && columns % shape[1] == 0))) {
    parts.group_rows = 1;
    parts.group_columns = matrix ? columns / shape[1] : columns;
  } else {
    std::string each;  // sizes before those of a matrix
    for (const std::uint64_t size : outer) each += fmt::format("{}, ", size);
    std::string valid =
        fmt::format("[{0}{1}, columns / size of a group], [{0}{1}, 1] or [1]", each, rows);
    if (!outer.empty()) valid = fmt::format("[{}1, 1], {}", each, valid);
    if (quantization_.block_rows > 0) {
      valid = fmt::format("[{}{}, {}], {}", each, parts_of(rows, quantization_.block_rows),
                          parts_of(columns, quantization_.block_columns), valid);
    }
    refuse(scales, "shape " + shape_text(scales.tensor->shape),
           fmt::format("{} for a weight of {}", valid, shape_text(std::array{rows, columns})),
           ErrorKind::kInvalid);
    return false;
  }
  parts.scale_row_stride = parts_of(columns, parts.group_columns);
  parts.scale_column_stride = 1;
  return true;
}

void PartsReader::refuse(const Found& found, std::string_view value, std::string_view valid,
                         ErrorKind kind) {
  if (error_) return;
  error_ = Error{kind, fmt::format("{}: tensor {}: {}; valid: {}", found.file,
                                   quote(found.tensor->name), value, valid)};
}

}  // namespace dovetail::load
