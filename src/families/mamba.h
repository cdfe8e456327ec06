#pragma once

#include <cstdint>

#include "families/families.h"
#include "families/fields.h"
#include "families/names.h"
#include "load/model_config.h"

namespace dovetail::families {

// What a config.json means that leaves a size out. 0: it must be given; of a head: the heads share
// `inner`, or, where that is 0, so many times the hidden size as another field says.
struct MambaSizes {
  std::uint32_t heads = 0, head_dim = 0, groups = 1, state_dim = 0, inner = 0;
};

// Mamba-2 as Granite 4.0 H, Nemotron-H and Falcon-H1 have it, by the names of Granite's fields;
// others spell() theirs. `first`: the first layer that has it, whose tensors a GGUF file is asked
// for what no key says.
load::MambaConfig read_mamba(Fields& fields, const load::NormConfig& norm, std::uint32_t hidden,
                             const MambaSizes& usual, std::uint32_t first);

// Converters store a column of the numbers that each head has, and rows of the norms' groups.
Status flatten_mamba(load::StoredTensors& tensors, Owned& owned);

}  // namespace dovetail::families
