#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dovetail {

// Up to three of `names` that `given` may be a slip of, nearest first: at most two letters apart,
// or a third of its own (put in, left out, replaced, or swapped with a neighbour; '-' and '_' count
// as the same).
std::vector<std::string> near_matches(std::string_view given,
                                      const std::vector<std::string>& names);

// Those, behind the only one of `names` that begins with `given`, where there is one.
std::vector<std::string> begun_or_near(std::string_view given,
                                       const std::vector<std::string>& names);

}  // namespace dovetail
