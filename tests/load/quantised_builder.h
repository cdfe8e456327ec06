#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "load/safetensors_builder.h"

// Valid models of which one matrix is quantised, in each of the ways that are read.
namespace dovetail::load {

// A model of which down_proj of layer 0, 32 x `inner`, is about to be quantised.
inline HfBuilder without_down(std::uint32_t inner = 128) {
  HfBuilder out = tiny_hf({.vocabulary = 8, .inner = inner, .layers = 1});
  out.weights.erase("model.layers.0.mlp.down_proj.weight");
  return out;
}

inline void add_part(HfBuilder& b, const std::string& ending, const std::string& dtype,
                     std::vector<std::uint64_t> shape) {
  const std::map<std::string, std::size_t> sizes = {
      {"I64", 8}, {"I32", 4}, {"F32", 4},     {"F16", 2},     {"BF16", 2},
      {"I8", 1},  {"U8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"F8_E8M0", 1}};
  std::size_t bytes = sizes.at(dtype);
  for (const std::uint64_t size : shape) bytes *= size;
  b.weights.tensors.push_back(
      {"model.layers.0.mlp.down_proj" + ending, dtype, std::move(shape), Bytes(bytes)});
}

inline void replace_part(HfBuilder& b, const std::string& ending, const std::string& dtype,
                         std::vector<std::uint64_t> shape) {
  b.weights.erase("model.layers.0.mlp.down_proj" + ending);
  add_part(b, ending, dtype, std::move(shape));
}

inline void erase_part(HfBuilder& b, const std::string& ending) {
  b.weights.erase("model.layers.0.mlp.down_proj" + ending);
}

inline void set_integers(HfBuilder& b, const std::string& ending,
                         const std::vector<std::int64_t>& values) {
  auto& tensor = b.weights.tensor("model.layers.0.mlp.down_proj" + ending);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto narrow = static_cast<std::int32_t>(values[i]);
    if (tensor.dtype == "I64") {
      std::memcpy(tensor.data.data() + 8 * i, &values[i], 8);
    } else {
      std::memcpy(tensor.data.data() + 4 * i, &narrow, 4);
    }
  }
}

inline HfBuilder awq_model() {
  HfBuilder b = without_down();
  b.config["quantization_config"] = {{"quant_method", "awq"}, {"bits", 4}, {"group_size", 64}};
  add_part(b, ".qweight", "I32", {128, 4});
  add_part(b, ".qzeros", "I32", {2, 4});
  add_part(b, ".scales", "F16", {2, 32});
  return b;
}

inline HfBuilder gptq_model() {
  HfBuilder b = without_down();
  b.config["quantization_config"] = {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 128}};
  add_part(b, ".qweight", "I32", {16, 32});
  add_part(b, ".qzeros", "I32", {1, 4});
  add_part(b, ".scales", "F16", {1, 32});
  add_part(b, ".g_idx", "I32", {128});
  return b;
}

inline HfBuilder compressed_model() {
  HfBuilder b = without_down();
  const nlohmann::json weights = {{"num_bits", 4}, {"type", "int"}, {"strategy", "group"}};
  b.config["quantization_config"] = {{"quant_method", "compressed-tensors"},
                                     {"format", "pack-quantized"},
                                     {"config_groups", {{"group_0", {{"weights", weights}}}}}};
  return b;
}

inline HfBuilder packed_model() {
  HfBuilder b = compressed_model();
  add_part(b, ".weight_packed", "I32", {32, 16});
  add_part(b, ".weight_scale", "BF16", {32, 4});
  add_part(b, ".weight_shape", "I64", {2});
  set_integers(b, ".weight_shape", {32, 128});
  return b;
}

inline HfBuilder int8_model() {
  HfBuilder b = compressed_model();
  add_part(b, ".weight", "I8", {32, 128});
  add_part(b, ".weight_scale", "F32", {32, 1});
  return b;
}

inline HfBuilder fp8_model(std::uint32_t inner = 128) {
  HfBuilder b = without_down(inner);
  b.config["quantization_config"] = {{"quant_method", "fp8"}, {"weight_block_size", {128, 128}}};
  add_part(b, ".weight", "F8_E4M3", {32, inner});
  add_part(b, ".weight_scale_inv", "F32", {1, (inner + 127) / 128});
  return b;
}

// As DeepSeek-V4 stores what is no expert, and its experts.
inline HfBuilder fp8_model_of_exponents(std::uint32_t inner = 128) {
  HfBuilder b = fp8_model(inner);
  b.weights.erase("model.layers.0.mlp.down_proj.weight_scale_inv");
  add_part(b, ".scale", "F8_E8M0", {1, (inner + 127) / 128});
  return b;
}

inline HfBuilder fp4_model() {
  HfBuilder b = without_down();
  b.config["quantization_config"] = {{"quant_method", "fp8"}, {"weight_block_size", {128, 128}}};
  add_part(b, ".weight", "I8", {32, 64});
  add_part(b, ".scale", "F8_E8M0", {32, 4});
  return b;
}

inline HfBuilder mxfp4_model() {
  HfBuilder b = without_down();
  b.config["quantization_config"] = {{"quant_method", "mxfp4"}};
  add_part(b, ".weight_blocks", "U8", {32, 4, 16});
  add_part(b, ".weight_scales", "U8", {32, 4});
  return b;
}

inline void set_float(HfBuilder& b, const std::string& ending, float value) {
  auto& tensor = b.weights.tensor("model.layers.0.mlp.down_proj" + ending);
  std::memcpy(tensor.data.data(), &value, sizeof value);
}

// compressed-tensors' NVFP4, and ModelOpt's.
inline HfBuilder nvfp4_model() {
  HfBuilder b = compressed_model();
  auto& quantization = b.config["quantization_config"];
  quantization["format"] = "nvfp4-pack-quantized";
  quantization["config_groups"]["group_0"]["weights"] = {
      {"num_bits", 4}, {"type", "float"}, {"strategy", "tensor_group"}, {"group_size", 16}};
  add_part(b, ".weight_packed", "U8", {32, 64});
  add_part(b, ".weight_scale", "F8_E4M3", {32, 8});
  add_part(b, ".weight_global_scale", "F32", {1});
  add_part(b, ".input_global_scale", "F32", {1});
  set_float(b, ".weight_global_scale", 320.0F);
  return b;
}

inline HfBuilder modelopt_model() {
  HfBuilder b = without_down();
  b.config["quantization_config"] = {{"quant_method", "modelopt"}, {"quant_algo", "NVFP4"}};
  add_part(b, ".weight", "U8", {32, 64});
  add_part(b, ".weight_scale", "F8_E4M3", {32, 8});
  add_part(b, ".weight_scale_2", "F32", {});
  add_part(b, ".input_scale", "F32", {});
  set_float(b, ".weight_scale_2", 0.0625F);
  return b;
}

// ModelOpt's FP8: a scale for all.
inline HfBuilder modelopt_fp8_model() {
  HfBuilder b = without_down();
  b.config["quantization_config"] = {{"quant_method", "modelopt"}, {"quant_algo", "FP8"}};
  add_part(b, ".weight", "F8_E4M3", {32, 128});
  add_part(b, ".weight_scale", "F32", {});
  add_part(b, ".input_scale", "F32", {});
  return b;
}

// As Mistral stores experts: those of a layer in one, with a scale for each.
inline HfBuilder fp8_expert_model() {
  HfBuilder b = tiny_hf({.architecture = "qwen3_moe",
                         .vocabulary = 8,
                         .hidden = 128,
                         .inner = 128,
                         .layers = 1,
                         .qk_norm = true,
                         .experts = 3,
                         .experts_used = 2});
  b.config["quantization_config"] = {{"quant_method", "fp8"}, {"activation_scheme", "static"}};
  const std::string experts = "model.layers.0.mlp.experts.";
  std::erase_if(b.weights.tensors,
                [&](const auto& tensor) { return tensor.name.starts_with(experts); });
  const auto add = [&](const std::string& name, const char* dtype,
                       std::vector<std::uint64_t> shape) {
    std::size_t bytes = dtype[0] == 'B' ? 2 : 1;
    for (const std::uint64_t size : shape) bytes *= size;
    b.weights.tensors.push_back({experts + name, dtype, std::move(shape), Bytes(bytes)});
  };
  for (const auto& [name, rows] : {std::pair{"gate_up_proj", 256U}, std::pair{"down_proj", 128U}}) {
    add(name, "F8_E4M3", {3, rows, 128});
    add(name + std::string("_scale_inv"), "BF16", {3, 1, 1});
    add(name + std::string("_activation_scale"), "BF16", {3});
  }
  return b;
}

// One of each.
inline std::vector<HfBuilder> quantised_models() {
  return {awq_model(),   gptq_model(),     packed_model(),
          int8_model(),  fp8_model(),      fp8_model_of_exponents(),
          fp4_model(),   mxfp4_model(),    fp8_expert_model(),
          nvfp4_model(), modelopt_model(), modelopt_fp8_model()};
}

}  // namespace dovetail::load
