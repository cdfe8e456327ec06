#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "families/fields.h"

namespace dovetail::families {

// Of a config.json that switches windows on and gives no size.
inline constexpr std::uint32_t kQwenWindow = 4096;

// For each layer of Qwen2 and Qwen3 its window, 0 for none: use_sliding_window switches it on, for
// the layers that layer_types names, or for those from max_window_layers on, `usually_full` where a
// config.json does not give it.
std::vector<std::uint32_t> read_qwen_windows(Fields& fields, std::uint32_t layers,
                                             std::uint32_t usually_full = 28);

// Sections of the rotary embedding are for pictures: the positions of text are alike in all of
// them.
void read_qwen_sections(Fields& fields);

// Tensors that are for pictures.
inline constexpr std::string_view kQwenPictures[] = {"visual.", "model.visual."};

// Refuses the fields of a config.json that leave some layers without experts.
void refuse_dense_layers(Fields& fields);

}  // namespace dovetail::families
