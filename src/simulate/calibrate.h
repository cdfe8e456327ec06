#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "schedule/step_cost.h"

namespace dovetail::simulate {

// A step that was measured.
struct MeasuredStep {
  schedule::StepLoad load;
  double microseconds = 0.0;
};

// A CSV file with the columns prefill_tokens, decode_rows, context_tokens and microseconds, such as
// engine_bench writes. kInvalid names file, line and column.
Result<std::vector<MeasuredStep>> parse_steps(std::string_view text, std::string_view name);

struct Calibration {
  schedule::StepCost cost;
  double median_error = 0.0;  // of the predictions, as a share of what was measured
  double worst_error = 0.0;   // that nine of ten steps do not exceed
};

// The non-negative coefficients with the least squared relative error. kInvalid: there are too few
// steps, or all look alike.
Result<Calibration> calibrate(std::span<const MeasuredStep> steps);

}  // namespace dovetail::simulate
