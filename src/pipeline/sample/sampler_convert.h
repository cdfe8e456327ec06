#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "pipeline/sample/sampler.h"

namespace dovetail::pipeline {

// The nearest number with so many decimals (0 to 15), ties to even; numbers too large to have any
// stay as they are. ceil and floor: the nearest one at or above, at or below.
double round_decimals(double x, int decimals);
double ceil_decimals(double x, int decimals);
double floor_decimals(double x, int decimals);

// The text by which a value of a parent column is looked up.
std::string category_key(const nlohmann::ordered_json& value);

// Nothing where the value has no such form: a text that is no number, a number beyond 64 bits, a
// list.
std::optional<nlohmann::ordered_json> convert(const nlohmann::ordered_json& value,
                                              Conversion conversion);

}  // namespace dovetail::pipeline
