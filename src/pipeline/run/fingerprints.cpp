#include "pipeline/run/fingerprints.h"

#include <fmt/core.h>
#include <xxhash.h>

#include <string>
#include <variant>

namespace dovetail::pipeline {

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
