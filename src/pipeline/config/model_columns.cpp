#include "pipeline/config/column_draft.h"

namespace dovetail::pipeline {

void read_text_column(const ColumnContext& context, Fields& fields, ColumnDraft& draft) {
  auto call = read_call(context, fields, std::nullopt, draft);
  const bool strip = fields.flag("strip").value_or(true);
  if (call) draft.spec.what = TextColumn{*std::move(call), strip};
}

void read_code_column(const ColumnContext& context, Fields& fields, ColumnDraft& draft) {
  auto call = read_call(context, fields, 1, draft);
  CodeColumn column;
  column.language = fields.required_text("language");
  column.last = fields.choice("fence", {"last", "first"}).value_or(0) == 0;
  const bool instruct = fields.flag("instructions").value_or(true);
  if (!call) return;
  call->instruct = instruct;
  column.call = *std::move(call);
  draft.spec.what = std::move(column);
}

void read_structured_column(const ColumnContext& context, Fields& fields, ColumnDraft& draft) {
  auto call = read_call(context, fields, 1, draft);
  auto schema = read_schema(context, fields, draft);
  if (!fields.has("schema") && !fields.has("schema_file")) {
    fields.wrong("schema", "expected a JSON schema here, or schema_file");
  }
  const bool instruct = fields.flag("instructions").value_or(true);
  if (!call || !schema) return;
  call->instruct = instruct;
  draft.spec.what = StructuredColumn{*std::move(call), *std::move(schema)};
}

}  // namespace dovetail::pipeline
