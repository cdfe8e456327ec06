#pragma once

#include "base/result.h"
#include "pipeline/config/pipeline_spec.h"
#include "pipeline/run/model_client.h"

namespace dovetail::pipeline {

// What single columns do with a record. `row` is an object that holds the columns they need.

// Whether skip_if says so. Errors are the template's.
Result<bool> is_skipped(const ColumnSpec& column, const Json& row);

Result<Json> evaluate(const ExpressionColumn& column, const Json& row);

// The question for a column that a model makes.
Result<ModelRequest> make_request(const ColumnSpec& column, const Json& row, std::uint64_t seed);

// What the answer means. kInvalid: it is not what the column wants, and another might be.
Result<Json> read_answer(const ColumnSpec& column, const ModelAnswer& answer);

}  // namespace dovetail::pipeline
