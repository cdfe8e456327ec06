#pragma once

#include <string>
#include <vector>

#include "pipeline/config/column_draft.h"

namespace dovetail::pipeline {

// Whether all that is read is among `drafts`; the near ones are told of what is not.
bool check_reads(const Document& document, const std::vector<ColumnRead>& reads,
                 const std::vector<ColumnDraft>& drafts, Mistakes& mistakes);

// Indices of `drafts`, each after those it reads, which are there, else in the order of the file.
// kInvalid: columns that need each other in a circle.
Result<std::vector<std::size_t>> order_of(const Document& document,
                                          const std::vector<ColumnDraft>& drafts);

}  // namespace dovetail::pipeline
