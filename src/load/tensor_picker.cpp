#include "load/tensor_picker.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>

#include "load/quote.h"
#include "load/stored_parts.h"
#include "load/tensor_roles.h"

namespace dovetail::load {
namespace {

float element(const StoredTensor& floats, std::size_t index) {
  float out = 0.0F;
  std::memcpy(&out, floats.data.data() + index * sizeof out, sizeof out);
  return out;
}

float factor_of(const StoredTensor& tensor, const StoredTensor* scales, std::size_t index = 0) {
  return scales == nullptr ? tensor.factor : tensor.factor * element(*scales, index);
}

std::string expert_name(std::string_view stem, std::uint32_t expert, std::string_view ending) {
  return fmt::format("{}.{}{}", stem, expert, ending);
}

// Outer dimensions of 1 do not count.
bool same_shape(std::span<const std::uint64_t> a, std::span<const std::uint64_t> b) {
  while (a.size() > 1 && a.front() == 1) a = a.subspan(1);
  while (b.size() > 1 && b.front() == 1) b = b.subspan(1);
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

// Outer dimensions of 1 do not count.
TensorPicker::Shape shape_of(const StoredTensor& tensor) {
  std::span<const std::uint64_t> shape = tensor.shape;
  while (shape.size() > 2 && shape.front() == 1) shape = shape.subspan(1);
  // A convolution of each channel by itself.
  if (shape.size() == 3 && shape[1] == 1) return {shape[0], shape[2]};
  if (shape.size() == 1) return {1, static_cast<std::size_t>(shape[0])};
  if (shape.size() == 2) {
    return {static_cast<std::size_t>(shape[0]), static_cast<std::size_t>(shape[1])};
  }
  return {0, 0};
}

std::string wanted_text(TensorPicker::Shape shape) {
  return shape.rows == 1 ? fmt::format("[{}]", shape.columns)
                         : fmt::format("[{}, {}]", shape.rows, shape.columns);
}

}  // namespace

void TensorPicker::product(const std::string& name, Shape wanted, bool bias, Fused fused) {
  const auto is_fused = [&](std::string_view ending) {
    return !fused.name.empty() && !stored_.contains(fmt::format("{}{}", name, ending)) &&
           stored_.contains(fmt::format("{}{}", fused.name, ending));
  };
  if (is_fused(".weight")) {
    slice(name, ".weight", wanted, fused);
  } else {
    matrix(name + ".weight", wanted.rows, wanted.columns);
  }
  if (!bias) return;
  if (is_fused(".bias")) {
    slice(name, ".bias", {wanted.rows, 1}, fused);
  } else {
    vector(name + ".bias", wanted.rows);
  }
}

void TensorPicker::matrix(const std::string& name, std::size_t rows, std::size_t columns) {
  pick(name, {rows, columns});
  if (is_stored()) bound_.at(name).factor = factor_of(stored_.at(name), scales_of(name, 1));
}
void TensorPicker::table(const std::string& name, std::size_t rows, std::size_t columns) {
  pick(name, {rows, columns});
  if (!is_stored() || stored_.at(name).factor == 1.0F) return;
  reject(stored_.at(name), "a scale for all of the tensor beside those of its groups",
         "none, since it is no product's matrix", ErrorKind::kUnsupported);
}
void TensorPicker::stack(const std::string& name, std::size_t count, std::size_t rows,
                         std::size_t columns) {
  if (error_) return;
  const auto found = stored_.find(name);
  const std::vector<std::uint64_t> shape = {count, rows, columns};
  if (found == stored_.end()) return pick(name, {count * rows, columns});
  const StoredTensor& tensor = found->second;
  if (!tensor.type || !same_shape(tensor.shape, shape)) {
    const std::string valid = shape_text(shape);
    return reject(tensor, "shape " + shape_text(tensor.shape), valid, ErrorKind::kInvalid);
  }
  used_.insert(found->first);
  const float factor = factor_of(tensor, scales_of(name, 1));
  bound_.emplace(
      name, TensorView{*tensor.type, count * rows, columns, tensor.data, tensor.parts, factor});
}
void TensorPicker::vector(const std::string& name, std::size_t elements) {
  pick(name, {1, elements});
  if (is_stored()) check_plain(stored_.at(name));
}

void TensorPicker::check_plain(const StoredTensor& tensor) {
  if (is_plain(*tensor.type)) return;
  reject(tensor, fmt::format("type {}", quote(tensor.stored_type)),
         "F32, F16 or BF16 for a norm or a bias", ErrorKind::kUnsupported);
}

void TensorPicker::slice(const std::string& name, std::string_view ending, Shape wanted,
                         Fused fused) {
  if (error_) return;
  const auto found = stored_.find(fmt::format("{}{}", fused.name, ending));
  const bool bias = ending == ".bias";
  const Shape whole = bias ? Shape{1, fused.rows} : Shape{fused.rows, wanted.columns};
  if (!fits(found == stored_.end() ? nullptr : &found->second,
            fmt::format("{}{}", fused.name, ending), whole)) {
    return;
  }
  const StoredTensor& tensor = found->second;
  if (bias) check_plain(tensor);
  if (error_) return;
  const std::size_t row = row_bytes(*tensor.type, wanted.columns);
  TensorView view{*tensor.type, wanted.rows, wanted.columns, {}};
  if (tensor.parts) {
    auto parts = std::make_shared<StoredParts>(*tensor.parts);
    parts->rows = wanted.rows;
    parts->first_row += fused.first * parts->row_step;
    view.parts = std::move(parts);
  } else {
    view.data = tensor.data.subspan(fused.first * row, wanted.rows * row);
  }
  view.factor = factor_of(tensor, scales_of(found->first, 1));
  if (bias) std::swap(view.rows, view.columns);
  used_.insert(found->first);
  bound_.insert_or_assign(fmt::format("{}{}", name, ending), std::move(view));
}

void TensorPicker::experts(const std::string& stem, std::uint32_t count, bool bias, Shape wanted,
                           Fused fused) {
  if (error_) return;
  const std::string all = stem + "_exps";
  if (type_of_ != nullptr) {
    // Without an allocation for each, which nothing in a file stands against.
    matrix(all + ".weight", count * wanted.rows, wanted.columns);
    if (bias) matrix(all + ".bias", count, wanted.rows);
    return;
  }
  if (bias) cut(stem, ".bias", count, {1, wanted.rows}, {all, 1, 0});
  if (stored_.contains(all + ".weight"))
    return cut(stem, ".weight", count, wanted, {all, wanted.rows, 0});
  if (!fused.name.empty() && stored_.contains(fmt::format("{}.weight", fused.name)))
    return cut(stem, ".weight", count, wanted, fused);
  std::optional<kernels::DataType> type;
  for (std::uint32_t expert = 0; expert < count; ++expert) {
    const std::string name = expert_name(stem, expert, ".weight");
    matrix(name, wanted.rows, wanted.columns);
    if (error_) return;
    const StoredTensor& tensor = stored_.at(name);
    if (!type) type = tensor.type;
    if (*tensor.type == *type) continue;
    reject(tensor, fmt::format("type {}", quote(tensor.stored_type)),
           fmt::format("{}, as of expert 0 of the layer", info(*type).name),
           ErrorKind::kUnsupported);
    return;
  }
}

void TensorPicker::cut(const std::string& stem, std::string_view ending, std::uint32_t count,
                       Shape wanted, Fused from) {
  if (error_) return;
  const bool bias = ending == ".bias";
  const std::string stored = fmt::format("{}{}", from.name, ending);
  std::vector<std::uint64_t> shape = {count, from.rows, wanted.columns};
  if (bias) shape = {count, wanted.columns};
  const auto found = stored_.find(stored);
  if (found == stored_.end()) {
    error_ = Error{ErrorKind::kInvalid,
                   fmt::format("{}: tensor {}: missing; valid: a tensor of shape {}", source_,
                               quote(stored), shape_text(shape))};
    return;
  }
  const StoredTensor& tensor = found->second;
  if (!tensor.type) {
    reject(tensor, fmt::format("type {}", quote(tensor.stored_type)), "F32, F16 or BF16",
           ErrorKind::kUnsupported);
    return;
  }
  if (bias) check_plain(tensor);
  if (error_) return;
  if (!same_shape(tensor.shape, shape)) {
    reject(tensor, "shape " + shape_text(tensor.shape), shape_text(shape), ErrorKind::kInvalid);
    return;
  }
  const std::size_t row = row_bytes(*tensor.type, wanted.columns);
  const StoredTensor* scales = scales_of(stored, count);
  for (std::uint32_t expert = 0; expert < count && !error_; ++expert) {
    std::string name = expert_name(stem, expert, ending);
    if (const auto twice = stored_.find(name); twice != stored_.end()) {
      reject(twice->second, fmt::format("given beside {}", quote(tensor.stored_name)),
             "one of the two", ErrorKind::kInvalid);
      return;
    }
    const std::size_t first = expert * from.rows + from.first;
    TensorView view{*tensor.type, wanted.rows, wanted.columns, {}};
    if (tensor.parts) {
      auto parts = std::make_shared<StoredParts>(*tensor.parts);
      parts->rows = wanted.rows;
      parts->first_row += first * parts->row_step;
      view.parts = std::move(parts);
    } else {
      view.data = tensor.data.subspan(first * row, wanted.rows * row);
    }
    view.factor = factor_of(tensor, scales, expert);
    bound_.emplace(std::move(name), std::move(view));
  }
  used_.insert(found->first);
}

const StoredTensor* TensorPicker::scales_of(std::string_view weight, std::size_t count) {
  constexpr std::string_view kEnding = ".weight";
  if (error_ || !weight.ends_with(kEnding)) return nullptr;
  const std::string stem(weight.substr(0, weight.size() - kEnding.size()));
  if (const auto reach = stored_.find(stem + ".input_scale"); reach != stored_.end())
    used_.insert(reach->first);
  const auto found = stored_.find(stem + ".scale");
  if (found == stored_.end()) return nullptr;
  const StoredTensor& scales = found->second;
  used_.insert(found->first);
  if (scales.type != kernels::DataType::kF32) {
    reject(scales, fmt::format("type {}", quote(scales.stored_type)), "F32",
           ErrorKind::kUnsupported);
  } else if (!same_shape(scales.shape, std::array<std::uint64_t, 1>{count})) {
    reject(scales, "shape " + shape_text(scales.shape), fmt::format("[{}]", count),
           ErrorKind::kInvalid);
  }
  for (std::size_t i = 0; i < count && !error_; ++i) {
    const float number = element(scales, i);
    if (number > 0.0F && std::isfinite(number)) continue;
    reject(scales, fmt::format("{} as number {}", number, i), "finite numbers above 0",
           ErrorKind::kInvalid);
  }
  return error_ ? nullptr : &scales;
}

std::size_t TensorPicker::rows_of(const std::string& name) const {
  const auto found = stored_.find(name);
  if (type_of_ != nullptr) return 2;  // of a text and of a second one
  return found == stored_.end() ? 1 : std::max<std::size_t>(shape_of(found->second).rows, 1);
}

bool TensorPicker::fits(const StoredTensor* tensor, std::string_view name, Shape wanted) {
  if (error_) return false;
  if (tensor == nullptr) {
    error_ = Error{ErrorKind::kInvalid,
                   fmt::format("{}: tensor {}: missing; valid: a tensor of shape {}", source_,
                               quote(name), wanted_text(wanted))};
  } else if (!tensor->type) {
    reject(*tensor, fmt::format("type {}", quote(tensor->stored_type)), "F32, F16 or BF16",
           ErrorKind::kUnsupported);
  } else if (shape_of(*tensor) != wanted) {
    reject(*tensor, "shape " + shape_text(tensor->shape), wanted_text(wanted), ErrorKind::kInvalid);
  }
  return !error_;
}

void TensorPicker::pick(const std::string& name, Shape wanted) {
  if (error_) return;
  if (type_of_ != nullptr) {
    const kernels::DataType type = (*type_of_)(name, wanted.rows, wanted.columns);
    bound_.emplace(name, TensorView{type, wanted.rows, wanted.columns, {}});
    return;
  }
  const auto found = stored_.find(name);
  if (!fits(found == stored_.end() ? nullptr : &found->second, name, wanted)) return;
  const StoredTensor& tensor = found->second;
  if (tensor.parts && tensor.parts->order && is_read_by_rows(name)) {
    return reject(tensor, "columns in an order of their own (desc_act, actorder)",
                  "columns in groups in their order, where single rows or heads are read",
                  ErrorKind::kUnsupported);
  }
  used_.insert(found->first);
  bound_.emplace(name,
                 TensorView{*tensor.type, wanted.rows, wanted.columns, tensor.data, tensor.parts});
}

void TensorPicker::token_experts(const std::string& name, std::size_t tokens, std::size_t used,
                                 std::uint32_t count) {
  table(name, tokens, used);
  if (!is_stored()) return;
  const StoredTensor& tensor = stored_.at(name);
  if (tensor.type != kernels::DataType::kF32) {
    return reject(tensor, fmt::format("type {}", quote(tensor.stored_type)), "whole numbers",
                  ErrorKind::kUnsupported);
  }
  for (std::size_t at = 0; at < tensor.data.size(); at += sizeof(float)) {
    float expert = 0.0F;
    std::memcpy(&expert, tensor.data.data() + at, sizeof expert);
    if (expert >= 0.0F && expert < static_cast<float>(count)) continue;
    return reject(tensor, fmt::format("expert {}", expert), fmt::format("0 to {}", count - 1),
                  ErrorKind::kInvalid);
  }
}

void TensorPicker::reject(const StoredTensor& tensor, std::string_view value,
                          std::string_view valid, ErrorKind kind) {
  error_ = Error{kind, fmt::format("{}: tensor {}: {}; valid: {}", tensor.file,
                                   quote(tensor.stored_name), value, valid)};
}

void TensorPicker::check_plain(const std::string& name) {
  if (is_stored()) check_plain(stored_.at(name));
}

}  // namespace dovetail::load
