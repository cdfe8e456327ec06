#include "pipeline/run/run_plan.h"

#include <fmt/core.h>
#include <xxhash.h>

#include <string>
#include <utility>
#include <variant>

#include "pipeline/sample/sampler_set.h"

namespace dovetail::pipeline {

RunQueues::RunQueues(const PipelineSpec& spec)
    : blocking(static_cast<QueueId>(spec.models.size())), instant(blocking + 1) {
  for (const ColumnDescription& column : spec.columns) {
    const std::string* alias = column.model();
    const QueueId queue = alias != nullptr  ? static_cast<QueueId>(spec.model(*alias))
                          : column.blocks() ? blocking
                                            : instant;
    of_column.push_back(queue);
    plans.push_back({column.needs, queue, column.priority});
  }
}

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

Hash128 hash_of(std::string_view text) {
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return {hash.high64, hash.low64};
}

std::vector<Hash128> fingerprints(const PipelineSpec& spec, std::uint64_t seed_data) {
  std::vector<Hash128> result;
  for (const ColumnDescription& column : spec.columns) {
    std::string all = fmt::format("{}\n{}\n{}", spec.seed, column.name, column.recipe);
    if (std::holds_alternative<SeedColumn>(column.what)) all += fmt::format("\n{:016x}", seed_data);
    for (const ColumnId need : column.needs) {
      all += fmt::format("\n{:016x}{:016x}", result[need].high, result[need].low);
    }
    result.push_back(hash_of(all));
  }
  return result;
}

}  // namespace dovetail::pipeline
