#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dovetail::load {

// The GGUF name of a tensor of a Llama, Mistral, Qwen2 or Qwen3 checkpoint:
// "model.layers.3.mlp.up_proj.weight" is "blk.3.ffn_up.weight". Nothing for other tensors.
std::optional<std::string> gguf_name_of(std::string_view name);

}  // namespace dovetail::load
