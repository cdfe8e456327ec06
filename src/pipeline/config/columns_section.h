#pragma once

#include <vector>

#include "pipeline/config/column_draft.h"

namespace dovetail::pipeline {

inline constexpr std::size_t kMostColumns = 1000;

// Reads the section `columns`, a list at /columns. `drafts` has the seed's columns, and takes the
// others; a name comes once.
Status read_columns(const ColumnContext& context, const Json& section,
                    std::vector<ColumnDraft>& drafts);

// Adds a column whose name is one, and not there yet.
Status add_column(const Document& document, ColumnDraft draft, std::vector<ColumnDraft>& drafts);

}  // namespace dovetail::pipeline
