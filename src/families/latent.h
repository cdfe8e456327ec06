#pragma once

#include "families/common.h"

namespace dovetail::families {

// The heads of latent attention and their sizes. What turns, the scale and an indexer are the
// family's.
load::LatentConfig read_latent_sizes(Fields& fields, const NormConfig& norm);

}  // namespace dovetail::families
