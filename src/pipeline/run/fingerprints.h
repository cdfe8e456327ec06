#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "pipeline/config/pipeline_spec.h"
#include "pipeline/store/cell.h"

namespace dovetail::pipeline {

Hash128 hash_of(std::string_view text);

// 128 bits of all that a column's values depend on, by column; `seed_data` stands for the rows of
// the seed.
std::vector<Hash128> fingerprints(const PipelineSpec& spec, std::uint64_t seed_data);

}  // namespace dovetail::pipeline
