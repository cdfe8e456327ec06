#pragma once

#include <vector>

#include "pipeline/config/column_draft.h"
#include "pipeline/config/fields.h"
#include "pipeline/config/pipeline_spec.h"

namespace dovetail::pipeline {

// The field `figures` of the file. `reads`: what the templates read.
std::vector<FigureSpec> read_figures(const Document& document, Fields& top,
                                     std::vector<ColumnRead>& reads);

}  // namespace dovetail::pipeline
