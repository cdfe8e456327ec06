#include "load/join_parts.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "load/quote.h"
#include "load/stored_parts.h"

namespace dovetail::load {
namespace {

using kernels::DataType;
using Method = Quantization::Method;
using Order = Nibbles::Order;

// A tensor and the file that it lies in.
struct Found {
  const SafetensorsTensor* tensor = nullptr;
  std::string_view file;
};

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

// Joins the parts of one weight after another. A function that fails leaves its error in error_.
class Joiner {
 public:
  Joiner(const Quantization& quantization, std::span<const std::vector<SafetensorsTensor>> shards,
         std::span<const std::string_view> files)
      : quantization_(quantization), shards_(shards), files_(files) {
    for (std::size_t i = 0; i < shards.size(); ++i) {
      for (const SafetensorsTensor& tensor : shards[i])
        all_.emplace(tensor.name, Found{&tensor, files[i]});
    }
  }

  Result<std::vector<NamedTensor>> join() {
    std::vector<NamedTensor> out;
    for_each([&](const Found& found) {
      if (auto joined = join(found)) out.push_back(*std::move(joined));
    });
    if (error_) return fail(*std::move(error_));
    for_each([&](const Found& found) {
      const SafetensorsTensor& tensor = *found.tensor;
      if (used_.contains(&tensor)) return;
      const bool spare = spare_.contains(&tensor) || is_of_cache(tensor.name);
      out.push_back({tensor.name,
                     {found.file, tensor.name, tensor.stored_type, tensor.type, tensor.shape,
                      tensor.data, nullptr, spare}});
    });
    return out;
  }

 private:
  template <class Function>
  void for_each(Function&& function) const {
    for (std::size_t i = 0; i < shards_.size(); ++i) {
      for (const SafetensorsTensor& tensor : shards_[i]) function(Found{&tensor, files_[i]});
    }
  }

  // Where the configuration asks for a cache in 8 bits: how far its keys and values reach. The
  // cache here is of the type that an option names and has scales of its own.
  bool is_of_cache(std::string_view name) const {
    constexpr std::string_view kEndings[] = {
        ".self_attn.k_scale",   ".self_attn.v_scale", ".self_attn.kv_scale", ".k_proj.output_scale",
        ".v_proj.output_scale", ".k_proj.k_scale",    ".v_proj.v_scale"};
    return quantization_.cache_scales &&
           std::any_of(std::begin(kEndings), std::end(kEndings),
                       [&](std::string_view ending) { return name.ends_with(ending); });
  }

  // The weight whose codes this tensor is; nothing where it is none's.
  std::optional<NamedTensor> join(const Found& codes) {
    if (error_) return {};
    const SafetensorsTensor& tensor = *codes.tensor;
    const std::string_view name = tensor.name;
    const bool bytes = tensor.stored_type == "F8_E4M3" || tensor.stored_type == "I8";
    switch (quantization_.method) {
      case Method::kNone:
        return {};
      case Method::kFp8:
        // Those of all experts of a layer in one, as transformers stores them.
        if (tensor.stored_type == "F8_E4M3" && !name.ends_with(".weight"))
          return weight(codes, "", &Joiner::expert_codes);
        // Bytes that are no floats are pairs of FP4 (DeepSeek-V4's experts).
        if (!name.ends_with(".weight") || !bytes) return {};
        return weight(codes, ".weight",
                      tensor.stored_type == "I8" ? &Joiner::packed_floats : &Joiner::byte_codes);
      case Method::kCompressedTensors:
        if (name.ends_with(".weight") && bytes)
          return weight(codes, ".weight", &Joiner::byte_codes);
        if (!name.ends_with(".weight_packed")) return {};
        if (tensor.stored_type != "U8")
          return weight(codes, ".weight_packed", &Joiner::packed_codes);
        return weight(codes, ".weight_packed",
                      has_e4m3_scales(name) ? &Joiner::nvfp4_codes : &Joiner::packed_floats);
      case Method::kModelOpt:
        if (!name.ends_with(".weight")) return {};
        if (tensor.stored_type == "U8") return weight(codes, ".weight", &Joiner::nvfp4_codes);
        if (tensor.stored_type != "F8_E4M3") return {};
        return weight(codes, ".weight", &Joiner::byte_codes);
      case Method::kAwq:
        if (!name.ends_with(".qweight")) return {};
        return weight(codes, ".qweight", &Joiner::awq_codes);
      case Method::kGptq:
        if (!name.ends_with(".qweight")) return {};
        return weight(codes, ".qweight", &Joiner::gptq_codes);
      case Method::kMxfp4:
        if (!name.ends_with("_blocks")) return {};
        return weight(codes, "_blocks", &Joiner::mxfp4_blocks);
    }
    return {};
  }

  // The parts of a weight are told by `read`, which needs the codes and the stem of the names.
  std::optional<NamedTensor> weight(const Found& codes, std::string_view ending,
                                    StoredParts (Joiner::*read)(const Found&)) {
    const SafetensorsTensor& tensor = *codes.tensor;
    stem_ = tensor.name.substr(0, tensor.name.size() - ending.size());
    outer_.clear();
    factor_ = 1.0F;
    used_.insert(&tensor);
    const StoredParts parts = (this->*read)(codes);
    if (error_) return {};
    // Some quantisers give every layer a bias, of zeros where the model has none.
    const auto bias = all_.find(stem_ + ".bias");
    if (bias != all_.end() && all_zero(bias->second.tensor->data)) {
      spare_.insert(bias->second.tensor);
    }
    std::vector<std::uint64_t> shape = outer_;
    shape.insert(shape.end(), {parts.rows / outer_count(), parts.columns});
    std::string name = stem_;
    // Parameters of modules that hold several have no ending.
    if (ending.starts_with('.')) name += ".weight";
    return NamedTensor{std::move(name),
                       {codes.file,
                        tensor.name,
                        tensor.stored_type,
                        parts.type,
                        std::move(shape),
                        {},
                        std::make_shared<const StoredParts>(parts),
                        false,
                        factor_}};
  }

  // A part of the weight, which is used up by that.
  Found optional_part(std::string_view ending) {
    const auto found = all_.find(stem_ + std::string(ending));
    if (found == all_.end()) return {};
    used_.insert(found->second.tensor);
    return found->second;
  }

  // One that must be there, by any of the endings.
  Found part(const Found& codes, std::initializer_list<std::string_view> endings) {
    std::string names;
    for (const std::string_view ending : endings) {
      if (const Found found = optional_part(ending); found.tensor != nullptr) return found;
      if (!names.empty()) names += " or ";
      names += quote(stem_ + std::string(ending));
    }
    refuse(codes, "without " + names,
           "a weight with its scales and all else that its quantisation stores",
           ErrorKind::kInvalid);
    return {};
  }

  Found part(const Found& codes, std::string_view ending) { return part(codes, {ending}); }

  // The scales of a weight of FP8 or FP4: their endings are those of Qwen and DeepSeek-V3, of
  // compressed-tensors, and of DeepSeek-V4.
  Found scales_of_floats(const Found& codes) {
    if (quantization_.method != Method::kFp8) return part(codes, ".weight_scale");
    return part(codes, {".weight_scale_inv", ".weight_scale", ".scale"});
  }

  bool check_shape(const Found& found, std::initializer_list<std::uint64_t> shape) {
    if (error_) return false;
    const std::vector<std::uint64_t> wanted(shape);
    if (found.tensor->shape == wanted) return true;
    refuse(found, "shape " + shape_text(found.tensor->shape), shape_text(wanted),
           ErrorKind::kInvalid);
    return false;
  }

  bool check_rank(const Found& found, std::size_t rank) {
    if (error_) return false;
    const std::vector<std::uint64_t>& shape = found.tensor->shape;
    const bool empty = std::find(shape.begin(), shape.end(), 0U) != shape.end();
    if (shape.size() == rank && !empty) return true;
    refuse(found, "shape " + shape_text(shape), fmt::format("{} sizes of 1 or more", rank),
           ErrorKind::kInvalid);
    return false;
  }

  bool check_type(const Found& found, std::initializer_list<std::string_view> valid) {
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

  bool check_scales(const Found& found) { return check_type(found, {"F32", "F16", "BF16"}); }

  // Groups of columns as the file has them, in rows of columns that the types of blocks can hold.
  bool check_groups(const Found& codes, std::uint64_t columns, std::uint64_t group,
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

  // Fills in the scales of a weight of `rows` x `columns`: one for all, for each row, for each row
  // and group of columns, or for each block of rows and columns. Returns whether they fit.
  bool read_scales(const Found& scales, StoredParts& parts) {
    if (error_) return false;
    const bool fp8 = parts.codes == StoredParts::Codes::kFp8;
    // Exponents have plain bytes in files of before their dtype.
    if (!(fp8 ? check_type(scales, {"F32", "F16", "BF16", "F8_E8M0", "U8"}) : check_scales(scales)))
      return false;
    const std::uint64_t rows = parts.rows / outer_count();
    const std::uint64_t columns = parts.columns;
    std::span<const std::uint64_t> shape = scales.tensor->shape;
    parts.scale_type = scales.tensor->type;
    parts.scales = scales.tensor->data;
    const std::size_t scale_bytes = parts.scale_type ? kernels::row_bytes(*parts.scale_type, 1) : 1;
    // Of several matrices in one tensor each has scales of its own, or all have one.
    const bool one = parts.scales.size() == scale_bytes;
    const bool of_each =
        shape.size() >= outer_.size() && std::equal(outer_.begin(), outer_.end(), shape.begin());
    if (!one && of_each) shape = shape.subspan(outer_.size());
    const bool matrix = shape.size() == 2;
    const bool fits = of_each && (outer_.empty() || matrix);
    if (fits && quantization_.block_rows > 0 && matrix &&
        shape[0] == parts_of(rows, quantization_.block_rows) &&
        shape[1] == parts_of(columns, quantization_.block_columns)) {
      parts.group_rows = quantization_.block_rows;
      parts.group_columns = quantization_.block_columns;
      // Blocks are counted from the first row of all.
      if (!outer_.empty() && rows % parts.group_rows != 0) {
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
      for (const std::uint64_t size : outer_) each += fmt::format("{}, ", size);
      std::string valid =
          fmt::format("[{0}{1}, columns / size of a group], [{0}{1}, 1] or [1]", each, rows);
      if (!outer_.empty()) valid = fmt::format("[{}1, 1], {}", each, valid);
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

  // The widest type of four bits whose blocks fit the groups.
  void choose_int4(const Found& codes, StoredParts& parts) {
    const bool wide = parts.columns % 128 == 0 &&
                      (parts.group_columns % 128 == 0 || parts.group_columns >= parts.columns);
    parts.type = wide ? DataType::kINT4_128 : DataType::kINT4_32;
    check_groups(codes, parts.columns, parts.group_columns, wide ? 128 : 32);
  }

  // compressed-tensors' int-quantized and float-quantized, FP8: a byte each.
  StoredParts byte_codes(const Found& codes) {
    StoredParts parts;
    if (!check_rank(codes, 2)) return parts;
    const bool fp8 = codes.tensor->stored_type == "F8_E4M3";
    parts.rows = codes.tensor->shape[0];
    parts.columns = codes.tensor->shape[1];
    parts.bytes = codes.tensor->data;
    parts.codes = fp8 ? StoredParts::Codes::kFp8 : StoredParts::Codes::kSigned;
    parts.type = fp8 ? DataType::kFP8_E4M3 : DataType::kINT8;
    if (!read_scales(scales_of_floats(codes), parts)) return parts;
    check_groups(codes, parts.columns, parts.group_columns, info(parts.type).elements_per_block);
    for (const std::string_view zeros : {".weight_zero_point", ".input_zero_point"}) {
      const Found found = optional_part(zeros);
      if (found.tensor == nullptr || all_zero(found.tensor->data)) continue;
      refuse(found, "zero points other than 0", "symmetric weights of 8 bits",
             ErrorKind::kUnsupported);
    }
    // How far activations reach, by its names in compressed-tensors and in transformers.
    for (const std::string_view ending : {".input_scale", ".activation_scale"})
      optional_part(ending);
    return parts;
  }

  // FP8 of several matrices, outermost first. Scales and those of activations have the name of the
  // codes and an ending.
  StoredParts expert_codes(const Found& codes) {
    StoredParts parts;
    if (!check_rank(codes, 3)) return parts;
    const std::vector<std::uint64_t>& shape = codes.tensor->shape;
    outer_ = {shape[0]};
    parts.rows = shape[0] * shape[1];
    parts.columns = shape[2];
    parts.bytes = codes.tensor->data;
    parts.codes = StoredParts::Codes::kFp8;
    parts.type = DataType::kFP8_E4M3;
    if (!read_scales(part(codes, "_scale_inv"), parts)) return parts;
    check_groups(codes, parts.columns, parts.group_columns, info(parts.type).elements_per_block);
    optional_part("_activation_scale");
    return parts;
  }

  // compressed-tensors' pack-quantized: four or eight bits of a row in words.
  StoredParts packed_codes(const Found& codes) {
    StoredParts parts;
    if (!check_type(codes, {"I32"}) || !check_rank(codes, 2)) return parts;
    const Found shape = part(codes, ".weight_shape");
    if (error_ || !check_type(shape, {"I64", "I32"}) || !check_shape(shape, {2})) return parts;
    const std::uint64_t rows = codes.tensor->shape[0];
    const std::uint64_t words = codes.tensor->shape[1];
    const auto stated_rows = integer_at(*shape.tensor, 0);
    const auto stated = integer_at(*shape.tensor, 1);
    const bool four = stated == static_cast<std::int64_t>(8 * words);
    if (stated_rows != static_cast<std::int64_t>(rows) ||
        (!four && stated != static_cast<std::int64_t>(4 * words))) {
      refuse(shape, fmt::format("[{}, {}]", stated_rows, stated),
             fmt::format("[{}, {}] for 4 bits or [{}, {}] for 8, by the shape of {}", rows,
                         8 * words, rows, 4 * words, quote(codes.tensor->name)),
             ErrorKind::kUnsupported);
      return parts;
    }
    parts.rows = rows;
    parts.columns = (four ? 8 : 4) * words;
    if (!read_scales(part(codes, ".weight_scale"), parts)) return parts;
    if (const Found order = optional_part(".weight_g_idx"); order.tensor != nullptr)
      read_order(order, true, parts);
    const Found zeros = optional_part(".weight_zero_point");
    if (!four) {
      parts.type = DataType::kINT8;
      parts.codes = StoredParts::Codes::kUnsigned;
      parts.bytes = codes.tensor->data;
      check_groups(codes, parts.columns, parts.group_columns, 32);
      if (zeros.tensor != nullptr && !error_) {
        refuse(zeros, "given", "symmetric weights of 8 bits", ErrorKind::kUnsupported);
      }
      return parts;
    }
    parts.nibbles = {Order::kColumns, codes.tensor->data, words, 1};
    parts.zero = 8;
    choose_int4(codes, parts);
    if (zeros.tensor != nullptr) {
      const std::uint64_t groups = parts.columns / parts.group_columns;
      if (parts.group_rows != 1 && !error_) {
        refuse(zeros, "given", "zero points with a scale for each row", ErrorKind::kUnsupported);
      }
      if (check_type(zeros, {"I32"}) && check_shape(zeros, {parts_of(rows, 8), groups})) {
        parts.zeros = {Order::kRows, zeros.tensor->data, groups, 1};
        parts.zero = 0;
      }
    }
    return parts;
  }

  // compressed-tensors' mxfp4-pack-quantized, and DeepSeek-V4's experts.
  StoredParts packed_floats(const Found& codes) {
    StoredParts parts;
    if (!check_rank(codes, 2)) return parts;
    const Found scales = scales_of_floats(codes);
    if (error_ || !check_type(scales, {"U8", "F8_E8M0"})) return parts;
    parts.rows = codes.tensor->shape[0];
    parts.columns = 2 * codes.tensor->shape[1];
    if (!check_groups(codes, parts.columns, parts.columns, 32)) return parts;
    check_shape(scales, {parts.rows, parts.columns / 32});
    return mxfp4(parts, codes, scales);
  }

  // Which of the two formats of FP4 compressed-tensors packed: of NVFP4 scales are no exponents.
  bool has_e4m3_scales(std::string_view codes) const {
    constexpr std::string_view kEnding = "_packed";
    const auto found =
        all_.find(std::string(codes.substr(0, codes.size() - kEnding.size())) + "_scale");
    return found != all_.end() && found->second.tensor->stored_type == "F8_E4M3";
  }

  // compressed-tensors' nvfp4-pack-quantized, and what ModelOpt stores: scales of 16 columns, and
  // one of all, by which these are divided or, of ModelOpt, multiplied.
  StoredParts nvfp4_codes(const Found& codes) {
    StoredParts parts;
    if (!check_type(codes, {"U8"}) || !check_rank(codes, 2)) return parts;
    const Found scales = part(codes, ".weight_scale");
    if (error_ || !check_type(scales, {"F8_E4M3"})) return parts;
    parts.rows = codes.tensor->shape[0];
    parts.columns = 2 * codes.tensor->shape[1];
    if (!check_groups(codes, parts.columns, parts.columns, 64) ||
        !check_shape(scales, {parts.rows, parts.columns / 16}))
      return parts;
    parts.type = DataType::kNVFP4;
    parts.codes = StoredParts::Codes::kNvfp4;
    parts.bytes = codes.tensor->data;
    parts.scale_type.reset();
    parts.scales = scales.tensor->data;
    const bool divides = quantization_.method == Method::kCompressedTensors;
    read_factor(part(codes, divides ? ".weight_global_scale" : ".weight_scale_2"), divides);
    // How far activations reach.
    optional_part(divides ? ".input_global_scale" : ".input_scale");
    return parts;
  }

  // A number by which all of a weight is multiplied, or divided.
  void read_factor(const Found& found, bool divides) {
    if (error_ || !check_type(found, {"F32"})) return;
    const std::vector<std::uint64_t>& shape = found.tensor->shape;
    if (found.tensor->data.size() != sizeof(float) || shape.size() > 1) {
      return refuse(found, "shape " + shape_text(shape), "[1] or []", ErrorKind::kInvalid);
    }
    float number = 0.0F;
    std::memcpy(&number, found.tensor->data.data(), sizeof number);
    factor_ = divides ? 1.0F / number : number;
    if (number > 0.0F && std::isfinite(number) && std::isfinite(factor_)) return;
    refuse(found, fmt::format("{}", number),
           divides ? "a finite number above 0, of which the inverse is finite too"
                   : "a finite number above 0",
           ErrorKind::kInvalid);
  }

  // As gpt-oss stores it: rows of blocks of 16 bytes, of any number of matrices.
  StoredParts mxfp4_blocks(const Found& codes) {
    StoredParts parts;
    const std::vector<std::uint64_t>& shape = codes.tensor->shape;
    if (shape.size() < 3 || shape.back() != 16 || codes.tensor->data.empty()) {
      refuse(codes, "shape " + shape_text(shape), "[..., rows, blocks, 16]", ErrorKind::kInvalid);
      return parts;
    }
    const Found scales = part(codes, "_scales");
    if (error_ || !check_type(codes, {"U8"}) || !check_type(scales, {"U8"})) return parts;
    const std::vector<std::uint64_t> wanted(shape.begin(), shape.end() - 1);
    if (scales.tensor->shape != wanted) {
      refuse(scales, "shape " + shape_text(scales.tensor->shape), shape_text(wanted),
             ErrorKind::kInvalid);
      return parts;
    }
    outer_.assign(shape.begin(), shape.end() - 3);
    parts.rows = outer_count() * shape[shape.size() - 3];
    parts.columns = 32 * shape[shape.size() - 2];
    return mxfp4(parts, codes, scales);
  }

  static StoredParts mxfp4(StoredParts parts, const Found& codes, const Found& scales) {
    parts.type = DataType::kMXFP4;
    parts.codes = StoredParts::Codes::kMxfp4;
    parts.bytes = codes.tensor->data;
    parts.scale_type.reset();
    parts.scales = scales.tensor->data;
    return parts;
  }

  // [columns][rows / 8] words of codes, [groups][rows / 8] of zero points, [groups][rows] scales.
  StoredParts awq_codes(const Found& codes) {
    StoredParts parts;
    if (!check_type(codes, {"I32"}) || !check_rank(codes, 2)) return parts;
    const std::uint64_t words = codes.tensor->shape[1];
    parts.rows = 8 * words;
    parts.columns = codes.tensor->shape[0];
    parts.nibbles = {Order::kRowsEvenFirst, codes.tensor->data, 1, words};
    read_groups(codes, Order::kRowsEvenFirst, parts);
    return parts;
  }

  // Words of 8 or 4 columns of a row, [columns / 8][rows] of them, zero points and scales as AWQ
  // has them, and the group of each column.
  StoredParts gptq_codes(const Found& codes) {
    StoredParts parts;
    if (!check_type(codes, {"I32"}) || !check_rank(codes, 2)) return parts;
    const std::uint64_t of_word = 32 / quantization_.weight_bits;
    parts.rows = codes.tensor->shape[1];
    parts.columns = of_word * codes.tensor->shape[0];
    if (parts.rows % of_word != 0) {
      refuse(codes, fmt::format("{} rows", parts.rows), fmt::format("a multiple of {}", of_word),
             ErrorKind::kInvalid);
      return parts;
    }
    if (quantization_.weight_bits == 8) {
      parts.type = DataType::kINT8;
      parts.codes = StoredParts::Codes::kWords;
      parts.bytes = codes.tensor->data;
      parts.column_rows = parts.rows;
      read_group_scales(codes, parts);
      check_groups(codes, parts.columns, parts.group_columns, 32);
      check_middle(codes, parts);
    } else {
      parts.nibbles = {Order::kColumns, codes.tensor->data, 1, parts.rows};
      parts.zero = quantization_.zeros_less_one ? 1 : 0;
      read_groups(codes, Order::kRows, parts);
    }
    if (const Found order = optional_part(".g_idx"); order.tensor != nullptr)
      read_order(order, false, parts);
    return parts;
  }

  // Zero points of GPTQ's bytes: in the middle of what a byte may be, so that there are none.
  void check_middle(const Found& codes, const StoredParts& parts) {
    const Found zeros = part(codes, ".qzeros");
    if (error_ || !check_type(zeros, {"I32"}) ||
        !check_shape(zeros, {parts.columns / parts.group_columns, parts.rows / 4}))
      return;
    const std::byte middle{static_cast<std::uint8_t>(quantization_.zeros_less_one ? 127 : 128)};
    const std::span<const std::byte> bytes = zeros.tensor->data;
    const auto other =
        std::find_if(bytes.begin(), bytes.end(), [&](std::byte zero) { return zero != middle; });
    if (other == bytes.end()) return;
    refuse(zeros, fmt::format("a zero point of {}", std::to_integer<int>(*other)),
           fmt::format("{}: symmetric weights of 8 bits", std::to_integer<int>(middle)),
           ErrorKind::kUnsupported);
  }

  // A scale for each group of columns and row.
  void read_group_scales(const Found& codes, StoredParts& parts) {
    const std::uint64_t group =
        quantization_.group_size == 0 ? parts.columns : quantization_.group_size;
    if (parts.columns % group != 0) {
      refuse(codes, fmt::format("{} columns", parts.columns),
             fmt::format("a multiple of the group_size {}", group), ErrorKind::kInvalid);
      return;
    }
    const std::uint64_t groups = parts.columns / group;
    const Found scales = part(codes, ".scales");
    if (error_ || !check_scales(scales) || !check_shape(scales, {groups, parts.rows})) return;
    parts.scale_type = scales.tensor->type;
    parts.scales = scales.tensor->data;
    parts.group_rows = 1;
    parts.group_columns = group;
    parts.scale_row_stride = 1;
    parts.scale_column_stride = parts.rows;
  }

  // The same, and zero points of four bits.
  void read_groups(const Found& codes, Order order, StoredParts& parts) {
    read_group_scales(codes, parts);
    if (error_) return;
    const Found zeros = part(codes, ".qzeros");
    const std::uint64_t groups = parts.columns / parts.group_columns;
    if (error_ || !check_type(zeros, {"I32"}) || !check_shape(zeros, {groups, parts.rows / 8})) {
      return;
    }
    parts.zeros = {order, zeros.tensor->data, 1, parts.rows / 8};
    choose_int4(codes, parts);
  }

  // The group of each column. Where columns were quantised in an order of their own (desc_act,
  // actorder), those of a group are brought together. A -1 stands for groups in the columns' order
  // where `may_be_unset`.
  void read_order(const Found& order, bool may_be_unset, StoredParts& parts) {
    if (error_ || !check_type(order, {"I32", "I64"}) || !check_shape(order, {parts.columns})) {
      return;
    }
    const std::uint64_t groups = parts.columns / parts.group_columns;
    std::vector<std::uint32_t> begins(groups + 1);  // of each group's columns, once all are counted
    bool in_order = true;
    for (std::size_t column = 0; column < parts.columns; ++column) {
      const std::int64_t group = integer_at(*order.tensor, column);
      if (group == -1 && may_be_unset) return;
      if (group < 0 || static_cast<std::uint64_t>(group) >= groups) {
        return refuse(order, fmt::format("column {} in group {}", column, group),
                      fmt::format("0 to {}", groups - 1), ErrorKind::kInvalid);
      }
      ++begins[static_cast<std::size_t>(group) + 1];
      in_order = in_order && static_cast<std::uint64_t>(group) == column / parts.group_columns;
    }
    for (std::size_t group = 0; group < groups; ++group) {
      if (begins[group + 1] == parts.group_columns) continue;
      return refuse(order, fmt::format("{} columns in group {}", begins[group + 1], group),
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

  std::size_t outer_count() const {
    std::size_t count = 1;
    for (const std::uint64_t size : outer_) count *= size;
    return count;
  }

  void refuse(const Found& found, std::string_view value, std::string_view valid, ErrorKind kind) {
    if (error_) return;
    error_ = Error{kind, fmt::format("{}: tensor {}: {}; valid: {}", found.file,
                                     quote(found.tensor->name), value, valid)};
  }

  const Quantization& quantization_;
  std::span<const std::vector<SafetensorsTensor>> shards_;
  std::span<const std::string_view> files_;
  std::unordered_map<std::string_view, Found> all_;
  std::unordered_set<const SafetensorsTensor*> used_, spare_;
  std::string stem_;                  // of the names of the weight being joined
  std::vector<std::uint64_t> outer_;  // its sizes before rows and columns
  float factor_ = 1.0F;               // and the scale of all of it
  std::optional<Error> error_;
};

}  // namespace

Result<std::vector<NamedTensor>> join_parts(const Quantization& quantization,
                                            std::span<const std::vector<SafetensorsTensor>> shards,
                                            std::span<const std::string_view> files) {
  return Joiner(quantization, shards, files).join();
}

}  // namespace dovetail::load
