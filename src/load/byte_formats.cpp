#include <fmt/core.h>

#include <cmath>
#include <cstring>

#include "load/quote.h"
#include "load/stored_formats.h"

namespace dovetail::load {
namespace {

using kernels::DataType;
using Method = Quantization::Method;

// The scales of a weight of FP8 or FP4: their endings are those of Qwen and DeepSeek-V3, of
// compressed-tensors, and of DeepSeek-V4.
Found scales_of_floats(PartsReader& reader, const Found& codes) {
  if (reader.quantization().method != Method::kFp8) return reader.part(codes, ".weight_scale");
  return reader.part(codes, {".weight_scale_inv", ".weight_scale", ".scale"});
}

// A number by which all of a weight is multiplied, or divided.
void read_factor(PartsReader& reader, const Found& found, bool divides) {
  if (reader.failed() || !reader.check_type(found, {"F32"})) return;
  const std::vector<std::uint64_t>& shape = found.tensor->shape;
  if (found.tensor->data.size() != sizeof(float) || shape.size() > 1) {
    return reader.refuse(found, "shape " + shape_text(shape), "[1] or []", ErrorKind::kInvalid);
  }
  float number = 0.0F;
  std::memcpy(&number, found.tensor->data.data(), sizeof number);
  reader.factor = divides ? 1.0F / number : number;
  if (number > 0.0F && std::isfinite(number) && std::isfinite(reader.factor)) return;
  reader.refuse(found, fmt::format("{}", number),
                divides ? "a finite number above 0, of which the inverse is finite too"
                        : "a finite number above 0",
                ErrorKind::kInvalid);
}

StoredParts mxfp4(StoredParts parts, const Found& codes, const Found& scales) {
  parts.type = DataType::kMXFP4;
  parts.codes = StoredParts::Codes::kMxfp4;
  parts.bytes = codes.tensor->data;
  parts.scale_type.reset();
  parts.scales = scales.tensor->data;
  return parts;
}

}  // namespace

StoredParts byte_codes(PartsReader& reader, const Found& codes) {
  StoredParts parts;
  if (!reader.check_rank(codes, 2)) return parts;
  const bool fp8 = codes.tensor->stored_type == "F8_E4M3";
  parts.rows = codes.tensor->shape[0];
  parts.columns = codes.tensor->shape[1];
  parts.bytes = codes.tensor->data;
  parts.codes = fp8 ? StoredParts::Codes::kFp8 : StoredParts::Codes::kSigned;
  parts.type = fp8 ? DataType::kFP8_E4M3 : DataType::kINT8;
  if (!reader.read_scales(scales_of_floats(reader, codes), parts)) return parts;
  reader.check_groups(codes, parts.columns, parts.group_columns,
                      info(parts.type).elements_per_block);
  for (const std::string_view zeros : {".weight_zero_point", ".input_zero_point"}) {
    const Found found = reader.optional_part(zeros);
    if (found.tensor == nullptr || all_zero(found.tensor->data)) continue;
    reader.refuse(found, "zero points other than 0", "symmetric weights of 8 bits",
                  ErrorKind::kUnsupported);
  }
  // How far activations reach, by its names in compressed-tensors and in transformers.
  for (const std::string_view ending : {".input_scale", ".activation_scale"})
    reader.optional_part(ending);
  return parts;
}

StoredParts expert_codes(PartsReader& reader, const Found& codes) {
  StoredParts parts;
  if (!reader.check_rank(codes, 3)) return parts;
  const std::vector<std::uint64_t>& shape = codes.tensor->shape;
  reader.outer = {shape[0]};
  parts.rows = shape[0] * shape[1];
  parts.columns = shape[2];
  parts.bytes = codes.tensor->data;
  parts.codes = StoredParts::Codes::kFp8;
  parts.type = DataType::kFP8_E4M3;
  if (!reader.read_scales(reader.part(codes, "_scale_inv"), parts)) return parts;
  reader.check_groups(codes, parts.columns, parts.group_columns,
                      info(parts.type).elements_per_block);
  reader.optional_part("_activation_scale");
  return parts;
}

StoredParts nvfp4_codes(PartsReader& reader, const Found& codes) {
  StoredParts parts;
  if (!reader.check_type(codes, {"U8"}) || !reader.check_rank(codes, 2)) return parts;
  const Found scales = reader.part(codes, ".weight_scale");
  if (reader.failed() || !reader.check_type(scales, {"F8_E4M3"})) return parts;
  parts.rows = codes.tensor->shape[0];
  parts.columns = 2 * codes.tensor->shape[1];
  if (!reader.check_groups(codes, parts.columns, parts.columns, 64) ||
      !reader.check_shape(scales, {parts.rows, parts.columns / 16}))
    return parts;
  parts.type = DataType::kNVFP4;
  parts.codes = StoredParts::Codes::kNvfp4;
  parts.bytes = codes.tensor->data;
  parts.scale_type.reset();
  parts.scales = scales.tensor->data;
  const bool divides = reader.quantization().method == Method::kCompressedTensors;
  read_factor(reader, reader.part(codes, divides ? ".weight_global_scale" : ".weight_scale_2"),
              divides);
  // How far activations reach.
  reader.optional_part(divides ? ".input_global_scale" : ".input_scale");
  return parts;
}

StoredParts packed_floats(PartsReader& reader, const Found& codes) {
  // Of NVFP4 scales are no exponents.
  const Found peeked = reader.peek(".weight_scale");
  const bool nvfp4 = peeked.tensor != nullptr && peeked.tensor->stored_type == "F8_E4M3";
  if (nvfp4 && reader.quantization().method == Method::kCompressedTensors)
    return nvfp4_codes(reader, codes);
  StoredParts parts;
  if (!reader.check_rank(codes, 2)) return parts;
  const Found scales = scales_of_floats(reader, codes);
  if (reader.failed() || !reader.check_type(scales, {"U8", "F8_E8M0"})) return parts;
  parts.rows = codes.tensor->shape[0];
  parts.columns = 2 * codes.tensor->shape[1];
  if (!reader.check_groups(codes, parts.columns, parts.columns, 32)) return parts;
  reader.check_shape(scales, {parts.rows, parts.columns / 32});
  return mxfp4(parts, codes, scales);
}

StoredParts mxfp4_blocks(PartsReader& reader, const Found& codes) {
  StoredParts parts;
  const std::vector<std::uint64_t>& shape = codes.tensor->shape;
  if (shape.size() < 3 || shape.back() != 16 || codes.tensor->data.empty()) {
    reader.refuse(codes, "shape " + shape_text(shape), "[..., rows, blocks, 16]",
                  ErrorKind::kInvalid);
    return parts;
  }
  const Found scales = reader.part(codes, "_scales");
  if (reader.failed() || !reader.check_type(codes, {"U8"}) || !reader.check_type(scales, {"U8"}))
    return parts;
  const std::vector<std::uint64_t> wanted(shape.begin(), shape.end() - 1);
  if (scales.tensor->shape != wanted) {
    reader.refuse(scales, "shape " + shape_text(scales.tensor->shape), shape_text(wanted),
                  ErrorKind::kInvalid);
    return parts;
  }
  reader.outer.assign(shape.begin(), shape.end() - 3);
  parts.rows = reader.matrices() * shape[shape.size() - 3];
  parts.columns = 32 * shape[shape.size() - 2];
  return mxfp4(parts, codes, scales);
}

}  // namespace dovetail::load
