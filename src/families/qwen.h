#pragma once

#include <cstdint>

#include "families/fields.h"

namespace dovetail::families {

// The window of Qwen2 and Qwen3: use_sliding_window switches it on, for layers from
// max_window_layers on.
std::uint32_t read_qwen_window(Fields& fields, std::uint32_t layers);

// Refuses the fields of a config.json that leave some layers without experts.
void refuse_dense_layers(Fields& fields);

}  // namespace dovetail::families
