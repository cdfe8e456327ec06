#pragma once

#include <cstdint>
#include <string>

#include "simulate/replica.h"

namespace dovetail::simulate {

// Tables for people: latencies (mean, P50, P99, P99.9 and the maximum: P99 cannot see a stall),
// throughput, step mix, preemptions.
std::string report_text(const Figures& figures, std::uint32_t replicas);

// The same as one JSON object; times in seconds.
std::string report_json(const Figures& figures, std::uint32_t replicas);

}  // namespace dovetail::simulate
