#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "pipeline/config/column_draft.h"
#include "pipeline/sample/sampler_set.h"

namespace dovetail::pipeline {

// The section `constraints`, a list at /constraints (null: there is none), of which every one ties
// sampler columns.
std::vector<Constraint> read_constraints(const Document& document, const Json* section,
                                         const std::vector<ColumnDraft>& drafts,
                                         Mistakes& mistakes);

// All sampler columns of the drafts, which read nothing but columns that are there and in no
// circle. Columns that are drawn together then read what any of them does, and have each other's
// recipes. Nothing where no column is drawn.
// An error has a line for each mistake.
Result<std::optional<SamplerSet>> link_samplers(const Document& document,
                                                std::vector<Constraint> constraints,
                                                std::uint64_t run_seed,
                                                std::vector<ColumnDraft>& drafts);

}  // namespace dovetail::pipeline
