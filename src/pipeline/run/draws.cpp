#include "pipeline/run/draws.h"

#include <utility>
#include <variant>

namespace dovetail::pipeline {

Result<Draws> Draws::open(const PipelineSpec& spec) {
  Draws draws;
  if (spec.seed_data) {
    const auto seed = parse_seed(*spec.seed_data, "/seed");
    if (!seed) return fail(seed.error());
    auto source = open_seed(*seed, spec.file.parent_path(), spec.seed);
    if (!source) return fail(std::move(source.error()));
    draws.seed_ = *std::move(source);
    if (!seed->wrap && draws.seed_->count() < spec.records) {
      return fail(ErrorKind::kInvalid,
                  "{}: the seed data has {} rows and {} records are asked for; expected at most as "
                  "many records as rows, or `wrap: true`",
                  spec.file.string(), draws.seed_->count(), spec.records);
    }
  }
  std::vector<SamplerColumn> columns;
  std::vector<std::string> others;
  std::vector<std::size_t> places;
  for (const ColumnDescription& column : spec.columns) {
    const auto* drawn = std::get_if<DrawnColumn>(&column.what);
    places.push_back(columns.size());
    if (drawn == nullptr) {
      others.push_back(column.name);
      continue;
    }
    auto parsed = parse_sampler_column(
        column.name, Json{{"sampler", drawn->kind}, {"params", drawn->params}}, column.name);
    if (!parsed) return fail(std::move(parsed.error()));
    columns.push_back(*std::move(parsed));
  }
  auto samplers = SamplerSet::make(std::move(columns), {}, others, {.run_seed = spec.seed});
  if (!samplers) return fail(std::move(samplers.error()));
  draws.samplers_ = *std::move(samplers);
  for (std::size_t column = 0; column < spec.columns.size(); ++column) {
    const bool drawn = std::holds_alternative<DrawnColumn>(spec.columns[column].what);
    draws.groups_.push_back(drawn ? draws.samplers_->group_of(places[column]) : SIZE_MAX);
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
