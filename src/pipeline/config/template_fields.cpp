#include "pipeline/config/column_draft.h"

namespace dovetail::pipeline {

std::optional<text::ChatTemplate> read_template(Fields& fields, std::string_view key,
                                                std::vector<ColumnRead>& reads) {
  const auto source = fields.text(key);
  if (!source) return std::nullopt;
  auto parsed = text::ChatTemplate::parse(*source, key);
  if (!parsed) {
    fields.wrong(key, "{}", parsed.error().message);
    return std::nullopt;
  }
  for (std::string& name : parsed->free_names()) {
    reads.push_back({std::move(name), fields.at(key)});
  }
  return *std::move(parsed);
}

std::optional<text::ChatTemplate> required_template(Fields& fields, std::string_view key,
                                                    std::vector<ColumnRead>& reads) {
  auto parsed = read_template(fields, key, reads);
  if (!parsed && !fields.has(key)) fields.wrong(key, "expected a template here");
  return parsed;
}

}  // namespace dovetail::pipeline
