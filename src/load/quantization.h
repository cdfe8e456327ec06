#pragma once

#include <cstddef>
#include <cstdint>

#include "load/json_fields.h"

namespace dovetail::load {

// What a config.json says of how its weights are quantised; the tensors tell the rest.
struct Quantization {
  enum class Method : std::uint8_t {
    kNone,
    kFp8,
    kCompressedTensors,
    kAwq,
    kGptq,
    kMxfp4,
    kModelOpt
  };

  Method method = Method::kNone;
  std::size_t group_size = 0;  // columns that share a scale; AWQ, GPTQ: 0 for all
  // compressed-tensors, GPTQ, ModelOpt: bits of a weight, and whether they are those of a float.
  // The tensors tell it as well, but for GPTQ.
  std::uint32_t weight_bits = 0;
  bool weight_floats = false;
  bool zeros_less_one = false;  // GPTQ: zero points are stored less by one
  // FP8: rows and columns that share a scale where a tensor has more than one for each row; 0: none
  // do.
  std::size_t block_rows = 0, block_columns = 0;
  bool cache_scales = false;  // there may be scales of a quantised cache beside the weights
};

// Reads quantization_config, if there is one. What is not implemented is a failure of `fields`,
// which name `file`.
Quantization read_quantization(JsonFields& fields, const std::string& file);

// The same of hf_quant_config.json, where ModelOpt says it beside a config.json that does not.
Quantization read_modelopt_quantization(JsonFields& fields, const std::string& file);

}  // namespace dovetail::load
