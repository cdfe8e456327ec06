#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "pipeline/config/pipeline_spec.h"
#include "pipeline/flow/column_plan.h"
#include "pipeline/sample/seed.h"
#include "pipeline/store/cell.h"

namespace dovetail::pipeline {

// Where the cells of a run wait: a queue for each model, one for what may take long on another
// thread, and one for what is made at once.
struct RunQueues {
  explicit RunQueues(const PipelineSpec& spec);

  QueueId blocking = 0;  // behind the models'
  QueueId instant = 0;
  std::vector<QueueId> of_column;
  std::vector<ColumnPlan> plans;  // of the columns
};

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

Hash128 hash_of(std::string_view text);

// 128 bits of all that a column's values depend on, by column; `seed_data` stands for the rows of
// the seed.
std::vector<Hash128> fingerprints(const PipelineSpec& spec, std::uint64_t seed_data);

}  // namespace dovetail::pipeline
