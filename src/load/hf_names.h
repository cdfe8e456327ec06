#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dovetail::load {

// The GGUF name of a tensor of a Llama, Mistral, Mixtral, Qwen2, Qwen3 or Qwen3 MoE checkpoint:
// "model.layers.3.mlp.up_proj.weight" is "blk.3.ffn_up.weight", and
// "model.layers.3.mlp.experts.5.up_proj.weight" is "blk.3.ffn_up.5.weight". Nothing for other
// tensors.
std::optional<std::string> gguf_name_of(std::string_view name);

}  // namespace dovetail::load
