#pragma once

#include <optional>
#include <string_view>

#include "pipeline/config/pipeline_spec.h"

namespace dovetail::pipeline {

// Without white space at both ends.
std::string_view stripped(std::string_view text);

// True and False as templates write them, or as JSON has them.
std::optional<bool> flag_of(std::string_view text);

// The scores of a rubric, "1, 2, 3".
std::string options_of(const Rubric& rubric);

}  // namespace dovetail::pipeline
