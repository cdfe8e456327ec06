#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "laws/checker/lane_law_checker.h"

namespace dovetail::laws {

// Runs of lanes as text, for tests of their checker.

// "TIME ready TASK SHAPE [BLOCKS [COST]]; TIME start TASK[.BLOCK] GROUP.LANE...; TIME end ...": the
// blocks of a gang are followed by '!'. Shapes: C, V, 1C1V, 1C2V, 2V, group.
std::vector<LaneEvent> lane_events(const std::string& text);

// The first violation of such a run; "" where there is none.
std::string judge_lanes(const char* topology, const LaneRules& rules, const std::string& events);

LaneRules starvation_bound_of(std::uint32_t starvation_bound);
LaneRules under(cores::AdmissionPolicy policy);

}  // namespace dovetail::laws
