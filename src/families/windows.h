#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "families/fields.h"

namespace dovetail::families {

// Positions that a sliding layer's query sees; nothing where the configuration gives none. `usual`
// is what a config.json means that says nothing of it, not even null; 0 for none.
std::optional<std::uint32_t> read_window(Fields& fields, std::uint32_t usual = 0);

// The window of a model whose layers are alike, 0 for none. `slides` is what the configuration says
// besides its layer_types, which must agree.
std::uint32_t read_uniform_window(Fields& fields, std::uint32_t layers, bool slides,
                                  std::uint32_t usual = 0);

// For each layer its window, 0 for none: those slide that the configuration lists, else those from
// `first` on. `on` is what it says besides its list, which must agree.
std::vector<std::uint32_t> read_windows(Fields& fields, std::uint32_t layers, bool on,
                                        std::uint32_t first, std::uint32_t usual = 0);

// Whether use_sliding_window switches the window of a config.json on.
bool uses_sliding_window(Fields& fields, std::uint32_t usual = 0);

// Which layer of a period does not slide.
enum class FullLayer : std::uint8_t { kFirst, kLast };

// For each layer whether it slides: as the configuration's list or period says, else all but one of
// `period`, 0 for none.
std::vector<bool> read_sliding_layers(Fields& fields, std::uint32_t layers, std::uint32_t period,
                                      FullLayer full = FullLayer::kLast);

}  // namespace dovetail::families
