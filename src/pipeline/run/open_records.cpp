#include "pipeline/run/open_records.h"

#include <utility>

namespace dovetail::pipeline {

void OpenRecord::drop(ColumnId column, std::string why) {
  if (!reason.empty() && dropped_by < column) return;
  reason = std::move(why);
  dropped_by = column;
}

Status apply(const PipelineSpec& spec, const CellResult& cell, OpenRecord& record) {
  Json& value = record.row[spec.columns[cell.column].name];
  switch (cell.state) {
    case CellState::kValue:
      value = Json::parse(cell.json, nullptr, false);
      if (cell.provenance.cut) record.cut.insert(cell.column);
      if (!value.is_discarded()) return {};
      return fail(ErrorKind::kIo, "the stored value of record {}, column '{}' is no JSON: {}",
                  cell.record, spec.columns[cell.column].name, cell.json.substr(0, 100));
    case CellState::kDropped:
      record.drop(cell.column, cell.json);
      break;
    case CellState::kFailed:
    case CellState::kSkipped:
    case CellState::kForgotten:
      break;
  }
  value = nullptr;
  record.absent[cell.column] = true;
  return {};
}

Result<OpenRecord> restore(const PipelineSpec& spec, const std::vector<CellResult>& cells) {
  OpenRecord record;
  record.absent.assign(spec.columns.size(), false);
  for (const CellResult& cell : cells) {
    if (Status ok = apply(spec, cell, record); !ok) return fail(std::move(ok.error()));
  }
  return record;
}

}  // namespace dovetail::pipeline
