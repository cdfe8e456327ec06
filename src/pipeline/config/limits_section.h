#pragma once

#include "pipeline/config/fields.h"
#include "pipeline/config/pipeline_spec.h"

namespace dovetail::pipeline {

// The field `limits` of the file; what is absent is the default.
LimitsSpec read_limits(const Document& document, Fields& top);

}  // namespace dovetail::pipeline
