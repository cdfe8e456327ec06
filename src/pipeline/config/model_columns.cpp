#include "pipeline/config/column_draft.h"

namespace dovetail::pipeline {

void read_text_column(const ColumnContext& context, Fields& fields, ColumnDraft& draft) {
  auto call = read_call(context, fields, draft);
  const bool strip = fields.flag("strip").value_or(true);
  if (!call) return;
  // Any text will do, so there is nothing to ask again for but a model that failed.
  draft.spec.retries = static_cast<std::uint32_t>(fields.integer("retries", 0, 100).value_or(2));
  draft.spec.what = TextColumn{*std::move(call), strip};
}

void read_code_column(const ColumnContext& context, Fields& fields, ColumnDraft& draft) {
  auto call = read_call(context, fields, draft);
  CodeColumn column;
  column.language = fields.required_text("language");
  column.last = fields.choice("fence", {"last", "first"}).value_or(0) == 0;
  const bool instruct = fields.flag("instructions").value_or(true);
  if (!call) return;
  call->instruct = instruct;
  read_attempts(fields, *call, 1, draft);
  column.call = *std::move(call);
  draft.spec.what = std::move(column);
}

void read_structured_column(const ColumnContext& context, Fields& fields, ColumnDraft& draft) {
  auto call = read_call(context, fields, draft);
  auto schema = read_schema(context, fields, draft);
  if (fields.ok() && !schema) fields.wrong("schema", "expected a JSON schema here, or schema_file");
  const bool instruct = fields.flag("instructions").value_or(true);
  if (!call || !schema) return;
  call->instruct = instruct;
  read_attempts(fields, *call, 1, draft);
  draft.spec.what = StructuredColumn{*std::move(call), *std::move(schema)};
}

}  // namespace dovetail::pipeline
