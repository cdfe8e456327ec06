#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "pipeline/config/pipeline_spec.h"
#include "pipeline/run/column_work.h"
#include "pipeline/store/cell.h"

namespace dovetail::pipeline {

// What is known of a record while its cells are made.
struct OpenRecord {
  Json row = Json::object();  // by column; null for what was skipped or has failed
  std::vector<bool> absent;   // by column: skipped or failed
  std::set<ColumnId> cut;     // whose answer was ended by its limit of tokens
  std::map<ColumnId, std::vector<FailedAttempt>> failed;  // of cells that are asked for again
  std::string reason;                                     // why it was dropped; empty: it was not
  ColumnId dropped_by = 0;                                // where it was

  // Of several columns that drop it, the first one says why, whichever was heard first.
  void drop(ColumnId column, std::string why);
};

// Puts an ended cell into a record. kIo: the text of a value is no JSON.
Status apply(const PipelineSpec& spec, const CellResult& cell, OpenRecord& record);

// A record of durable cells, all of which have ended or one of which has dropped it.
Result<OpenRecord> restore(const PipelineSpec& spec, const std::vector<CellResult>& cells);

}  // namespace dovetail::pipeline
