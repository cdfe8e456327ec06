#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "pipeline/config/column_spec.h"
#include "pipeline/config/document.h"
#include "pipeline/config/model_spec.h"
#include "pipeline/sample/seed_spec.h"

namespace dovetail::pipeline {

class SamplerSet;

// What a pipeline file says, checked as far as it can be without opening models and data. The text
// of a template is parsed here, and every name in it is a column.

// When a run ends early; what it has is kept.
struct LimitsSpec {
  std::optional<double> cost;  // in the unit of the models' prices
  // More than this share of the last so many cells that models made have failed for good.
  double error_share = 0.5;
  std::uint32_t error_window = 100;
  std::chrono::milliseconds stall{600'000};  // for so long no request has succeeded
};

// The run goes on until so many records are accepted.
struct TargetSpec {
  std::uint64_t count = 0;
  text::ChatTemplate when;      // "true" or "True": this record counts
  std::vector<ColumnId> needs;  // what `when` reads
};

// A figure of the report: of the records for which `among` says true (all, where it is absent), the
// share for which `share_of` does. A record for which either says neither true nor false does not
// count.
struct FigureSpec {
  std::string name, about;
  text::ChatTemplate share_of;
  std::optional<text::ChatTemplate> among;
};

struct PipelineSpec {
  std::string name;
  std::filesystem::path file;  // relative paths in it start at its folder
  std::uint64_t records = 0;   // with a target: the most that are tried
  std::uint64_t seed = 0;      // of everything that is drawn
  std::uint64_t window = 0;    // open records, at most
  bool fair = false;
  std::optional<SeedSpec> seed_data;
  // The sampler columns and their constraints; null where there are none.
  std::shared_ptr<const SamplerSet> samplers;
  std::vector<ModelSpec> models;
  std::vector<ColumnDescription> columns;  // every one needs only columns before it
  std::optional<TargetSpec> target;
  LimitsSpec limits;
  std::vector<FigureSpec> figures;  // of the report

  // Index in `models`; the alias is known to be there.
  std::size_t model(const std::string& alias) const;
};

// `seed_fields`: the columns of the data that the section `seed` describes, asked for once where
// there is such a section. Errors have a line for each mistake, with file, line, column and JSON
// pointer.
using SeedFields = std::function<Result<std::vector<std::string>>(
    const SeedSpec& seed, const std::filesystem::path& folder)>;
Result<PipelineSpec> parse_pipeline(std::string_view yaml, const std::filesystem::path& file,
                                    const SeedFields& seed_fields,
                                    std::span<const ColumnType> types = {});

}  // namespace dovetail::pipeline
