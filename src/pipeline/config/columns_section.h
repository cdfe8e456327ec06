#pragma once

#include <string>
#include <vector>

#include "pipeline/config/column_draft.h"

namespace dovetail::pipeline {

inline constexpr std::size_t kMostColumns = 1000;

// Reads the section `columns`, a list at /columns. `drafts` has the seed's columns, and takes the
// others; a name comes once. Columns that are wrong are there, too, so that others find their
// names. False: of some column not even the name is known.
bool read_columns(const ColumnContext& context, const Json& section,
                  std::vector<ColumnDraft>& drafts, Mistakes& mistakes);

// Adds a column whose name is one, and not there yet.
Status add_column(const Document& document, ColumnDraft draft, std::vector<ColumnDraft>& drafts);

// Whether all that is read is among `drafts`; the near ones are told of what is not.
bool check_reads(const Document& document, const std::vector<ColumnRead>& reads,
                 const std::vector<ColumnDraft>& drafts, Mistakes& mistakes);

// Indices of `drafts`, each after those it reads, which are there, else in the order of the file.
// kInvalid: columns that need each other in a circle.
Result<std::vector<std::size_t>> order_of(const Document& document,
                                          const std::vector<ColumnDraft>& drafts);

}  // namespace dovetail::pipeline
