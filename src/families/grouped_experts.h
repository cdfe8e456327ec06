#pragma once

#include <cstdint>

#include "families/common.h"

namespace dovetail::families {

// A number that a config.json may give as null; `usual` where it says nothing.
std::uint32_t count_or_none(Fields& fields, Key key, std::uint32_t high, std::uint32_t usual = 0);

// The layers of a model whose first ones are dense and whose others have experts in groups, as
// DeepSeek's have (https://arxiv.org/abs/2401.06066): all are `layer` but for the feed-forward,
// which is read here. With them how many layers behind them draft tokens, and the first of those;
// drop_draft_layers() was before.
void read_grouped_layers(Fields& fields, LayerConfig layer, std::uint32_t layers,
                         ModelConfig& config);

}  // namespace dovetail::families
