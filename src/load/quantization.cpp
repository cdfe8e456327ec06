#include "load/quantization.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>

#include "load/quote.h"

namespace dovetail::load {
namespace {

using nlohmann::json;
using Method = Quantization::Method;

constexpr std::uint32_t kLargestGroup = 1U << 20U;
constexpr std::string_view kMethods =
    "fp8, compressed-tensors, awq, gptq, mxfp4, modelopt, modelopt_fp4";
constexpr std::string_view kFormats =
    "pack-quantized, int-quantized, float-quantized, naive-quantized, mxfp4-pack-quantized, "
    "nvfp4-pack-quantized, mixed-precision";
constexpr std::string_view kAlgorithms =
    "NVFP4, W4A16_NVFP4, FP8, FP8_PER_CHANNEL_PER_TOKEN, MIXED_PRECISION";

// Refuses a field unless it is one of the values.
template <class Value>
void require(JsonFields& fields, std::string_view key, const std::optional<Value>& value,
             std::initializer_list<Value> valid, std::string_view text) {
  if (!value || std::find(valid.begin(), valid.end(), *value) != valid.end()) return;
  if constexpr (std::is_same_v<Value, std::string>) {
    fields.reject(key, quote(*value), text, ErrorKind::kUnsupported);
  } else {
    fields.reject(key, fmt::format("{}", *value), text, ErrorKind::kUnsupported);
  }
}

// AWQ and GPTQ say -1 for a group of all columns.
std::size_t read_group_size(JsonFields& fields) {
  const auto size = fields.optional_int("group_size", -1, kLargestGroup);
  if (!size) fields.reject("group_size", "missing", "a multiple of 32, or -1");
  if (size.value_or(-1) == -1) return 0;
  if (*size == 0 || *size % 32 != 0) {
    fields.reject("group_size", fmt::format("{}", *size), "a multiple of 32, or -1",
                  ErrorKind::kUnsupported);
  }
  return static_cast<std::size_t>(*size);
}

void read_awq(JsonFields& fields, Quantization& out) {
  require<std::uint32_t>(fields, "bits", fields.required_count("bits", 1, 64), {4}, "4");
  auto version = fields.optional_string("version");
  if (version) {
    std::transform(version->begin(), version->end(), version->begin(), [](char c) {
      return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
  }
  require<std::string>(fields, "version", version, {"gemm"}, "'gemm'");
  out.group_size = read_group_size(fields);
}

void read_gptq(JsonFields& fields, Quantization& out) {
  out.weight_bits = fields.required_count("bits", 1, 64);
  require<std::uint32_t>(fields, "bits", out.weight_bits, {4, 8}, "4, 8");
  const auto format = fields.optional_string("checkpoint_format");
  require<std::string>(fields, "checkpoint_format", format, {"gptq", "gptq_v2"}, "gptq, gptq_v2");
  out.group_size = read_group_size(fields);
  out.zeros_less_one = !format || *format == "gptq";
}

void read_block(JsonFields& fields, std::string_view key, Quantization& out) {
  const json* block = fields.find(key);
  if (block == nullptr) return;
  const auto is_size = [](const json& size) {
    return size.is_number_unsigned() && size.get<std::uint64_t>() > 0 &&
           size.get<std::uint64_t>() <= kLargestGroup;
  };
  if (!block->is_array() || block->size() != 2 ||
      !std::all_of(block->begin(), block->end(), is_size)) {
    fields.reject(key, text_of(*block), "a list of two sizes, of rows and of columns");
    return;
  }
  out.block_rows = (*block)[0].get<std::size_t>();
  out.block_columns = (*block)[1].get<std::size_t>();
  if (out.block_columns % 128 != 0) {
    fields.reject(key, fmt::format("[{}, {}]", out.block_rows, out.block_columns),
                  "a multiple of 128 columns", ErrorKind::kUnsupported);
  }
}

// A section that may only be there if nothing is in it.
void refuse_section(JsonFields& fields, std::string_view key, std::string_view but = {}) {
  const json* section = fields.find(key);
  if (section == nullptr || section->empty()) return;
  if (section->is_object()) {
    const auto format = section->find("format");
    if (format != section->end() && format->is_string() && *format == but) return;
  }
  fields.reject(key, "given", "none", ErrorKind::kUnsupported);
}

// How the weights of a group of modules are quantised. Activations are not rounded as the file may
// ask for: see README.md.
void read_weights(JsonFields& fields, Quantization& out) {
  const auto type = fields.optional_string("type").value_or("int");
  const auto bits = fields.optional_count("num_bits", 1, 64).value_or(8);
  if (type == "int") {
    require<std::uint32_t>(fields, "num_bits", bits, {4, 8}, "4 or 8 of type int");
  } else if (type == "float") {
    require<std::uint32_t>(fields, "num_bits", bits, {4, 8},
                           "4 (mxfp4-pack-quantized, nvfp4-pack-quantized) or 8 of type float");
  } else {
    fields.reject("type", quote(type), "int, float", ErrorKind::kUnsupported);
  }
  require<std::string>(fields, "strategy", fields.optional_string("strategy"),
                       {"tensor", "channel", "group", "tensor_group", "block"},
                       "tensor, channel, group, tensor_group, block");
  read_block(fields, "block_structure", out);
  out.weight_bits = bits;
  out.weight_floats = type == "float";
  const json* group = fields.find("group_size");
  if (group != nullptr && group->is_number_unsigned())
    out.group_size = std::min<std::uint64_t>(group->get<std::uint64_t>(), kLargestGroup);
}

void read_compressed_tensors(JsonFields& fields, const std::string& file, Quantization& out) {
  require<std::string>(fields, "format", fields.optional_string("format"),
                       {"pack-quantized", "int-quantized", "float-quantized", "naive-quantized",
                        "mxfp4-pack-quantized", "nvfp4-pack-quantized", "mixed-precision"},
                       kFormats);
  refuse_section(fields, "sparsity_config", "dense");
  refuse_section(fields, "transform_config");
  const json* groups = fields.find("config_groups");
  if (groups == nullptr || !groups->is_object()) {
    fields.reject("config_groups", groups == nullptr ? "missing" : text_of(*groups),
                  "an object of groups of modules");
    return;
  }
  for (const auto& [name, group] : groups->items()) {
    const std::string at = fmt::format("config_groups.{}", quote(name));
    if (!group.is_object()) {
      fields.reject(at, text_of(group), "an object");
      return;
    }
    const auto weights = group.find("weights");
    if (weights == group.end() || !weights->is_object()) {
      fields.reject(at, "no weights", "an object with weights");
      return;
    }
    JsonFields inner(*weights, file, fmt::format("quantization_config.{}.weights.", at));
    read_weights(inner, out);
    fields.take_failure(inner.status());
  }
}

std::string upper_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  return text;
}

// One of ModelOpt's ways to quantise a module.
void read_algorithm(JsonFields& fields, const std::string& algorithm, Quantization& out) {
  const bool four = algorithm == "NVFP4" || algorithm == "W4A16_NVFP4";
  if (!four && algorithm != "FP8" && algorithm != "FP8_PER_CHANNEL_PER_TOKEN")
    fields.reject("quant_algo", quote(algorithm), kAlgorithms, ErrorKind::kUnsupported);
  out.weight_floats = true;
  // Of several kinds the most are of the fewest bits.
  if (four || out.weight_bits == 0) out.weight_bits = four ? 4 : 8;
}

// NVIDIA's ModelOpt, by the members of `section`. What is excluded is not quantised, and which of
// several ways a module is quantised in, its tensors tell.
void read_modelopt(JsonFields& fields, const std::string& file, std::string_view section,
                   Quantization& out) {
  out.method = Method::kModelOpt;
  const auto algorithm = fields.optional_string("quant_algo");
  if (!algorithm) return fields.reject("quant_algo", "missing", kAlgorithms);
  if (upper_case(*algorithm) != "MIXED_PRECISION")
    return read_algorithm(fields, upper_case(*algorithm), out);
  const json* layers = fields.find("quantized_layers");
  if (layers == nullptr || !layers->is_object()) {
    return fields.reject("quantized_layers", layers == nullptr ? "missing" : text_of(*layers),
                         "an object of modules");
  }
  for (const auto& [name, layer] : layers->items()) {
    const std::string at = fmt::format("quantized_layers.{}", quote(name));
    if (!layer.is_object()) return fields.reject(at, text_of(layer), "an object");
    JsonFields inner(layer, file, fmt::format("{}.{}.", section, at));
    read_algorithm(inner, upper_case(inner.optional_string("quant_algo").value_or("")), out);
    fields.take_failure(inner.status());
  }
}

}  // namespace

Quantization read_quantization(JsonFields& fields, const std::string& file) {
  Quantization out;
  const json* object = fields.find("quantization_config");
  if (object == nullptr) return out;
  if (!object->is_object()) {
    fields.reject("quantization_config", text_of(*object), "an object or null");
    return out;
  }
  JsonFields inner(*object, file, "quantization_config.");
  const auto method = inner.optional_string("quant_method");
  if (!method) {
    inner.reject("quant_method", "missing", kMethods, ErrorKind::kUnsupported);
  } else if (*method == "fp8") {
    out.method = Method::kFp8;
    require<std::string>(inner, "fmt", inner.optional_string("fmt"), {"e4m3"}, "'e4m3'");
    read_block(inner, "weight_block_size", out);
  } else if (*method == "compressed-tensors") {
    out.method = Method::kCompressedTensors;
    read_compressed_tensors(inner, file, out);
  } else if (*method == "awq") {
    out.method = Method::kAwq;
    read_awq(inner, out);
  } else if (*method == "gptq") {
    out.method = Method::kGptq;
    read_gptq(inner, out);
  } else if (*method == "mxfp4") {
    out.method = Method::kMxfp4;
  } else if (*method == "modelopt" || *method == "modelopt_fp4") {
    read_modelopt(inner, file, "quantization_config", out);
  } else {
    inner.reject("quant_method", quote(*method), kMethods, ErrorKind::kUnsupported);
  }
  // How a cache would be quantised says nothing of the weights.
  const json* cache = inner.find("kv_cache_scheme");
  out.cache_scales = cache != nullptr && !cache->empty();
  fields.take_failure(inner.status());
  return out;
}

Quantization read_modelopt_quantization(JsonFields& fields, const std::string& file) {
  Quantization out;
  const json* object = fields.find("quantization");
  if (object == nullptr || !object->is_object()) {
    fields.reject("quantization", object == nullptr ? "missing" : text_of(*object), "an object");
    return out;
  }
  JsonFields inner(*object, file, "quantization.");
  out.cache_scales = inner.has("kv_cache_quant_algo");
  // A cache alone may be quantised.
  if (inner.has("quant_algo") || !out.cache_scales) read_modelopt(inner, file, "quantization", out);
  fields.take_failure(inner.status());
  return out;
}

}  // namespace dovetail::load
