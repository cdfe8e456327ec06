#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "pipeline/config/pipeline_spec.h"
#include "pipeline/sample/seed.h"

namespace dovetail::pipeline {

// The columns of a spec that are drawn or read from its seed data. Immutable; may be used from
// several threads at once.
class Draws {
 public:
  // Opens the seed data. kInvalid where it has fewer rows than the spec has records.
  static Result<Draws> open(const PipelineSpec& spec);

  // Sets the column, and those it comes with, in a row that holds what they need.
  Status draw(ColumnId column, RecordId record, Json& row) const;

  // Tells the seed's data from others'; 0 where there is none.
  std::uint64_t seed_fingerprint() const { return seed_ ? seed_->fingerprint() : 0; }

 private:
  Draws() = default;

  std::shared_ptr<const SeedSource> seed_;
  std::shared_ptr<const SamplerSet> samplers_;
  std::vector<std::size_t> groups_;  // by column, of those that are drawn
};

}  // namespace dovetail::pipeline
