#include "pipeline/run/draws.h"

#include <utility>
#include <variant>

#include "pipeline/sample/sampler_set.h"

namespace dovetail::pipeline {

Result<Draws> Draws::open(const PipelineSpec& spec) {
  Draws draws;
  if (spec.seed_data) {
    auto source = open_seed(*spec.seed_data, spec.file.parent_path(), spec.seed);
    if (!source) return fail(std::move(source.error()));
    draws.seed_ = *std::move(source);
    if (!spec.seed_data->wrap && draws.seed_->count() < spec.records) {
      return fail(ErrorKind::kInvalid,
                  "{}: the seed data has {} rows and {} records are asked for; expected at most as "
                  "many records as rows, or `wrap: true`",
                  spec.file.string(), draws.seed_->count(), spec.records);
    }
  }
  draws.samplers_ = spec.samplers;
  for (const ColumnDescription& column : spec.columns) {
    const auto* drawn = std::get_if<DrawnColumn>(&column.what);
    draws.groups_.push_back(drawn == nullptr ? SIZE_MAX : drawn->group);
  }
  return draws;
}

Status Draws::draw(ColumnId column, RecordId record, Json& row) const {
  if (groups_[column] != SIZE_MAX) return samplers_->draw_group(groups_[column], record, row);
  auto fields = seed_->row(record);
  if (!fields) return fail(std::move(fields.error()));
  for (auto& [name, value] : fields->items()) row[name] = std::move(value);
  return {};
}

}  // namespace dovetail::pipeline
