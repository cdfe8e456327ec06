#pragma once

#include "base/sampling_table.h"
#include "dovetail/request.h"

namespace dovetail {

// The member of SamplingParams that a row of the table speaks of, read and written.
double sampling_value(const SamplingParams& params, const SamplingRow& row);
// `value` is within the row's range.
void set_sampling_value(SamplingParams& params, const SamplingRow& row, double value);

// Parameters with these values; the others are as they are made.
SamplingParams sampling_params(const SamplingValues& values);

}  // namespace dovetail
