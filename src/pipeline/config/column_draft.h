#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/config/column_spec.h"
#include "pipeline/config/models_section.h"
#include "pipeline/sample/fields.h"
#include "pipeline/sample/sampler.h"

namespace dovetail::pipeline {

// A column that something reads, and where that is said.
struct ColumnRead {
  std::string name;
  std::string pointer;
};

// A column before it is known which others there are.
struct ColumnDraft {
  ColumnDescription spec;
  std::vector<ColumnRead> reads;
  std::string pointer;
  std::optional<SamplerColumn> sampler;  // of a column that is drawn
  bool is_wrong = false;                 // nothing but its name is to be relied on
};

// What the columns of one file have in common.
struct ColumnContext {
  const Document& document;
  const std::filesystem::path& folder;  // where relative paths start
  const ModelsSection& models;
  std::span<const ColumnType> types = {};  // of the program
};

// A template, and what it reads; nothing where it is absent or wrong.
std::optional<text::ChatTemplate> read_template(Fields& fields, std::string_view key,
                                                std::vector<ColumnRead>& reads);
// As read_template(), and wrong where it is absent.
std::optional<text::ChatTemplate> required_template(Fields& fields, std::string_view key,
                                                    std::vector<ColumnRead>& reads);

// The readers of the types: they set draft.spec.what unless something is wrong. `fields` is the
// column, whose `name`, `type` and common fields have been read.
void read_text_column(const ColumnContext& context, Fields& fields, ColumnDraft& draft);
void read_code_column(const ColumnContext& context, Fields& fields, ColumnDraft& draft);
void read_structured_column(const ColumnContext& context, Fields& fields, ColumnDraft& draft);
void read_judge_column(const ColumnContext& context, Fields& fields, ColumnDraft& draft);
void read_validation_column(const ColumnContext& context, Fields& fields, ColumnDraft& draft);
void read_sampler_column(const ColumnContext& context, const Json& value, Fields& fields,
                         ColumnDraft& draft);

// What an `llm-` column asks its model, and how often; nothing where something is wrong.
// `corrections`: how many there are where the file does not say; nothing: answers are never wrong.
std::optional<ModelCall> read_call(const ColumnContext& context, Fields& fields,
                                   std::optional<std::uint32_t> corrections, ColumnDraft& draft);

// The schema in `schema`, or in the file that `schema_file` names, whose text becomes part of the
// column's recipe; nothing where there is neither, or something is wrong.
std::optional<JsonSchema> read_schema(const ColumnContext& context, Fields& fields,
                                      ColumnDraft& draft);

}  // namespace dovetail::pipeline
