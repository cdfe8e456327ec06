#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "cores/admission.h"

namespace dovetail::cores {

// How shapes and lanes are called in messages, traces and files.

// "C", "V", "2V", "1C2V"; "group" for a whole one, "none" without lanes.
std::string shape_name(const TaskShape& shape);
// What shape_name() writes; "1C" and "1V" as well. kInvalid says what would be valid.
Result<TaskShape> parse_shape(std::string_view text);

// "group 3 · matrix 0": lanes of a kind are counted from 0; those for both are "lane 0".
std::string lane_name(const GroupSpec& spec, GroupId group, unsigned lane);

}  // namespace dovetail::cores
