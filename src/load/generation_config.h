#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "load/container.h"
#include "load/model_source.h"

namespace dovetail::load {

// Reads the text of a generation_config.json. Ids must be below `vocab_size`. `file` names the text
// in errors.
Result<GenerationDefaults> parse_generation_config(std::string_view text, std::string_view file,
                                                   std::uint32_t vocab_size);

// The ids that end a generation, as config.json has them.
Result<std::vector<std::int32_t>> read_eos_ids(const Container& container,
                                               std::uint32_t vocab_size);

}  // namespace dovetail::load
