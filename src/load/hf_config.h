#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "load/model_source.h"
#include "load/quantization.h"

namespace dovetail::load {

struct HuggingFaceConfig {
  ModelConfig model;
  Quantization quantization;
  std::vector<std::int32_t> eos_ids;
};

// Reads the text of a config.json of a Llama, Mistral, Mixtral, Qwen2, Qwen3 or Qwen3 MoE model.
// What would change the model's results and is not implemented is an error that names the field.
// `file` names the text in errors. Field names and defaults are those of the transformers library,
// old and new spellings.
Result<HuggingFaceConfig> parse_hf_config(std::string_view text, std::string_view file);

// Reads the text of a generation_config.json. Ids must be below `vocab_size`. `file` names the text
// in errors.
Result<GenerationDefaults> parse_generation_config(std::string_view text, std::string_view file,
                                                   std::uint32_t vocab_size);

}  // namespace dovetail::load
