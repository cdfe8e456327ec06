#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace dovetail::simulate {

struct Arrival {
  std::int64_t time = 0;  // nanoseconds from the start; never before the arrival before it
  std::uint32_t prompt_tokens = 1;
  std::uint32_t output_tokens = 1;
  std::int32_t priority = 0;
  std::uint32_t tenant = 0;
  // Prompts of one family have their first `shared_tokens` in common; 0: of no family.
  std::uint32_t family = 0;
  std::uint32_t shared_tokens = 0;
};

// The next request; nothing: the end. Requests come in the order of their times.
using Workload = std::function<std::optional<Arrival>()>;

// Lengths: "fixed:N", "uniform:A-B", "lognormal:MEDIAN:SIGMA" (cut at 64 medians), "longtail:N" (a
// Pareto law from N on with exponent 1.5, cut at 64 N).
// Times: "all" (at once), "poisson:RATE" (per second), "uniform:RATE", "burst:N@SECONDS" (N at
// once, every so many seconds).
struct WorkloadSpec {
  std::uint64_t requests = 1000;
  std::string arrivals = "poisson:1";
  std::string prompt = "fixed:512";
  std::string output = "fixed:128";
  std::uint32_t tenants = 1;        // drawn evenly
  std::uint32_t families = 0;       // drawn evenly; 0: none
  std::uint32_t shared_tokens = 0;  // that a family's prompts begin with
  std::uint64_t seed = 1;
};

// The same spec gives the same requests. kInvalid names the law, its text and what would be valid.
Result<Workload> generate(const WorkloadSpec& spec);

// A CSV file: a line of names, then one request per line: arrival (seconds), prompt_tokens,
// output_tokens, and optionally priority, tenant, family and shared_tokens, in any order. Sorted by
// arrival. kInvalid names file, line and column.
Result<std::vector<Arrival>> read_trace(const std::string& path);
Result<std::vector<Arrival>> parse_trace(std::string_view text, std::string_view name);

Workload replay(std::vector<Arrival> arrivals);

}  // namespace dovetail::simulate
